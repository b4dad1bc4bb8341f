"""The monitor in the loops of transformers and Lightning, and in TensorBoard."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import close, halves, ones  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import ModuleMonitor  # noqa: E402


class Writer:
    """As much of a SummaryWriter as is used."""

    def __init__(self) -> None:
        self.got: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.got.append((tag, value, step))


def test_a_writer_is_given_each_step_once() -> None:
    model, monitor = halves()
    writer, second = Writer(), Writer()
    for step in (0, 3):
        monitor.begin_step(step)
        model(ones(step))
        monitor.to_tensorboard(writer)  # the step has not ended: nothing of it
        monitor.end_step()
        monitor.to_tensorboard(writer)
        monitor.to_tensorboard(writer)
    key = "activation/[root module]/mean"
    assert writer.got == [(key, 0, 0), (key, 1.5, 3)]
    monitor.to_tensorboard(second)
    assert second.got == writer.got


def test_a_new_writer_is_given_every_step_whoever_had_its_address_before() -> None:
    model, monitor = halves()
    monitor.begin_step(0)
    model(ones(0))
    monitor.end_step()
    for _ in range(10):
        writer = Writer()
        monitor.to_tensorboard(writer)
        assert len(writer.got) == 1
        del writer


def test_the_libraries_are_not_imported_before_they_are_used() -> None:
    code = (
        "import sys, tensortap.monitor\n"
        "names = ('transformers', 'lightning', 'tensorboard', 'h5py', 'matplotlib')\n"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.heavy
def test_a_summary_writer_writes_what_tensorboard_reads(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    model, monitor = halves()
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (0, 20):
            monitor.begin_step(step)
            model(ones(step))
            monitor.end_step()
            monitor.to_tensorboard(writer)
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    (tag,) = read.Tags()["scalars"]
    assert tag.startswith("activation/")
    assert [(event.step, event.value) for event in read.Scalars(tag)] == [(0, 0.0), (20, 10.0)]


def add_metrics(monitor: Any) -> None:
    monitor.add_activation_metric("mean")
    monitor.add_parameter_metric("norm")
    monitor.add_gradient_metric("norm")


def test_after_a_trainers_end_the_metrics_are_those_of_the_last_monitored_step() -> None:
    from tensortap.monitor.trainers import _Monitored

    model, monitor = halves()
    monitor.monitor_step_fn = lambda step: step == 0
    placed = _Monitored(monitor)
    for step in range(2):
        placed.step_began(step)
        model(ones(step))
        placed.batch_ended(is_step=True)
    assert monitor.get_step_metrics() == {}  # of step 1
    placed.training_ended()
    assert monitor.get_step_metrics() == monitor.get_all_metrics()[0] != {}
    placed.step_began(2)  # training goes on
    assert monitor.get_step_metrics() == {}


# ---- transformers


def tiny() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=20, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return GPT2LMHeadModel(config)


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int) -> dict[str, Any]:
        ids = (torch.arange(6) * (i + 3)) % 20
        return {"input_ids": ids, "labels": ids}


@pytest.mark.heavy
def test_a_transformers_trainer_measures_before_the_optimizers_step(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainerCallback, TrainingArguments

    from tensortap.monitor import TransformersCallback

    seen: dict[int, dict[str, float]] = {}
    logged: list[int] = []

    class Look(TrainerCallback):
        def on_pre_optimizer_step(
            self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any
        ) -> None:
            seen[state.global_step] = {
                **{f"gradient/{n}/norm": float(p.grad.norm()) for n, p in model.named_parameters()},
                **{
                    f"parameter/{n}/norm": float(p.detach().norm())
                    for n, p in model.named_parameters()
                },
            }

    def train(is_monitored: bool) -> tuple[Any, Any]:
        model = tiny()
        monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 2 == 0)
        add_metrics(monitor)
        arguments = TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            max_steps=6,  # the last is not monitored
            max_grad_norm=0.05,
            learning_rate=0.1,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
        )
        callbacks: list[Any] = [Look()]
        if is_monitored:
            callbacks.append(
                TransformersCallback(monitor, log=lambda step, metrics: logged.append(step))
            )
        Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=callbacks).train()
        return model, monitor

    plain, _ = train(False)
    model, monitor = train(True)
    assert all(
        torch.equal(a, b)
        for a, b in zip(plain.state_dict().values(), model.state_dict().values(), strict=True)
    )
    found = monitor.get_all_metrics()
    assert list(found) == logged == [0, 2, 4]
    assert monitor.get_step_metrics() == found[4]
    for step, metrics in found.items():
        for key, value in seen[step].items():
            assert close(metrics[key], value), key
        assert "activation/transformer.h.0.attn.0/mean" in metrics  # it returns a tuple
        total = sum(v**2 for k, v in metrics.items() if k.startswith("gradient/")) ** 0.5
        assert total <= 0.0501  # clipped


# ---- Lightning


@pytest.mark.heavy
@pytest.mark.parametrize("clips", [True, False])
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_measures_before_and_after_clipping(
    package: str, clips: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl = pytest.importorskip(package)
    if package == "pytorch_lightning":
        monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    from tensortap.monitor import trainers

    made = trainers.__getattr__("LightningCallback")
    del trainers.LightningCallback  # the next test has it of the other package
    logging.getLogger(package).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    seen: dict[int, dict[str, float]] = {}
    logged: list[int] = []

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

        def training_step(self, batch: Any, index: int) -> Any:
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.5)

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            seen.setdefault(self.trainer.global_step, {}).update(
                {
                    **{f"g/{n}": float(p.grad.norm()) for n, p in self.named_parameters()},
                    **{f"p/{n}": float(p.detach().norm()) for n, p in self.named_parameters()},
                }
            )

    def train(is_monitored: bool) -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = Model()
        data = torch.utils.data.TensorDataset(torch.randn(24, 4))
        monitor = ModuleMonitor(monitor_step_fn=lambda step: step != 3)
        add_metrics(monitor)
        trainer = pl.Trainer(
            max_steps=4,
            accumulate_grad_batches=2,
            gradient_clip_val=0.01 if clips else None,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=str(tmp_path),
            callbacks=[made(monitor, lambda step, metrics: logged.append(step))]
            if is_monitored
            else [],
        )
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=3))
        return model, monitor

    plain, _ = train(False)
    model, monitor = train(True)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True)
    )
    found = monitor.get_all_metrics()
    assert list(found) == logged == [0, 1, 2]
    assert monitor.get_step_metrics() == found[2]
    for step, metrics in found.items():
        assert close(metrics["parameter/net.0.weight/norm"], seen[step]["p/net.0.weight"])
        before = "gradient_before_clip" if clips else "gradient"
        assert close(metrics[f"{before}/net.0.weight/norm"], seen[step]["g/net.0.weight"])
        assert ("gradient_before_clip/net.0.weight/norm" in metrics) == clips
        total = sum(v**2 for k, v in metrics.items() if k.startswith("gradient/")) ** 0.5
        assert (total <= 0.0101) == clips
