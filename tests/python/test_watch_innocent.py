"""A watched program computes the same bits as an unwatched one."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from programs import forked  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from recorded import points, record  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tensortap import _core  # noqa: E402
from tensortap.runs.watch import watch  # noqa: E402


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3))
        self.b = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        return self.b(checkpoint(self.a, x, use_reentrant=False))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.embed(x))


class Mine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).relu())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        out, (h, _) = self.lstm(x)
        return self.head(out) + h.sum()


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 2)
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


Case = tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]
CASES: dict[str, Case] = {
    "mlp": (Mine, lambda: torch.randn(5, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)), lambda: torch.randn(5, 6)),
    "cnn": (cnn, lambda: torch.randn(2, 3, 6, 6)),
    "transformer": (transformer, lambda: torch.randn(2, 5, 8)),
    "lstm": (Recurrent, lambda: torch.randn(2, 7, 6)),
    "checkpoint": (Checkpointed, lambda: torch.randn(5, 6)),
    "tied": (Tied, lambda: torch.randint(0, 10, (3, 4))),
}


def train(model: nn.Module, draw: Callable[[], torch.Tensor], **options: Any) -> dict[str, Any]:
    """Three steps and an evaluation; everything that can be compared."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    kept: dict[str, Any] = {"out": [], "grad": []}
    autocast = options.get("autocast", contextlib.nullcontext)
    for _ in range(3):
        with autocast():
            out = model(draw())
        loss = out.float().square().mean()
        loss.backward()
        kept["out"].append(out.detach().clone())
        kept["grad"].append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        kept["eval"] = model(draw())
    model.train()
    kept["state"] = {k: v.clone() for k, v in model.state_dict().items()}
    kept["optimizer"] = copy.deepcopy(optimizer.state_dict())
    kept["rng"] = torch.get_rng_state()
    kept["random"] = random.getstate()
    return kept


def bits(x: Any) -> Any:
    """Turn tensors into what == compares bit for bit."""
    if isinstance(x, torch.Tensor):
        return (
            x.dtype,
            tuple(x.shape),
            x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    if isinstance(x, dict):
        return {k: bits(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [bits(v) for v in x]
    return x


def both(tmp_path: Path, make: Any, draw: Any, wrap: Any = lambda m: m, **options: Any) -> Any:
    """Train without and with watching; give the run of the second."""
    torch.manual_seed(1)
    plain = train(wrap(make()), draw, **options)
    torch.manual_seed(1)
    model = wrap(make())
    kept: list[Any] = []
    run = record(
        tmp_path,
        model,
        lambda _: kept.append(train(model, draw, **options)),
        inputs=True,
        grads="all",
        on_nonfinite="raise",
    )
    assert bits(kept[0]) == bits(plain)
    return run


@pytest.mark.parametrize("name", CASES)
def test_outputs_gradients_states_and_random_numbers_are_the_same(
    name: str, tmp_path: Path
) -> None:
    run = both(tmp_path, *CASES[name])
    assert {p.step for p in run} == {0, 1, 2}
    assert any(s.startswith("activation/") for s in run.sites())
    assert any(s.startswith("gradient/") for s in run.sites())
    assert any(s.startswith("activation_gradient/") for s in run.sites())
    assert any(s.startswith("input/") for s in run.sites())


def test_autocast_to_bfloat16_is_the_same(tmp_path: Path) -> None:
    options = {"autocast": lambda: torch.autocast("cpu", torch.bfloat16)}
    run = both(tmp_path, *CASES["mlp"], **options)
    assert run.at("activation/a")[0].stats.dtype == "bfloat16"


@pytest.mark.parametrize("name", ["mlp", "dropout", "transformer"])
def test_a_compiled_model_is_the_same(name: str, tmp_path: Path) -> None:
    def compiled(model: nn.Module) -> Any:
        torch._dynamo.reset()
        return torch.compile(model, backend="aot_eager")

    run = both(tmp_path, *CASES[name], wrap=compiled)
    assert run.at("activation/(root)")[0].step == 0
    assert not any("_orig_mod" in s for s in run.sites())


def test_compiling_a_watched_model_in_one_graph_still_works(tmp_path: Path) -> None:
    torch._dynamo.reset()
    model = Mine()
    x = torch.randn(2, 6)
    plain = model(x)
    run = record(
        tmp_path,
        model,
        lambda _: torch.testing.assert_close(
            torch.compile(model, backend="eager", fullgraph=True)(x), plain, rtol=0, atol=0
        ),
    )
    assert run is not None


def test_the_encoder_layer_keeps_its_fused_path_in_eval(tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    called = []
    layer.self_attn.register_forward_hook(lambda *_: called.append(1))
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        layer(x)
    assert called == [1]  # a hook turns the fused path off
    layer.self_attn._forward_hooks.clear()
    with torch.no_grad():
        plain = layer(x)
        run = record(tmp_path, layer, lambda _: called.append(bits(layer(x)) == bits(plain)))
    assert called == [1, True]
    assert run.at("activation/self_attn") == []  # it did not run by itself
    assert len(run.at("activation/(root)")) == 1


def both_under_ddp(rank: int, world: int, folder: Path) -> Any:
    return both(folder, *CASES["mlp"], wrap=DistributedDataParallel).sites()


def test_ddp_is_the_same_and_its_names_are_the_models(tmp_path: Path) -> None:
    (sites,) = said(run_ranks(1, both_under_ddp, tmp_path))
    assert {"activation/(root)", "activation/a", "gradient/a.weight"} <= sites


def wrap_a_watched_model(rank: int, world: int, folder: Path) -> Any:
    model = Mine()

    def train_wrapped(_: object) -> None:
        wrapped = DistributedDataParallel(model)
        wrapped(torch.randn(2, 6)).sum().backward()
        torch.optim.SGD(wrapped.parameters(), lr=0.1).step()

    run = record(folder, model, train_wrapped)
    return run.steps("activation/(root)"), run.steps("gradient/a.weight")


def test_wrapping_a_watched_model_in_ddp_works(tmp_path: Path) -> None:
    assert said(run_ranks(1, wrap_a_watched_model, tmp_path)) == [([0], [0])]


def test_data_parallel_is_watched_without_hooks(tmp_path: Path) -> None:
    model = nn.DataParallel(Mine())
    run = record(tmp_path, model, lambda _: model(torch.randn(2, 6)))
    assert {"activation/(root)", "activation/a", "activation/b"} == run.sites()
    assert not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize(
    "what", ["deepcopy", "pickle", "state", "export", "trace", "vmap", "functional"]
)
def test_a_watched_model_can_be(what: str, tmp_path: Path) -> None:
    model = Mine()
    x = torch.randn(4, 6)
    plain = bits(model(x))
    state = dict(model.named_parameters())

    def use(_: object) -> None:
        if what == "deepcopy":
            got = copy.deepcopy(model)(x)
        elif what == "pickle":
            got = pickle.loads(pickle.dumps(model))(x)
        elif what == "state":
            twin = Mine()
            twin.load_state_dict(model.state_dict())
            got = twin(x)
        elif what == "export":
            got = torch.export.export(model, (x,)).module()(x)
        elif what == "trace":
            got = torch.jit.trace(model, (x,), check_trace=False)(x)
        elif what == "functional":
            got = torch.func.functional_call(model, {k: v.clone() for k, v in state.items()}, (x,))
        else:
            got = torch.vmap(model)(x.unsqueeze(0))[0]
        assert torch.allclose(got, model(x), atol=1e-6)
        assert bits(model(x)) == plain

    record(tmp_path, model, use)
    assert all("_compiled_call_impl" not in m.__dict__ for m in model.modules())


def test_removing_leaves_model_and_parameters_as_they_were(tmp_path: Path) -> None:
    model = Mine()
    before = [dict(m.__dict__) for m in model.modules()]
    from torch.optim import optimizer as module

    recorder = _core.Recorder(str(tmp_path / "run"))
    handle = watch(model, run=recorder)
    hooks = len(module._global_optimizer_pre_hooks)  # one stays: threads may be in a step
    assert model.a.weight._post_accumulate_grad_hooks
    handle.remove()
    handle.remove()  # twice is once
    assert [dict(m.__dict__) for m in model.modules()] == before
    assert not model.a.weight._post_accumulate_grad_hooks  # empty: a backward may be reading it
    recorder.close()
    assert len(module._global_optimizer_pre_hooks) == hooks


def test_a_watched_model_is_freed_as_soon_as_it_is_dropped(tmp_path: Path) -> None:
    recorder = _core.Recorder(str(tmp_path / "run"))
    gc.collect()
    gc.disable()
    try:
        model = Mine()
        weak = [weakref.ref(m) for m in model.modules()] + [
            weakref.ref(p) for p in model.parameters()
        ]
        watch(model, run=recorder)
        model(torch.randn(2, 6)).sum().backward()
        del model
        assert [w() for w in weak] == [None] * len(weak)
    finally:
        gc.enable()
        recorder.close()
    assert points(tmp_path / "run").at("activation/a")


def test_the_device_path_records_the_same_within_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
import sys, torch, warnings
warnings.simplefilter("error")
from tensortap import _core
from tensortap.runs.watch import watch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recorder = _core.Recorder(sys.argv[1])
watch(model, run=recorder)
for i in range(3):
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
recorder.close()
"""
    runs = []
    for forced in ("0", "1"):
        path = tmp_path / forced
        done = forked(script, tmp_path, str(path), TENSORTAP_DEVICE_PATH=forced)
        assert done.returncode == 0, done.stderr
        runs.append(sorted(points(path), key=lambda p: (p.site, p.step, p.call)))
    for host, device in zip(*runs, strict=True):
        assert host[:6] == device[:6]
        if host.stats is None:
            assert device.scalar == pytest.approx(host.scalar, rel=1e-6)
        else:
            assert device.stats.shape == host.stats.shape
            for field in ("mean", "std", "l2", "min", "max"):
                assert getattr(device.stats, field) == pytest.approx(
                    getattr(host.stats, field), rel=1e-5, abs=1e-7, nan_ok=True
                )


def test_an_output_that_is_emptied_while_it_is_looked_at_does_no_harm(tmp_path: Path) -> None:
    class Key:
        def __hash__(self) -> int:
            held.clear()
            return 1

    held: dict[Any, Any] = {}

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            held[Key()] = [x + 1, x + 2]
            return held

    outputs = []
    record(tmp_path, model := Model(), lambda _: outputs.append(model(torch.zeros(3))))
    assert outputs[0] is held
    assert held == {}
