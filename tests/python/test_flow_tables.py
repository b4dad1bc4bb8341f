"""The table in a node: which elements, and the statistics of the whole tensor."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from charts import capture

import tensortap as tt
from tensortap import _core

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("flow_alone")


def node_of(folder: Path, expression: str, **options: Any) -> dict[str, Any]:
    chart = capture(folder, f"import torch\nx = {expression}\n", **options)
    node: dict[str, Any] = chart["nodes"][-1]
    return node


def picked(n: int, limit: int) -> list[int]:
    """Give the indices that the API page asks for."""
    m = min(n, limit)
    return sorted({k * (n - 1) // (m - 1) if m > 1 else 0 for k in range(m)})


@pytest.mark.parametrize(
    ("shape", "labels", "rows", "cols", "sampled"),
    [
        ((), [""], [0], [0], False),
        ((5,), [""], [0], [*range(5)], False),
        ((40,), [""], [0], picked(40, 32), True),
        ((3, 4), [""], [0, 1, 2], [0, 1, 2, 3], False),
        ((9, 100), [""], picked(9, 8), picked(100, 8), True),
        ((2, 3, 4), ["[0]", "[1]"], [0, 1, 2], [0, 1, 2, 3], False),
        ((5, 9, 3), [f"[{i}]" for i in range(5)], picked(9, 4), [0, 1, 2], True),
        ((2, 2, 9, 9), ["[0,0]", "[0,1]", "[1,0]", "[1,1]"], picked(9, 8), picked(9, 8), True),
        (
            (3, 4, 5, 5),
            [f"[{i // 4},{i % 4}]" for i in picked(12, 6)],
            picked(5, 4),
            picked(5, 4),
            True,
        ),
        ((5, 1, 2, 2, 2), ["[2,0,0]", "[2,0,1]"], [0, 1], [0, 1], True),
        ((2, 3, 1, 1, 2, 2), ["[1,1,0,0]"], [0, 1], [0, 1], True),
    ],
)
def test_the_right_elements_are_shown(
    tmp_path: Path,
    shape: tuple[int, ...],
    labels: list[str],
    rows: list[int],
    cols: list[int],
    sampled: bool,
) -> None:
    node = node_of(tmp_path, f"torch.arange({math.prod(shape)}).reshape({shape})")
    whole = torch.arange(math.prod(shape)).reshape(shape)
    assert node["shape"] == list(shape)
    assert node["sampled"] is sampled
    assert [s["label"] for s in node["slices"]] == labels
    for s in node["slices"]:
        assert (s["rows"], s["cols"]) == (rows, cols)
        at = tuple(json.loads(s["label"])) if s["label"] else ()
        table = whole[at] if len(shape) > 1 else whole.reshape(1, -1)
        assert s["data"] == table[rows][:, cols].tolist()


@pytest.mark.parametrize("limit", [4, 5, 7, 13, 32, 40])
def test_the_rule_of_the_indices_holds_for_every_size(limit: int) -> None:
    for n in range(101):
        (table,) = _core.sample(torch.arange(n), max_vector=limit).slices
        assert list(table.cols) == (picked(n, limit) if n else [])
        (table,) = _core.sample(torch.arange(3 * n).reshape(n, 3), max_matrix=limit).slices
        assert list(table.rows) == (picked(n, limit) if n else [])


def test_a_node_has_the_keys_of_the_api_and_no_others(tmp_path: Path) -> None:
    chart = capture(tmp_path, "import torch\nx = torch.ones(2, 3, 4)\ny = x + 1\n")
    assert list(chart) == ["nodes", "edges"]
    for node in chart["nodes"]:
        assert " ".join(node) == ("id name file line code shape dtype device stats slices sampled")
        assert set(node["stats"]) == set(tt.stats(torch.ones(1)).as_dict())
        assert [list(table) for table in node["slices"]] == [["label", "rows", "cols", "data"]] * 2
    first, second = (node["id"] for node in chart["nodes"])
    assert chart["edges"] == [[first, second]]


def test_limits_are_those_of_on(tmp_path: Path) -> None:
    node = node_of(tmp_path, "torch.ones(9, 20, 20)", max_matrix=5, max_slices=2)
    assert [(s["label"], s["rows"]) for s in node["slices"]] == [
        ("[0]", picked(20, 5)),
        ("[8]", picked(20, 5)),
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "torch.randn(300, 200, generator=torch.Generator().manual_seed(1))",
        "torch.randn(70, generator=torch.Generator().manual_seed(1)).bfloat16()",
        "torch.randn(70, generator=torch.Generator().manual_seed(1)).half()",
        "torch.arange(-9, 90)",
        "torch.arange(99) % 2 == 0",
        "torch.randn(70, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))",
        "torch.empty(0, 3)",
        "torch.full((50,), float('nan'))",
        "torch.tensor([1., float('inf'), float('nan'), -float('inf')])",
        "torch.ones(3, 4).t()[::2]",
        "torch.ones(5, requires_grad=True)",
        "torch.ones(1).expand(50)",
    ],
)
def test_the_statistics_are_of_the_whole_tensor(tmp_path: Path, expression: str) -> None:
    node = node_of(tmp_path, expression)
    wanted = tt.stats(eval(expression)).as_dict()
    assert list(node["stats"]) == list(wanted)
    for key, value in wanted.items():
        got = node["stats"][key]
        if isinstance(value, complex):
            assert got == [value.real, value.imag]
        elif isinstance(value, float) and not math.isfinite(value):
            assert float(got) == value or math.isnan(float(got)) == math.isnan(value)
        elif isinstance(value, tuple):
            assert tuple(got) == value
        else:
            assert got == value
            assert type(got) is type(value)
    assert node["dtype"] == str(eval(expression).dtype).removeprefix("torch.")


def test_elements_print_as_what_they_are(tmp_path: Path) -> None:
    def data(expression: str) -> Any:
        return node_of(tmp_path, expression)["slices"][0]["data"]

    assert data("torch.tensor([True, False])") == [[True, False]]
    assert data("torch.tensor([2**63 - 1])") == [[2**63 - 1]]
    assert data("torch.tensor([1 - 2j])") == [[[1.0, -2.0]]]
    assert data("torch.tensor([0.1, float('nan')])") == [[0.1, "NaN"]]
    assert data("torch.tensor(1.5).bfloat16()") == [[1.5]]


def test_an_empty_tensor_has_no_elements(tmp_path: Path) -> None:
    node = node_of(tmp_path, "torch.empty(0)")
    assert node["slices"][0]["data"] == [[]]
    assert node["stats"]["count"] == 0


def test_a_hundred_million_elements_are_not_copied(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch, resource
        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return int(next(l for l in lines if l.startswith("VmHWM")).split()[1])
        x = torch.zeros(100_000_000, dtype=torch.uint8)
        x[-1] = 7
        before = peak()
        y = x
        z = 1
        assert peak() - before < 20_000, peak() - before
        """,
    )
    assert chart["nodes"][-1]["stats"]["max"] == 7
    assert chart["nodes"][-1]["stats"]["count"] == 100_000_000
