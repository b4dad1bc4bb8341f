"""stats() of everything a torch user can hold: right, or a TypeError that helps."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import SHAPES, random_array
from programs import forked
from reference import assert_stats_match, expected_stats

import tensortap as tt
from tensortap import _core

torch = pytest.importorskip("torch")
from versions import TORCH_DTYPES, needs_exchange_table  # noqa: E402


def to_torch(a: np.ndarray) -> Any:
    """Copy an array of any type, those of ml_dtypes too, into a tensor."""
    if a.dtype.kind in "iubc" or a.dtype.name in ("float16", "float32", "float64"):
        return torch.from_numpy(a.copy())
    bits = a.view(np.uint8 if a.itemsize == 1 else np.uint16)
    return torch.from_numpy(bits.copy()).view(getattr(torch, a.dtype.name))


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.mT.contiguous().mT if t.ndim > 1 else t,
    "spread": lambda t: t.unsqueeze(-1).expand(*t.shape, 3).contiguous()[..., 1],
    "offset": lambda t: (
        torch.cat([t.reshape(-1)[:1], t.reshape(-1)])[-t.numel() :].view(t.shape)
        if t.numel()
        else t
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_every_type_and_layout_gives_what_numpy_gives(dtype: str, layout: str) -> None:
    for seed, shape in enumerate(SHAPES):
        a = random_array(dtype, shape, seed, specials=seed % 2 == 1)
        s = _core.stats(LAYOUTS[layout](to_torch(a)))
        assert (s.shape, s.dtype) == (shape, dtype)
        assert_stats_match(s, expected_stats(a))


@given(
    dtype=st.sampled_from(["float32", "float64", "bfloat16", "int64", "complex64"]),
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=4).map(tuple),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_any_view_gives_what_numpy_gives(
    dtype: str, shape: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    a = random_array(dtype, shape, seed, specials=True)
    t = to_torch(a)
    order = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.integers(1, 3))
    dim = data.draw(st.integers(0, len(shape) - 1))
    view = t.permute(order).unsqueeze(0).expand(2, *(shape[i] for i in order))
    view = view[(slice(None),) * (dim + 1) + (slice(None, None, step),)]
    same = np.broadcast_to(a.transpose(order), (2, *(shape[i] for i in order)))
    same = same[(slice(None),) * (dim + 1) + (slice(None, None, step),)]
    assert_stats_match(_core.stats(view), expected_stats(same))


# ---- tensors that are more than their memory --------------------------------------


def test_a_tensor_that_requires_grad_and_a_parameter_are_read() -> None:
    x = torch.arange(6.0, requires_grad=True)
    assert _core.stats(x).sum == 15.0
    assert _core.stats(x * 2).sum == 30.0
    assert _core.stats(torch.nn.Parameter(x.detach())).sum == 15.0
    with torch.inference_mode():
        assert _core.stats(torch.ones(3)).sum == 3.0


def test_reading_leaves_no_trace_on_the_tensor() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    version, fn, state = y._version, y.grad_fn, torch.get_rng_state()
    for call in (_core.stats, _core.digest, _core.histogram, _core.sample):
        call(y)
    assert (y._version, y.grad_fn) == (version, fn)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_conjugated_view_is_resolved() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert z.conj().is_conj()
    assert _core.stats(z.conj()).sum == 4 + 2j
    assert _core.digest(z.conj()) == _core.digest(z.conj().resolve_conj())
    assert _core.sample(z.conj()).slices[0].data == [[1 - 2j, 3 + 4j]]


def test_a_negated_view_is_resolved() -> None:
    view = torch.tensor([1 + 2j, 3 - 5j]).conj().imag
    assert view.is_neg()
    s = _core.stats(view)
    assert (s.min, s.max, s.sum) == (-2.0, 5.0, 3.0)
    both = torch._neg_view(torch.tensor([1 + 2j]).conj())
    assert _core.stats(both).sum == -1 + 2j
    assert _core.stats(torch._neg_view(torch.tensor([1, 2]))).sum == -3


def test_an_efficient_zero_tensor_is_zeros() -> None:
    s = _core.stats(torch._efficientzerotensor(3, 4))
    assert (s.count, s.zeros, s.sum) == (12, 12, 0.0)


def test_a_copy_on_write_tensor_is_read() -> None:
    x = torch.arange(4.0)
    assert _core.stats(torch._lazy_clone(x)).sum == 6.0


class Plain(torch.Tensor):  # type: ignore[misc]
    """A subclass that changes nothing."""


class Loud(torch.Tensor):  # type: ignore[misc]
    """A subclass that fails whenever torch asks it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("asked")


def test_a_subclass_is_read_without_running_its_code() -> None:
    assert _core.stats(torch.arange(3.0).as_subclass(Plain)).sum == 3.0
    assert _core.stats(torch.arange(3.0).as_subclass(Loud)).sum == 3.0
    with pytest.raises(RuntimeError, match="asked"):
        torch.arange(3.0).as_subclass(Loud).sum()


def test_a_function_mode_does_not_see_us() -> None:
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kw or {}))

    x = torch.arange(3.0)
    with Mode():
        assert _core.stats(x).sum == 3.0
    assert seen == []


def test_expanded_tensors_beyond_2_to_the_31_elements_are_read() -> None:
    s = _core.stats(torch.tensor([1.0, 3.0]).expand(2**31, 2))
    assert (s.count, s.mean, s.sum) == (2**32, 2.0, 2.0**33)


# ---- tensors that are not read ----------------------------------------------------


class Wrapper(torch.Tensor):  # type: ignore[misc]
    """A tensor that keeps its values in another one."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("dispatched")


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


@needs_exchange_table
@pytest.mark.parametrize(
    ("view", "enough"),
    [
        (lambda base: base, 64),
        (lambda base: base[32:], 64),
        (lambda base: base[:32], 32),
        (lambda base: base.view(8, 8).t(), 64),
        (lambda base: base.view(8, 8)[:, 3], 60),
        (lambda base: base[5].expand(4, 4), 6),
        (lambda base: base[10:10], 0),
    ],
    ids=["whole", "end", "begin", "transposed", "column", "expanded", "empty"],
)
def test_a_storage_that_was_shrunk_is_not_read_past_its_end(view: Any, enough: int) -> None:
    base = torch.arange(64.0)
    x = view(base)
    expected = tt.stats(x)
    base.untyped_storage().resize_(4 * enough)
    assert tt.stats(x) == expected
    if x.numel() == 0:
        return
    base.untyped_storage().resize_(4 * enough - 1)
    with pytest.raises(TypeError, match=r"^freed tensor: its storage was resized to fewer bytes"):
        tt.stats(x)


def test_a_watched_output_whose_storage_was_shrunk_is_counted_as_unread(tmp_path: Path) -> None:
    class Shrinks(torch.nn.Module):
        is_on = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 1
            if self.is_on:
                y.untyped_storage().resize_(16)
            return y

    model = Shrinks()
    with tt.record(tmp_path / "run", model=model) as run:
        for i in range(6):
            model.is_on = i >= 3  # by then it is read the quick way
            model(torch.ones(1 << 20))
            run.step()
    assert [s.count for s in tt.open(tmp_path / "run").stats("activation/(root)")] == [1 << 20] * 3


def freed() -> Any:
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return x


def quantized() -> Any:
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)


def csr() -> Any:
    return torch.eye(3).to_sparse_csr()


def jagged() -> Any:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


ODD = {
    "meta tensor: it has a shape but no values": lambda: torch.ones(3, device="meta"),
    "fake tensor: .*torch.compile": fake,
    r"sparse tensor: use t.to_dense\(\)": lambda: torch.eye(3).to_sparse(),
    "sparse tensor: use": csr,
    "mkldnn tensor: use t.to_dense": lambda: torch.ones(3, 3).to_mkldnn(),
    "quantized tensor: use t.dequantize": quantized,
    "nested tensor: use t.unbind": lambda: torch.nested.nested_tensor([torch.ones(2)]),
    "nested tensor: .*to_padded_tensor": jagged,
    "wrapper tensor: its class keeps": lambda: Wrapper(torch.ones(3)),
    "freed tensor: its storage": freed,
    "uninitialized tensor: run the lazy": lambda: torch.nn.LazyLinear(3).weight,
    "element type torch.int4 cannot be read": lambda: torch.empty(3, dtype=torch.int4),
    "element type torch.uint2 cannot be read": lambda: torch.empty(3, dtype=torch.uint2),
    "element type torch.bits8 cannot be read": lambda: torch.empty(3, dtype=torch.bits8),
}
if hasattr(torch, "float8_e8m0fnu"):  # since torch 2.7
    ODD["element type torch.float8_e8m0fnu"] = lambda: torch.ones(3).to(torch.float8_e8m0fnu)


def fresh_core() -> Any:
    """Load the extension anew: one that has not yet met a tensor it cannot read."""
    spec = importlib.util.find_spec("tensortap._core")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("message", ODD)
def test_a_tensor_that_cannot_be_read_is_named_with_what_to_do(
    message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    t = ODD[message]()
    for call in (fresh_core().stats, _core.stats, _core.digest, _core.histogram, _core.sample):
        with pytest.raises(TypeError, match=message):
            call(t)
    assert capfd.readouterr().err == ""  # torch's C functions print what they throw


def test_a_tensor_inside_vmap_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    messages = []

    def f(x: Any) -> Any:
        try:
            _core.stats(x)
        except TypeError as error:
            messages.append(str(error))
        return x * 2

    torch.vmap(f)(torch.ones(2, 3))
    assert messages == ["tensor inside vmap or grad: read it outside of the transformed function"]
    assert capfd.readouterr().err == ""


def test_a_dtensor_is_refused_and_its_local_part_is_read(tmp_path: Path) -> None:
    code = """
        import os, torch, torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        from tensortap import _core
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        t = distribute_tensor(torch.arange(6.0), init_device_mesh("cpu", (1,)), [Shard(0)])
        try:
            _core.stats(t)
        except TypeError as error:
            print(error)
        print(_core.stats(t.to_local()).sum)
        dist.destroy_process_group()
    """
    done = forked(code, tmp_path)
    assert done.stdout.splitlines() == [
        "dtensor tensor: use t.to_local() or t.full_tensor()",
        "15.0",
    ], done.stderr


def test_a_torch_whose_c_functions_cannot_be_asked_is_read_through_its_capsule(
    tmp_path: Path,
) -> None:
    code = """
        import torch
        torch.Tensor._cdata = 0  # where the C functions find a tensor
        from tensortap import _core
        x = torch.arange(12.0, requires_grad=True).reshape(3, 4)
        class Own(torch.Tensor):
            pass
        print(_core.stats(x.T).sum, _core.stats(x.detach().as_subclass(Own)).sum)
        print(_core.stats(torch.tensor([1 + 2j]).conj()).sum)
        freed = torch.ones(3)
        freed.untyped_storage().resize_(8)
        for refused in (torch.ones(3, device="meta"), freed):
            try:
                _core.stats(refused)
            except TypeError as error:
                print(error)
    """
    done = forked(code, tmp_path)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["66.0 66.0", "(1-2j)"], done.stderr
    assert lines[2].startswith("meta tensor")
    # torch 2.6 gives no capsule of it.
    assert lines[3].startswith(("freed tensor", "the memory of this Tensor cannot be read"))


def test_a_fake_tensor_is_refused_without_a_warning_of_torch(tmp_path: Path) -> None:
    code = """
import torch, tensortap as tt
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    x = torch.ones(3)
try:
    tt.stats(x)
except TypeError as why:
    print(why)
"""
    done = forked(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fake" in done.stdout
    assert done.stderr == ""
