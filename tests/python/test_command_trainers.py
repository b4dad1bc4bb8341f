"""`tensortap run` under libraries that own the training loop: their real code, tiny models."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from commands import tensortap
from programs import forked

import tensortap as tt

pytest.importorskip("torch")

TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2,
                    bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
tokens = torch.randint(0, 64, (40, 16), generator=torch.Generator().manual_seed(1))
data = [{"input_ids": row, "labels": row} for row in tokens]
arguments = TrainingArguments("out", max_steps=6, per_device_train_batch_size=4, logging_steps=1,
                              eval_strategy="steps", eval_steps=3, report_to="none", use_cpu=True,
                              save_strategy="no", disable_tqdm=True, seed=0, max_grad_norm=0.5)
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:8])
trainer.train()
logged = [row["grad_norm"] for row in trainer.state.log_history if "grad_norm" in row]
print(sum(float(p.detach().double().sum()) for p in model.parameters()), *logged)
"""

LIGHTNING = """
import torch, lightning

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    def forward(self, x):
        return self.layers(x)
    def training_step(self, batch, _):
        return self(batch[0]).square().mean()
    def validation_step(self, batch, _):
        self.log("val", self(batch[0]).square().mean())
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)
    def on_before_optimizer_step(self, _):  # Lightning clips after it
        norms.append(float(torch.cat([p.grad.flatten() for p in self.parameters()]).norm()))

norms = []
lightning.seed_everything(0)
rows = torch.utils.data.TensorDataset(torch.randn(40, 4))
data = torch.utils.data.DataLoader(rows, batch_size=8)
net = Net()
lightning.Trainer(max_epochs=2, gradient_clip_val=0.001, accelerator="cpu", logger=False,
                  enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False).fit(net, data, data)
print(sum(float(p.detach().double().sum()) for p in net.parameters()), *norms)
"""

CLOSURE = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    return loss
for _ in range(4):
    optimizer.step(closure)
print(sum(float(p.detach().double().sum()) for p in model.parameters()))
"""


def record(folder: Path, script: str) -> tt.Run:
    """Run the script with and without us; both must compute the same."""
    return record_and_read(folder, script)[0]


def record_and_read(folder: Path, script: str) -> tuple[tt.Run, list[float]]:
    """Give the norms too that the script printed behind its result."""
    (folder / "script.py").write_text(textwrap.dedent(script))
    plain = forked("import runpy; runpy.run_path('script.py', run_name='__main__')", folder)
    assert plain.returncode == 0, plain.stderr
    done = tensortap("run", "-o", "run", "script.py", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == plain.stdout.splitlines()[-1]
    return tt.open(folder / "run"), [float(x) for x in plain.stdout.splitlines()[-1].split()[1:]]


@pytest.mark.heavy
def test_a_trainer_of_transformers_is_recorded_from_its_first_step(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    run, norms = record_and_read(tmp_path, TRAINER)
    assert list(run.steps) == list(range(6))
    for name in (
        "activation/transformer.h.1.mlp.c_proj",
        "gradient/transformer.h.0.attn.c_attn.weight",
        "parameter/transformer.wte.weight",
        "gradient_norm",
    ):
        assert sorted(set(run.series(name)[0])) == list(range(6)), name
    assert max(norms) > 0.5, "it did clip"
    assert list(run.series("gradient_norm")[1]) == [pytest.approx(x, rel=1e-4) for x in norms]
    phases = set(run.series("activation/lm_head", "phase")[1])
    assert phases == {1, 2}  # training, and the evaluations between


@pytest.mark.heavy
def test_a_trainer_of_lightning_is_recorded_from_its_first_step(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    run, norms = record_and_read(tmp_path, LIGHTNING)
    assert list(run.steps) == list(range(10))
    for name in ("gradient/layers.0.weight", "parameter/layers.2.bias", "gradient_norm"):
        assert list(run.series(name)[0]) == list(range(10)), name
    assert set(run.series("activation/layers.2")[0]) == set(range(10))
    assert list(run.series("gradient_norm")[1]) == [pytest.approx(x, rel=1e-4) for x in norms]


def test_a_closure_that_holds_the_first_forward_loses_no_step(tmp_path: Path) -> None:
    run = record(tmp_path, CLOSURE)
    assert list(run.series("gradient/weight")[0]) == [0, 1, 2, 3]
    assert set(run.series("activation/(root)")[0]) == {0, 1, 2, 3}
