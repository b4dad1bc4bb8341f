"""The Triton kernels: run by Triton's interpreter on CPU tensors, and compiled for GPUs.

No GPU is needed.  The interpreter is chosen when Triton is imported, so this file runs itself again
in another process for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from layouts import DTYPES, SHAPES, random_array
from reference import assert_stats_match, expected_stats

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from test_device import Operators  # noqa: E402  (needs torch)
from test_torch_tensors import to_torch  # noqa: E402

from tensortap import _core  # noqa: E402
from tensortap.devices import kernels, ring, statistics  # noqa: E402

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
interpreted = pytest.mark.skipif(not IS_INTERPRETED, reason="needs TRITON_INTERPRET=1")
compiled = pytest.mark.skipif(IS_INTERPRETED, reason="runs without TRITON_INTERPRET")
REAL = [dtype for dtype in DTYPES if not dtype.startswith("complex")]


@compiled
@pytest.mark.heavy
def test_this_file_in_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each kernel that is launched."""
    launches: list[str] = []
    for name in ("read_tiles", "write_slots"):
        kernel = getattr(kernels, name)

        class Counting:
            def __init__(self, kernel: Any, name: str) -> None:
                self.kernel, self.name = kernel, name

            def __getitem__(self, grid: Any) -> Any:
                launches.append(self.name)
                return self.kernel[grid]

        monkeypatch.setattr(kernels, name, Counting(kernel, name))
    return launches


# ---- in the interpreter


@interpreted
@pytest.mark.parametrize("dtype", REAL)
def test_kernels_give_what_numpy_gives(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    for seed, shape in enumerate(SHAPES):
        a = random_array(dtype, shape, seed, specials=seed % 2 == 1)
        s = statistics.stats(to_torch(a))
        assert (s.shape, s.dtype) == (shape, dtype)
        assert_stats_match(s, expected_stats(a))
    full = sum(0 not in shape for shape in SHAPES)
    assert launches == ["read_tiles", "write_slots"] * full


def counted_by_kernels(t: Any) -> Any:
    batch = statistics.Batch()
    batch.add(t, None, wants_histogram=True)
    return batch.fetch()[0].histogram


@interpreted
@pytest.mark.parametrize("dtype", REAL)
def test_histograms_are_those_of_the_core(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    for seed, shape in enumerate(SHAPES):
        t = to_torch(random_array(dtype, shape, seed, specials=seed % 2 == 1))
        assert counted_by_kernels(t) == _core.histogram(t)
    full = sum(0 not in shape for shape in SHAPES)
    assert launches == ["read_tiles", "write_slots"] * full


@interpreted
def test_bins_at_the_ends_of_the_type() -> None:
    several = [torch.tensor([3e38, -3.4e38, 1.0, 1.25, 1.2499999, -1.75, -2.0] * 1500)]
    several += [torch.tensor([1e-45, -1e-45, 3e-40, -7e-39, 1.1754944e-38, 0.0, -0.0])]
    several += [torch.tensor([5e-324, -5e-324, 1e-310, 1e308, 0.0], dtype=torch.float64)]
    several += [torch.tensor([2**25 - 1, 2**53 - 1, 2**63 - 1, -(2**63), 0, -1])]
    several += [torch.tensor([2**64 - 1, 2**63, 1, 0], dtype=torch.uint64)]
    several += [torch.randn(9, 7)[:, ::2], torch.ones(1).expand(5, 7)]
    for t in several:
        assert counted_by_kernels(t) == _core.histogram(t)


def same(t: Any, slack: float = 1e-6) -> None:
    """Check the kernels against the core."""
    here, there = _core.stats(t), statistics.stats(t)
    for name in ("count", "nan", "posinf", "neginf", "zeros", "min", "max", "absmax"):
        a, b = getattr(here, name), getattr(there, name)
        assert a == b or (a != a and b != b), name
    near = {"sum": here.l1, "mean": here.l1 / max(here.count, 1), "std": here.std}
    near |= {"l1": here.l1, "l2": here.l2}
    for name, size in near.items():
        a, b = getattr(here, name), getattr(there, name)
        assert b == pytest.approx(a, rel=slack, abs=slack * size, nan_ok=True), name


@interpreted
@pytest.mark.parametrize("count", [15, 16, 17, 4095, 4096, 4097, 8192, 3 * 4096 + 5])
def test_borders_of_tiles(count: int) -> None:
    torch.manual_seed(count)
    same(torch.randn(count) * 3 + 100)
    same(torch.randn(count + 1)[1:])  # at no multiple of 16 bytes


@interpreted
def test_any_strides_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    t = torch.randn(6, 8, 10, 12)
    several = [t.transpose(0, 3), t[::2], t[:, 1:7:3, :, ::5], t[1:5, 2:6, 3:7, 4:8], t[..., 3]]
    several += [t[0, 0, 0, 5], t[2:3].expand(9, 8, 10, 12), torch.ones(1).expand(7, 5)]
    launches = counted(monkeypatch)
    for one in several:
        with Operators() as seen:
            statistics.stats(one)
        assert "aten._to_copy.default" not in seen.names
    assert launches == ["read_tiles", "write_slots"] * len(several)
    for one in several:
        same(one)
    same(torch.randn(2, 3, 4, 3, 2, 3)[::2, ::2, ::2, ::2, ::2, ::2])  # too many: copied


@interpreted
def test_values_at_the_ends_of_the_type() -> None:
    same(torch.tensor([3e38, -3.4e38, 1.0] * 5000))
    same(torch.tensor([1e-42, -3e-40, 0.0, -0.0]))
    same(torch.tensor([1e-30, 2e-30, -4e-30] * 3000))
    same(torch.tensor([1e300, -1e300, 1e10], dtype=torch.float64))
    same(torch.cat([torch.full((5000,), 1e-20), torch.full((5000,), 1e20)]))
    same(torch.tensor([float("nan"), float("inf"), -float("inf")]))
    same(torch.full((9000,), -torch.inf))
    same(torch.zeros(9000))
    same(torch.full((10_000,), 0.1))


@interpreted
def test_the_spread_is_right_where_the_mean_is_far_away() -> None:
    torch.manual_seed(1)
    same(1000 + torch.randn(20_000) * 1e-2)
    same(10**15 + torch.randint(0, 10, (10_000,)))
    same(torch.tensor([-(2**63), 2**63 - 1, 5] * 100))


@interpreted
def test_integers_are_exact() -> None:
    t = torch.tensor([2**63 - 1, 2**63 - 1, -5] * 2000)
    assert statistics.stats(t).sum == 2000 * (2**64 - 7)
    t = torch.tensor([2**64 - 1, 2**63, 1], dtype=torch.uint64)
    s = statistics.stats(t)
    assert (s.min, s.max, s.sum) == (1, 2**64 - 1, 2**64 + 2**63)


@interpreted
def test_each_byte_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy
    from triton.runtime import interpreter

    read = 0
    plain = interpreter.InterpreterBuilder.create_masked_load

    def load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        nonlocal read
        bits = pointers.get_element_ty().primitive_bitwidth
        read += int(numpy.count_nonzero(mask.data)) * bits // 8
        return plain(self, pointers, mask, *rest)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_load", load)
    for kind in (torch.bfloat16, torch.float32, torch.int64):
        t = torch.ones(100_001, dtype=kind)
        read = 0
        statistics.stats(t)
        assert t.nbytes <= read <= 1.1 * t.nbytes
        read = 0
        counted_by_kernels(t)
        assert t.nbytes <= read <= 1.1 * t.nbytes


@interpreted
def test_many_tensors_take_two_launches_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    torch.manual_seed(0)
    several = [torch.randn(16 * n) for n in range(1, 9)]
    several += [torch.randn(n).to(torch.bfloat16) for n in (16, 32, 5000)]
    batch = statistics.Batch(sites=len(several))
    with batch.together():
        for i, t in enumerate(several):
            batch.add(t, i)
    assert launches == ["read_tiles", "write_slots"] * 3  # f32; bf16 aligned and not
    found = {one.tag: one.stats for one in batch.fetch()}
    for i, t in enumerate(several):
        assert found[i].max == t.max()
        assert found[i].sum == pytest.approx(float(t.double().sum()), abs=1e-4)


@interpreted
def test_more_tensors_than_slots_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SLOTS", 1)
    batch = statistics.Batch()
    count = 3 * 8 + 7
    for i in range(count):
        batch.add(torch.full((3,), float(i)), i)
    assert [(one.tag, one.stats.max) for one in batch.fetch()] == [(i, i) for i in range(count)]
    assert batch.lost == 0


@interpreted
def test_replays_of_a_graph_fill_one_slot_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "is_capturing", lambda device: True)
    monkeypatch.setattr(statistics, "SLOTS", 1)
    launches: list[Any] = []
    plain = ring.Ring._launch

    def launch(self: Any, *args: Any) -> None:
        launches.append((self, args))
        plain(self, *args)

    monkeypatch.setattr(ring.Ring, "_launch", launch)
    batch, t = statistics.Batch(), torch.zeros(5)
    batch.add(t, "x")
    batch.fetch()
    for value in (1.0, float("nan"), 3.0):  # three micro-batches: the second is bad
        t.fill_(value)
        plain(launches[0][0], *launches[0][1])
    assert [one.stats.nan for one in batch.fetch()] == [0, 5, 0]
    for _ in range(10):
        plain(launches[0][0], *launches[0][1])
    assert len(batch.fetch()) == 8
    assert batch.lost == 2


REPLAYED = """
import sys, torch, tensortap as tt
from tensortap.devices import ring
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
captured, plain, is_capturing = [], ring.Ring._launch, True

def launch(self, *args):
    if is_capturing:  # as CUDA: nothing runs
        captured.append((self, *args))
    else:
        plain(self, *args)

ring.Ring._launch = launch
ring.is_capturing = lambda device: is_capturing
with tt.record(sys.argv[1]):
    tt.watch(model, grads=None)
    with torch.no_grad():
        y = model(torch.zeros(3, 4))
    is_capturing = False
    for step in range(3):
        for part in range(2):  # micro-batches
            y.fill_(torch.nan if (step, part) == (1, 1) else step)
            for launched in captured:  # the graph is replayed: no Python of ours runs
                plain(*launched)
        optimizer.step()
"""


@interpreted
def test_a_replay_is_recorded_under_its_own_step_and_call(tmp_path: Path) -> None:
    import tensortap as tt

    env = {**os.environ, "TENSORTAP_DEVICE_PATH": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", REPLAYED, str(tmp_path / "run")]
    subprocess.run(command, env=env, check=True)
    run = tt.open(tmp_path / "run")
    steps, values = run.series("activation/(root)", "max")
    assert steps.tolist() == [0, 0, 1, 1, 2, 2]
    assert [value for value in values.tolist() if value == value] == [0, 0, 1, 2, 2]
    first = run.first_nonfinite
    assert first is not None
    assert (first.step, first.call) == (1, 1)


@interpreted
def test_a_watched_model_records_the_same(tmp_path: Path) -> None:
    """Through the environment, as where a device would be."""
    script = """
import sys, torch, tensortap as tt
torch.manual_seed(0)
model = torch.nn.Linear(4, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tt.record(sys.argv[1], model=model):
    for i in range(2):
        for part in range(2):
            model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    import tensortap as tt

    for forced in ("", "1"):
        env = {**os.environ, "TENSORTAP_DEVICE_PATH": forced, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", script, str(tmp_path / f"run{forced}")], env=env)
    here, there = tt.open(tmp_path / "run"), tt.open(tmp_path / "run1")
    assert here.names() == there.names()
    assert list(here.series("activation/(root)")[0]) == list(there.series("activation/(root)")[0])
    for name in here.names("*/*"):
        for a, b in zip(here.stats(name), there.stats(name), strict=True):
            assert a.shape == b.shape
            assert b.l2 == pytest.approx(a.l2, rel=1e-5)
    assert there.series("gradient_norm")[1] == pytest.approx(
        here.series("gradient_norm")[1], rel=1e-5
    )


# ---- compiled


TARGETS = [("cuda", 80, 32), ("cuda", 90, 32), ("cuda", 100, 32), ("hip", "gfx942", 64)]


def build(kernel: Any, target: tuple[Any, ...], pointers: set[str], **constants: Any) -> Any:
    """Compile a kernel without a GPU."""
    from triton import compile as compile_kernel
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    kinds = {name: "*i64" if name in pointers else "i64" for name in names}
    kinds |= dict.fromkeys(constants, "constexpr")
    values = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature=kinds, constexprs=values)
    options = {"num_warps": ring.WARPS, "enable_fp_fusion": False}
    return compile_kernel(source, target=GPUTarget(*target), options=options)


def loaded_bytes(code: Any, warp: int) -> int:
    """Return how many bytes the instructions of a tile load, by all threads together."""
    if "ptx" in code.asm:
        found = re.findall(r"ld\.global\S*?(?:\.v(\d))?\.b(\d+)", code.asm["ptx"])
        each = sum(int(lanes or 1) * int(bits) // 8 for lanes, bits in found)
    else:
        sizes = {"ubyte": 1, "ushort": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
        pattern = r"(?:global|buffer|flat)_load_(ubyte|ushort|dword(?:x[234])?)"
        each = sum(sizes[one] for one in re.findall(pattern, code.asm["amdgcn"]))
    return each * ring.WARPS * warp


def spilled(code: Any, arch: Any, folder: Path) -> int:
    """Return how many bytes of registers are kept in memory."""
    if "ptx" not in code.asm:
        return int(re.findall(r"ScratchSize: (\d+)", code.asm["amdgcn"])[0])
    from triton.backends.nvidia import compiler

    text = folder / "kernel.ptx"
    text.write_text(code.asm["ptx"])
    tool = compiler.get_ptxas(arch)
    name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
    command = [tool.path, "-v", f"--gpu-name={name}", str(text), "-o", str(folder / "kernel.bin")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    stores, loads = re.findall(r"(\d+) bytes spill (?:stores|loads)", done.stderr)
    return int(stores) + int(loads)


@compiled
@pytest.mark.heavy
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target[1]))
@pytest.mark.parametrize(
    ("dtype", "extra"), [("bfloat16", 0), ("float32", 0), ("float8_e4m3fn", 0), ("int64", 8)]
)
def test_a_tile_is_loaded_once_and_stays_in_registers(
    target: tuple[Any, ...], dtype: str, extra: int, tmp_path: Path
) -> None:
    kind, name = ring.KINDS[dtype]
    loaded = kernels.TYPES[name]
    size = loaded.primitive_bitwidth // 8
    for is_table in (False, True):
        code = build(
            kernels.read_tiles, target, {"table", "rows", "bins"}, KIND=kind, TYPE=loaded,
            IS_TABLE=is_table, HAS_BINS=False, IS_ALIGNED=True, IS_STRIDED=False, TILE=ring.TILE,
        )  # fmt: skip
        threads = ring.WARPS * target[2]
        beside = (extra + 16 * is_table) * threads  # the first element; a line of the table
        assert ring.TILE * size <= loaded_bytes(code, target[2]) <= ring.TILE * size + beside
        assert spilled(code, target[1], tmp_path) == 0
        if "ptx" in code.asm:
            assert ".f64" not in code.asm["ptx"]


@compiled
@pytest.mark.heavy
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target[1]))
def test_the_other_kernels_compile(target: tuple[Any, ...], tmp_path: Path) -> None:
    for kind, is_wide in ((ring.SIGNED, False), (ring.FLOAT, False), (ring.WIDE_FLOAT, True)):
        code = build(
            kernels.write_slots, target, {"rows", "slots"},
            IS_INTEGER=kind == ring.SIGNED, IS_WIDE=is_wide, PARTS=ring.PARTS,
        )  # fmt: skip
        assert spilled(code, target[1], tmp_path) == 0
    code = build(
        kernels.read_tiles, target, {"table", "rows", "bins"},
        KIND=ring.SIGNED, TYPE=kernels.TYPES["int32"], IS_TABLE=False, HAS_BINS=False,
        IS_ALIGNED=False, IS_STRIDED=True, TILE=ring.TILE,
    )  # fmt: skip
    assert spilled(code, target[1], tmp_path) == 0


@compiled
@pytest.mark.heavy
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target[1]))
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int64"])
def test_the_kernel_with_bins_compiles(target: tuple[Any, ...], dtype: str, tmp_path: Path) -> None:
    kind, name = ring.KINDS[dtype]
    code = build(
        kernels.read_tiles, target, {"table", "rows", "bins"}, KIND=kind, TYPE=kernels.TYPES[name],
        IS_TABLE=False, HAS_BINS=True, IS_ALIGNED=True, IS_STRIDED=False, TILE=ring.TILE,
    )  # fmt: skip
    size = ring.TILE * kernels.TYPES[name].primitive_bitwidth // 8
    threads = ring.WARPS * target[2]
    assert size <= loaded_bytes(code, target[2]) <= size + 8 * threads
    assert spilled(code, target[1], tmp_path) == 0
