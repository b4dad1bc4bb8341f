"""The statistics that torch computes on a device, against the core's."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from layouts import DTYPES, SHAPES, random_array
from reference import assert_stats_match, expected_stats

import tensortap as tt
from tensortap import _core
from tensortap.runs import device

torch = pytest.importorskip("torch")

from test_torch_tensors import to_torch  # noqa: E402  (needs torch)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_on_the_device_gives_what_numpy_gives(dtype: str) -> None:
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


def test_the_device_is_asked_once() -> None:
    transfers = []

    class Count(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            if func is torch.ops.aten._local_scalar_dense.default:
                transfers.append(func)
            return func(*args, **(kw or {}))

    with Count():
        device.stats(torch.randn(5, 7))
        device.stats(torch.arange(5))
        device.stats(torch.randn(3, dtype=torch.complex64))
    assert transfers == []  # no .item(): all numbers come in one tensor


def test_what_waits_to_be_fetched_holds_no_tensor_of_the_program() -> None:
    kinds = (torch.float32, torch.int64, torch.complex64)
    waiting = [device.Pending(torch.ones(12_345, dtype=kind)) for kind in kinds]
    alive = [x for x in gc.get_objects() if issubclass(type(x), torch.Tensor)]
    assert [x for x in alive if x.numel() == 12_345] == []
    assert [len(pending.packed) > 0 for pending in waiting] == [True] * 3


STEP = """
import sys, torch
from tensortap import _core
from tensortap.runs.watch import watch
torch.set_num_threads(1)
fetches = []

def count(name):
    plain = getattr(torch.Tensor, name)
    def counted(self, *args, **kwargs):
        fetches.append(name)
        return plain(self, *args, **kwargs)
    setattr(torch.Tensor, name, counted)

class Scalars(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            fetches.append("scalar")
        return func(*args, **(kwargs or {}))

model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(9)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recorder = _core.Recorder(sys.argv[1])
watch(model, run=recorder)
for name in ("cpu", "item", "numpy", "__float__", "__bool__", "__int__", "nonzero", "to"):
    count(name)
counted = []
for _ in range(4):
    fetches.clear()
    with Scalars():
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    counted.append(sum(name != "to" for name in fetches))
    assert all(name != "scalar" for name in fetches)
recorder.close()
print(*counted)
"""


def test_a_watched_step_is_fetched_from_the_device_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEP, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TENSORTAP_DEVICE_PATH": "1"},
    )
    assert done.stdout.split() == ["1"] * 4, done.stderr
    run = tt.open(tmp_path / "run")
    tensors = 10 + 2 * 18 + 1  # outputs, parameters, gradients, loss
    assert sum(len(run.stats(name)) for name in run.names("*/*")) == 4 * tensors


def test_computing_on_the_device_is_innocent() -> None:
    x = torch.randn(8, requires_grad=True)
    state, version = torch.get_rng_state(), x._version
    device.stats(x * 2)
    with torch.inference_mode():
        device.stats(torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)
    assert (x._version, x.grad, torch.is_grad_enabled()) == (version, None, True)


def test_the_environment_sends_cpu_tensors_through_torch() -> None:
    code = """
        import sys, torch
        from tensortap import _core
        s = _core.stats(torch.arange(4.0))
        print(s.sum, "tensortap.runs.device" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TENSORTAP_DEVICE_PATH": "1"},
    )
    assert done.stdout.split() == ["6.0", "True"], done.stderr
