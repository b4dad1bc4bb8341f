"""The way of tensors on devices, with the CPU in the place of one, against the core.

Here without Triton: tensors are copied.  test_device_kernels.py has the kernels.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from layouts import SHAPES, random_array
from programs import forked
from reference import assert_stats_match, expected_stats

import tensortap as tt
from tensortap import _core
from tensortap.devices import statistics as device
from tensortap.devices.ring import Result

torch = pytest.importorskip("torch")

from test_torch_tensors import to_torch  # noqa: E402  (needs torch)
from versions import TORCH_DTYPES, needs_exchange_table, needs_probes  # noqa: E402


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_a_device_gives_what_numpy_gives(dtype: str) -> None:
    for seed, shape in enumerate(SHAPES):
        a = random_array(dtype, shape, seed, specials=seed % 2 == 1)
        s = device.stats(to_torch(a))
        assert (s.shape, s.dtype) == (shape, dtype)
        assert_stats_match(s, expected_stats(a))


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_the_device_and_the_core_mean_the_same_by_a_policy(policy: Any) -> None:
    for values in ([1.0, torch.nan], [1.0, torch.inf], [-torch.inf], [torch.nan], [2.0, -3.0]):
        t = torch.tensor(values)
        core, there = _core.stats(t, nan_policy=policy), device.stats(t, policy)
        assert repr(core.as_dict()) == repr(there.as_dict())


def test_integers_are_exact_on_the_device() -> None:
    t = torch.tensor([2**63 - 1, 2**63 - 1, -5])
    assert device.stats(t).sum == 2**64 - 7
    t = torch.tensor([2**64 - 1, 2**63, 1], dtype=torch.uint64)
    s = device.stats(t)
    assert (s.min, s.max, s.sum) == (1, 2**64 - 1, 2**64 + 2**63)


class Operators(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """List what torch computes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kw or {}))


@needs_exchange_table
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_a_tensor_takes_one_operator(kind: Any) -> None:
    with Operators() as seen:
        device.stats(torch.ones(5, 7, dtype=kind))
    assert seen.names == ["aten.ones.default", "aten._to_copy.default"]


def test_what_waits_to_be_fetched_holds_no_tensor_of_the_program() -> None:
    batch = device.Batch()
    kept = torch.ones(12_345)
    batch.add(kept, "a")
    kept.zero_()  # as an optimizer would
    del kept
    batch.add(torch.ones(12_345, dtype=torch.int64), "b")
    assert [(one.tag, one.stats.sum) for one in batch.fetch()] == [("a", 12_345), ("b", 12_345)]
    assert len(batch) == 0
    alive = [x for x in gc.get_objects() if issubclass(type(x), torch.Tensor)]
    assert [x for x in alive if x.numel() == 12_345] == []


def test_without_waiting_numbers_come_one_step_later() -> None:
    batch = device.Batch()
    seen = []
    for step in range(3):
        batch.add(torch.full((3,), float(step)), step)
        seen.append([(one.tag, one.stats.max) for one in batch.fetch(waits=False)])
    assert seen == [[], [(0, 0.0)], [(1, 1.0)]]
    assert [one.tag for one in batch.fetch()] == [2]


def test_copies_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "MOST_COPIED", 100)
    batch = device.Batch()
    for i in range(10):
        batch.add(torch.full((16,), float(i)), i)
    alive = [x for x in gc.get_objects() if type(x) is torch.Tensor and not x.is_nested]
    assert sum(x.shape == (16,) for x in alive) <= 2
    assert [(one.tag, one.stats.max) for one in batch.fetch()] == [(i, i) for i in range(10)]


STEP = """
import sys, torch
from tensortap import _core
from tensortap.devices import event
from tensortap.runs.watch import watch
torch.set_num_threads(1)
seen = []

def count(kind, name):
    plain = getattr(kind, name)
    def counted(self, *args, **kwargs):
        seen.append(name)
        return plain(self, *args, **kwargs)
    setattr(kind, name, counted)

class Scalars(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            seen.append("scalar")
        return func(*args, **(kwargs or {}))

model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(9)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for name in ("cpu", "item", "numpy", "__float__", "__bool__", "__int__", "nonzero"):
    count(torch.Tensor, name)
count(event.Event, "wait")
for on_nonfinite in (None, "raise"):
    recorder = _core.Recorder(f"{sys.argv[1]}/{on_nonfinite}")
    watch(model, run=recorder, on_nonfinite=on_nonfinite)
    for _ in range(4):
        seen.clear()
        with Scalars():
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(*seen, sep=",", end=" ")
    recorder.close()
"""


def test_a_watched_step_waits_for_the_device_once(tmp_path: Path) -> None:
    """Without on_nonfinite it waits for what the step before has copied: that is there."""
    done = forked(STEP, tmp_path, str(tmp_path), TENSORTAP_DEVICE_PATH="1")
    assert done.stdout.split() == ["wait"] * (3 + 4), done.stderr
    for name in ("None", "raise"):
        run = tt.open(tmp_path / name)
        tensors = 10 + 2 * 18 + 1  # outputs, parameters, gradients, loss
        assert sum(len(run.stats(name)) for name in run.names("*/*")) == 4 * tensors
        assert list(run.series("gradient_norm")[0]) == [0, 1, 2, 3]


def test_computing_on_the_device_is_innocent() -> None:
    x = torch.randn(8, requires_grad=True)
    state, version = torch.get_rng_state(), x._version
    device.stats(x * 2)
    with torch.inference_mode():
        device.stats(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)
    assert (x._version, x.grad, torch.is_grad_enabled()) == (version, None, True)


def test_the_environment_sends_cpu_tensors_through_torch(tmp_path: Path) -> None:
    code = """
        import torch
        from tensortap import _core
        class Operators(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                print("operator")
                return func(*args, **(kwargs or {}))
        x = torch.arange(4.0)
        with Operators():
            s = _core.stats(x)
        print(s.sum)
    """
    done = forked(code, tmp_path, TENSORTAP_DEVICE_PATH="1")
    assert set(done.stdout.split()) == {"operator", "6.0"}, done.stderr


COMPILED = """
import sys, torch, tensortap as tt
torch.set_num_threads(1)

def train(folder, is_compiled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(model, backend="aot_eager") if is_compiled else model
    with tt.record(folder, keep="stats,hist"):
        tt.watch(model, grads="all")
        for i in range(3):
            for part in range(2):  # micro-batches
                x = torch.randn(3, 4)
                x[0, 0] = torch.nan if (i, part) == (1, 1) else 0
                step(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

if __name__ == "__main__":
    for kind in ("eager", "compiled"):
        train(f"{sys.argv[1]}/{kind}", kind == "compiled")
"""


@needs_probes
def test_a_compiled_model_on_a_device_records_the_same(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "here"}
    exec(COMPILED, space)
    space["train"](tmp_path / "here", False)
    done = forked(COMPILED, tmp_path, str(tmp_path), TENSORTAP_DEVICE_PATH="1")
    assert done.returncode == 0, done.stderr
    here = tt.open(tmp_path / "here")
    for kind in ("eager", "compiled"):
        there = tt.open(tmp_path / kind)
        assert sorted(here.names()) == sorted(there.names())
        for name in here.names("activation*/*"):
            assert list(here.series(name)[0]) == list(there.series(name)[0]) == [0, 0, 1, 1, 2, 2]
            for a, b in zip(here.stats(name), there.stats(name), strict=True):
                assert (a.shape, a.nan) == (b.shape, b.nan)
                assert b.l2 == pytest.approx(a.l2, rel=1e-6)
            assert there.histogram(name, 0) == here.histogram(name, 0)
        assert [s.nan > 0 for s in there.stats("activation/0")] == [False] * 3 + [True] * 3


def test_the_time_of_the_device_counts_for_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensortap.runs.watch import watch

    recorder = _core.Recorder(str(tmp_path / "run"))
    model = torch.nn.Linear(2, 1)
    watched = watch(model, run=recorder)
    model(torch.ones(1, 2))
    before = sum(recorder.costs().values())
    tag = (0, 0, 0, 1, 1, 0, False, False)  # site, step, call, thread, phase, time, ...
    arrived = [Result(1, tag, _core.stats(torch.ones(3)), 10**9)]  # a second
    with monkeypatch.context() as patch:
        patch.setattr(watched.batch, "fetch", lambda **_: arrived)
        watched.fetch(waits=False)
    assert sum(recorder.costs().values()) - before >= 10**9
    recorder.close()
