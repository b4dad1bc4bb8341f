"""tt.show: one line for a tensor, a tree for what holds tensors."""

from __future__ import annotations

import collections
import dataclasses
import io
import sys
import types
from typing import Any

import numpy as np
import pytest

import tensortap as tt


def shown(x: object, **options: Any) -> str:
    out = io.StringIO()
    tt.show(x, file=out, **options)
    text = out.getvalue()
    assert text.endswith("\n")
    return text[:-1]


def test_a_tensor_is_one_line_with_type_shape_range_and_moments() -> None:
    line = shown(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    assert "\n" not in line
    for part in ("float32[2, 2]", "1 … 4", "mean 2.5 ± 1.291"):
        assert part in line


def test_nan_and_inf_stand_on_the_line() -> None:
    line = shown(np.array([np.nan, np.inf, -np.inf, 1.0]))
    assert "1 NaN" in line
    assert "1 Inf" in line
    assert "1 -Inf" in line


def test_a_container_is_a_tree_of_its_parts() -> None:
    Point = collections.namedtuple("Point", "x y")

    @dataclasses.dataclass
    class Batch:
        image: Any
        label: Any

    value = {
        "point": Point(np.zeros(2), 3),
        "batch": Batch(np.ones(3), None),
        "list": [np.zeros((1, 1)), "text"],
        4: {"deep": (True,)},
    }
    lines = shown(value).splitlines()
    assert lines[0] == "dict of 4"
    stripped = [line.lstrip("│├└─ ") for line in lines[1:]]
    labels = [line.split()[0] for line in stripped]
    assert labels == [
        "point",
        "x",
        "y",
        "batch",
        "image",
        "label",
        "list",
        "[0]",
        "[1]",
        "4",
        "deep",
        "[0]",
    ]
    assert stripped[0].split()[1:] == ["Point"]
    assert stripped[3].split()[1:] == ["Batch"]
    assert "float64[2]" in stripped[1]
    assert stripped[5].split()[1:] == ["None"]
    assert "'text'" in stripped[8]


def test_a_container_that_contains_itself_ends() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert shown(loop).splitlines()[-1].endswith("contains itself")
    shared = [np.zeros(2)]
    assert "contains itself" not in shown([shared, shared])


def test_a_large_container_is_cut_and_says_how_many_are_left() -> None:
    lines = shown(list(range(1000))).splitlines()
    assert len(lines) == 202
    assert lines[-1].endswith("800 more")
    wide = [[[0] * 100] * 100] * 100
    lines = shown(wide).splitlines()
    assert len(lines) <= 5002
    assert "more than 5000 lines" in lines[-1]


def test_a_deep_container_is_cut() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert "deeper than 40" in shown(deep)


def test_plain_values_are_a_short_repr() -> None:
    assert shown(3) == "3"
    assert shown("x" * 500).startswith("'xxx")
    assert len(shown("x" * 500)) <= 60
    assert shown(b"bytes") == "b'bytes'"

    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    assert shown(Broken()) == "<Broken>"


def test_text_from_the_user_cannot_break_the_lines() -> None:
    text = shown({"a\nb\x1b[31m": "c\nd", "\ud800": 1})
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text


def test_an_ascii_sink_gets_ascii() -> None:
    raw = io.BytesIO()
    sink = io.TextIOWrapper(raw, encoding="ascii")
    tt.show({"w": np.arange(5.0), "long": "é" * 100, "l": [0] * 300}, file=sink)
    sink.flush()
    raw.getvalue().decode("ascii")


def test_colour_is_only_for_those_who_ask() -> None:
    x = np.arange(5.0)
    assert "\x1b[" not in shown(x)
    assert "\x1b[" in shown(x, color=True)


def test_show_prints_once_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert tt.show(np.zeros(3)) is None  # type: ignore[func-returns-value]
    assert capsys.readouterr().out.count("float64[3]") == 1


def test_shown_is_the_text_as_an_object_and_as_html() -> None:
    x = np.arange(5.0)
    assert str(tt.Shown(x)) == repr(tt.Shown(x)) == shown(x)
    page = tt.Shown({"<b>": x})._repr_html_()
    assert page.startswith("<pre")
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    assert page.count("<span") == page.count("</span>") > 0


def test_a_notebook_displays_instead_of_printing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display = types.ModuleType("IPython.display")
    display.display = seen.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    tt.show(np.zeros(3))
    assert capsys.readouterr().out == ""
    assert "float64" in seen[0]._repr_html_()


def test_a_module_shows_its_parameters_and_buffers() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    text = shown(model)
    for part in ("Linear", "weight", "float32[3, 2]", "running_mean", "num_batches_tracked"):
        assert part in text
    assert "_parameters" not in text


def test_a_tensor_that_cannot_be_read_is_still_shown() -> None:
    torch = pytest.importorskip("torch")
    assert shown(torch.empty(3, 4, device="meta")).split() == ["float32[3,", "4]", "meta"]
    assert "sparse" in shown(torch.eye(3).to_sparse())
    assert "S5" in shown(np.zeros(3, "S5"))
    assert "uninitialized" in shown(torch.nn.LazyLinear(3))
    assert "nested" in shown(
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    )
