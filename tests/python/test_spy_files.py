"""Files that spy saves are what torch, NumPy and safetensors make of the same tensor."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from programs import forked

torch = pytest.importorskip("torch")

from versions import skip_if_unreadable  # noqa: E402

from tensortap.spy import DebugContext, TensorSaver, spy_save  # noqa: E402

FLOATS = ["float64", "float32", "float16", "bfloat16"]
SMALL = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
WHOLE = [f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)]
KNOWN = [*FLOATS, *SMALL, *WHOLE, "bool", "complex64", "complex128"]
RARE = ["complex32", "float8_e8m0fnu", "float4_e2m1fn_x2"]
SHAPES = [(), (0,), (1,), (7,), (2, 3), (2, 0, 3), (2, 3, 4), (1, 2, 1, 3, 1, 2)]
LAYOUTS = {
    "plain": lambda t: t,
    "transposed": lambda t: t.transpose(0, -1),
    "sliced": lambda t: t[..., ::2],
    "expanded": lambda t: t[..., :1].expand(*t.shape[:-1], 5),
    "offset": lambda t: t[1:],
}


def bits(t: torch.Tensor) -> bytes:
    t = t.detach().contiguous().resolve_conj().resolve_neg()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def random_bits(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = int(np.prod(shape))
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (count * size,), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def load(path: Path, **options: bool) -> torch.Tensor:
    return torch.load(path, weights_only=True, **options)


@pytest.mark.parametrize("dtype", KNOWN + RARE)
def test_torch_loads_every_type_with_the_same_bits(tmp_path: Path, dtype: str) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    skip_if_unreadable(dtype)
    saver = TensorSaver(tmp_path)
    for i, shape in enumerate(SHAPES):
        t = random_bits(shape, getattr(torch, dtype))
        saver.save(f"t{i}", t)
        for mmap in (False, True):
            back = load(tmp_path / f"t{i}.call0.pt", mmap=mmap)
            assert (back.dtype, back.shape, back.stride()) == (t.dtype, t.shape, t.stride())
            assert bits(back) == bits(t)
            assert not back.requires_grad
            assert back.device.type == "cpu"


def every_dtype() -> list[torch.dtype]:
    """Give all types of which this torch can make a plain tensor."""
    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return sorted((d for d in found if not str(d).startswith(("torch.q", "torch.quint"))), key=str)


def can_save(t: torch.Tensor, path: Path) -> bool:
    """Return whether torch saves such a tensor and loads it again."""
    try:
        torch.save(t, path)
        load(path)
    except (KeyError, pickle.UnpicklingError):
        return False
    return True


@pytest.mark.parametrize("dtype", every_dtype(), ids=str)
def test_no_type_of_torch_is_missing(tmp_path: Path, dtype: torch.dtype) -> None:
    t = torch.empty(6, dtype=dtype)
    t.untyped_storage().copy_(torch.arange(t.nbytes, dtype=torch.uint8).untyped_storage())
    saver = TensorSaver(tmp_path)
    saver.save("t", t)
    with DebugContext(saver):
        spy_save("t", t)
    for file in ("t.call0.pt", "manual.t.call0.pt"):
        try:
            back = load(tmp_path / file)
        except (KeyError, pickle.UnpicklingError):
            if can_save(t, tmp_path / "own.pt"):
                raise
            pytest.skip(f"this torch does not save and load {dtype} itself")
        assert (back.dtype, back.shape) == (t.dtype, t.shape)
        assert bytes(back.untyped_storage()) == bytes(t.untyped_storage())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("format", ["pt", "npy", "safetensors"])
def test_every_layout_is_saved_in_logical_order(tmp_path: Path, layout: str, format: str) -> None:
    t = LAYOUTS[layout](torch.randn(4, 5, 6))
    TensorSaver(tmp_path, format=format).save("t", t)
    file = tmp_path / f"t.call0.{format}"
    if format == "pt":
        back = load(file)
    elif format == "npy":
        back = torch.from_numpy(np.load(file))
    else:
        back = pytest.importorskip("safetensors.torch").load_file(file)["tensor"]
    assert torch.equal(back, t)
    assert back.shape == t.shape


@pytest.mark.parametrize("dtype", [t for t in KNOWN if t not in ("bfloat16", *SMALL)])
def test_numpy_loads_every_type_it_has_with_the_same_bits(tmp_path: Path, dtype: str) -> None:
    saver = TensorSaver(tmp_path, format="npy")
    for i, shape in enumerate(SHAPES):
        t = random_bits(shape, getattr(torch, dtype))
        saver.save(f"t{i}", t)
        back = np.load(tmp_path / f"t{i}.call0.npy")
        assert back.shape == tuple(t.shape)
        assert back.dtype == t.numpy().dtype
        assert back.tobytes() == bits(t)


@pytest.mark.parametrize("dtype", ["bfloat16", *SMALL, "float8_e8m0fnu", "complex32"])
def test_types_numpy_has_not_are_wider_ones_with_the_same_values(
    tmp_path: Path, dtype: str
) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    skip_if_unreadable(dtype)
    saver = TensorSaver(tmp_path, format="npy")
    wide = torch.complex64 if dtype == "complex32" else torch.float32
    for i, shape in enumerate([*SHAPES, (70_000,)]):
        t = random_bits(shape, getattr(torch, dtype))
        with DebugContext(saver):
            spy_save(f"t{i}", t)
        saver.save(f"t{i}", t)
        for name in (f"manual.t{i}.call0.npy", f"t{i}.call0.npy"):
            back = torch.from_numpy(np.load(tmp_path / name))
            assert back.dtype == wide
            assert torch.equal(back.nan_to_num(7), t.to(wide).nan_to_num(7))


def test_bfloat16_in_npy_goes_through_ml_dtypes_and_back(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    t = random_bits((1000,), torch.bfloat16)
    TensorSaver(tmp_path, format="npy").save("t", t)
    back = np.load(tmp_path / "t.call0.npy").astype(ml_dtypes.bfloat16)
    same = back.view(np.uint16) == t.view(torch.uint16).numpy()
    assert (same | np.isnan(back.astype(np.float32))).all()


@pytest.mark.parametrize("dtype", [name for name in KNOWN if name != "complex128"])
def test_safetensors_loads_every_type_it_knows(tmp_path: Path, dtype: str) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    skip_if_unreadable(dtype)
    saver = TensorSaver(tmp_path, format="safetensors")
    for i, shape in enumerate(SHAPES):
        t = random_bits(shape, getattr(torch, dtype))
        saver.save(f"t{i}", t)
        back = safetensors.load_file(tmp_path / f"t{i}.call0.safetensors")["tensor"]
        assert (back.dtype, back.shape) == (t.dtype, t.shape)
        assert bits(back) == bits(t)


@pytest.mark.parametrize("dtype", ["float8_e8m0fnu", "float4_e2m1fn_x2"])
def test_safetensors_has_words_for_types_that_c_has_no_number_for(
    tmp_path: Path, dtype: str
) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    saver = TensorSaver(tmp_path, format="safetensors")
    for i, shape in enumerate([(6,), (2, 3), (0, 4), (2, 0)]):
        count = torch.Size(shape).numel()
        t = torch.arange(count, dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)
        saver.save(f"t{i}", t)
        back = safetensors.load_file(tmp_path / f"t{i}.call0.safetensors")["tensor"]
        assert (back.dtype, back.shape) == (t.dtype, t.shape)
        assert bits(back.view(torch.uint8)) == bits(t.view(torch.uint8))


def test_an_mkldnn_tensor_is_saved_as_a_plain_one(tmp_path: Path) -> None:
    t = torch.randn(3, 4)
    saver = TensorSaver(tmp_path)
    saver.save("t", t.to_mkldnn())
    saver.save("n", t.to_mkldnn(), norm_only=True)
    assert torch.equal(load(tmp_path / "t.call0.pt"), t)
    assert torch.allclose(load(tmp_path / "n.call0.pt"), t.norm(dim=1))


def test_safetensors_refuses_complex128_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"t\.call0\.safetensors.*complex128"):
        TensorSaver(tmp_path, format="safetensors").save(
            "t", torch.zeros(2, dtype=torch.complex128)
        )
    assert list(tmp_path.iterdir()) == []


def test_lazy_conj_and_neg_views_are_saved_as_what_they_show(tmp_path: Path) -> None:
    z = torch.randn(3, dtype=torch.complex64)
    saver = TensorSaver(tmp_path)
    saver.save("conj", z.conj())
    saver.save("neg", torch._neg_view(z))
    assert torch.equal(load(tmp_path / "conj.call0.pt"), z.conj().resolve_conj())
    assert torch.equal(load(tmp_path / "neg.call0.pt"), -z)


def test_a_parameter_is_saved_as_a_plain_tensor(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(2, 2))
    TensorSaver(tmp_path).save("w", parameter)
    back = load(tmp_path / "w.call0.pt")
    assert type(back) is torch.Tensor
    assert torch.equal(back, parameter.detach())


def test_sparse_and_quantized_tensors_are_left_to_torch(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    dense = torch.eye(3)
    saver.save("sparse", dense.to_sparse())
    assert torch.equal(load(tmp_path / "sparse.call0.pt").to_dense(), dense)
    with pytest.raises(TypeError, match="only be saved as pt"):
        TensorSaver(tmp_path, format="npy").save("sparse", dense.to_sparse())
    small = torch.quantize_per_tensor(dense, 0.5, 0, torch.qint8)
    saver.save("small", small)
    back = torch.load(tmp_path / "small.call0.pt", weights_only=True)
    assert torch.equal(back.dequantize(), dense)


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from tensortap.spy import DebugContext, TensorSaver, spy_save
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
t = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
with DebugContext(TensorSaver(".")):
    spy_save("t", t)
    spy_save("norm", t, norm_only=True)
dist.destroy_process_group()
"""


def test_of_a_dtensor_what_the_rank_has_is_saved_as_a_plain_tensor(tmp_path: Path) -> None:
    done = forked(SHARDED, tmp_path)
    assert done.returncode == 0, done.stderr
    t = load(tmp_path / "manual.t.call0.pt")
    assert type(t) is torch.Tensor
    assert torch.equal(t, torch.arange(6.0).reshape(2, 3))
    assert torch.equal(load(tmp_path / "manual.norm.call0.pt"), t.norm(dim=1))


def test_large_files_of_many_threads_have_the_right_checksums(tmp_path: Path) -> None:
    """The checksum of a large file is shared between threads; zipfile reckons it anew."""
    saver = TensorSaver(tmp_path)
    counts = [150_000, 262_144, 1_200_007, 2_500_000]

    def work(number: int) -> None:
        for turn, count in enumerate(counts):
            t = torch.full((count,), float(number + turn))
            with DebugContext(saver, prefix=f"w{number}"):
                spy_save(f"spied{turn}", t)
                saver.save(f"w{number}.saved{turn}", t)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2 * 4 * len(counts)
    for file in files:
        number, turn = int(file.name[1]), int(file.name.split(".call")[0][-1])
        assert zipfile.ZipFile(file).testzip() is None
        assert torch.equal(load(file), torch.full((counts[turn],), float(number + turn)))


def test_numpy_arrays_can_be_saved_too(tmp_path: Path) -> None:
    TensorSaver(tmp_path).save("a", np.arange(4.0)[::-1])
    assert load(tmp_path / "a.call0.pt").tolist() == [3, 2, 1, 0]


def test_a_meta_tensor_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="meta"):
        TensorSaver(tmp_path).save("m", torch.empty(2, device="meta"))
    with pytest.raises(TypeError, match="tensor"):
        TensorSaver(tmp_path).save("m", "no tensor")


@pytest.mark.parametrize("format", ["pt", "npy", "safetensors"])
def test_the_same_tensor_gives_the_same_file(tmp_path: Path, format: str) -> None:
    saver = TensorSaver(tmp_path, format=format)
    t = torch.randn(100, 3)
    saver.save("t", t)
    saver.save("t", t.T.contiguous().T)
    first, second = ((tmp_path / f"t.call{i}.{format}").read_bytes() for i in (0, 1))
    assert first == second


def test_the_archive_is_sound_and_laid_out_as_torch_does(tmp_path: Path) -> None:
    t = torch.arange(6.0).reshape(2, 3)
    TensorSaver(tmp_path).save("t", t)
    torch.save(t, tmp_path / "torch.pt")
    ours, theirs = zipfile.ZipFile(tmp_path / "t.call0.pt"), zipfile.ZipFile(tmp_path / "torch.pt")
    assert ours.testzip() is None
    names = [[n.split("/", 1)[1] for n in file.namelist()] for file in (ours, theirs)]
    if ".format_version" in names[1]:  # since torch 2.7
        assert names[0] == names[1]
    else:
        assert set(names[1]) <= set(names[0])
    own, torchs = ours.read("archive/data.pkl"), theirs.read("torch/data.pkl")
    memo = {"BINPUT"}
    told = [
        [(op.name, arg) for op, arg, _ in pickletools.genops(p) if op.name not in memo]
        for p in (own, torchs)
    ]
    assert told[0] == told[1]


def test_torch_may_calculate_where_the_elements_are(tmp_path: Path) -> None:
    config = pytest.importorskip("torch.utils.serialization").config
    t = torch.randn(1000)
    TensorSaver(tmp_path).save("t", t)
    config.load.calculate_storage_offsets = True
    try:
        assert torch.equal(load(tmp_path / "t.call0.pt", mmap=True), t)
    finally:
        config.load.calculate_storage_offsets = False


@pytest.mark.heavy  # writes 4 GB
def test_a_tensor_beyond_4_gb_is_saved_and_mapped(tmp_path: Path) -> None:
    count = (1 << 32) + 5
    t = torch.full((1,), 3, dtype=torch.uint8).expand(count)
    TensorSaver(tmp_path).save("big", t)
    file = tmp_path / "big.call0.pt"
    back = load(file, mmap=True)
    assert back.shape == (count,)
    assert back[[0, 1 << 31, count - 1]].tolist() == [3, 3, 3]
    with zipfile.ZipFile(file) as archive:
        assert archive.getinfo("archive/data/0").file_size == count
        assert archive.read("archive/version") == b"3\n"  # lies beyond 4 GB
    file.unlink()


def test_a_link_at_the_name_of_a_file_is_refused_and_what_it_points_at_stays(
    tmp_path: Path,
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    saver = TensorSaver(tmp_path)
    saver.save("x", torch.ones(3))
    (first,) = tmp_path.glob("*.pt")
    first.unlink()
    saver.reset_counts()
    for target in ("precious", "nothing"):
        first.symlink_to(target)
        with pytest.raises(OSError, match=f"{first.name}: a symbolic link is not written through"):
            saver.save("x", torch.ones(3))
        saver.reset_counts()
        first.unlink()
    assert precious.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
