"""What spy saves in place of a tensor: the norms of its rows, or its statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tensortap.spy import DebugContext, TensorSaver, spy_save  # noqa: E402


def load(path: Path) -> torch.Tensor:
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    "t",
    [
        torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
        torch.tensor(-3.0),
        torch.arange(3.0),
        torch.arange(12, dtype=torch.int64).reshape(3, 4),
        torch.randn(5, 7).to(torch.bfloat16),
        torch.randn(4, 3, dtype=torch.float64)[:, ::2],
        torch.tensor([[True, False], [True, True]]),
        torch.randn(3, 2, dtype=torch.complex64),
        torch.zeros(0, 4),
        torch.zeros(3, 0),
    ],
    ids=lambda t: f"{str(t.dtype)[6:]}{list(t.shape)}",
)
def test_norm_only_saves_the_norm_of_each_row(tmp_path: Path, t: torch.Tensor) -> None:
    TensorSaver(tmp_path).save("t", t, norm_only=True)
    rows = t.flatten(1) if t.dim() > 1 else t.reshape(-1, 1)
    expected = (rows.to(torch.complex128).abs() ** 2).sum(1).sqrt()
    back = load(tmp_path / "t.call0.pt")
    assert back.dtype == (torch.float64 if t.dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(back.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "dtype",
    [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
    ],
)
def test_norm_only_takes_every_type(tmp_path: Path, dtype: str) -> None:
    numbers = [[0, 1, 1], [1, 0, 0]]
    t = torch.tensor(numbers).to(getattr(torch, dtype))
    TensorSaver(tmp_path).save("t", t, norm_only=True)
    expected = torch.tensor(numbers, dtype=torch.float64).norm(dim=1)
    torch.testing.assert_close(load(tmp_path / "t.call0.pt").double(), expected, rtol=1e-6, atol=0)


def test_norm_only_of_a_vector_is_its_absolute_values(tmp_path: Path) -> None:
    saver = TensorSaver(tmp_path)
    with DebugContext(saver):
        spy_save("v", torch.arange(3.0), norm_only=True)
    assert load(tmp_path / "manual.v.call0.pt").tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [1e30, 1e-30])
def test_norms_of_very_large_and_very_small_values_are_right(tmp_path: Path, value: float) -> None:
    TensorSaver(tmp_path).save("t", torch.full((2, 4), value), norm_only=True)
    expected = torch.tensor([2 * value, 2 * value])
    torch.testing.assert_close(load(tmp_path / "t.call0.pt"), expected, rtol=1e-6, atol=0)


def test_norms_are_real_also_where_new_tensors_are_not(tmp_path: Path) -> None:
    t = torch.ones(2, 4)
    with torch.device("meta"):
        TensorSaver(tmp_path).save("t", t, norm_only=True)
    assert load(tmp_path / "t.call0.pt").tolist() == [2.0, 2.0]


@pytest.mark.parametrize("option", ["norm_only", "stats_only"])
@pytest.mark.parametrize(
    ("t", "word"),
    [
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.eye(2).to_sparse_csr(), "sparse"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]), "nested"),
        (torch.empty(2, 2, device="meta"), "meta"),
        ("text", "str"),
    ],
    ids=["sparse", "csr", "nested", "meta", "text"],
)
def test_what_has_no_rows_is_refused_by_name(
    tmp_path: Path, option: str, t: Any, word: str
) -> None:
    with pytest.raises(TypeError, match=word), DebugContext(TensorSaver(tmp_path)):
        spy_save("t", t, **{option: True})
    assert list(tmp_path.iterdir()) == []


def test_stats_only_saves_the_statistics_as_json(tmp_path: Path) -> None:
    t = torch.tensor([1.0, float("nan"), 3.0])
    with DebugContext(TensorSaver(tmp_path)):
        spy_save("s", t, stats_only=True)
    fields = json.loads((tmp_path / "manual.s.call0.json").read_text())
    assert (fields["nan"], fields["mean"], fields["shape"]) == (1, 2.0, [3])
