"""The code in a node: the whole statement, from its first line on."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from charts import capture, edges

from tensortap import flow

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("flow_alone")


def test_a_statement_over_lines_is_one_with_its_first_line_and_all_its_code(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f():
            x = torch.stack(
                [torch.ones(2),
                 torch.ones(2)],
            )
        f()
        """,
    )
    (node,) = chart["nodes"]
    assert node["line"] == 3
    assert node["code"] == "x = torch.stack(\n    [torch.ones(2),\n     torch.ones(2)],\n)"


def test_a_page_break_in_the_source_moves_no_code(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        "import torch\n\x0c\ns = '\x1c\u2028'\nfor x in [\n    torch.ones(2),\n]:\n    y = x + 1\n",
    )
    assert [n["code"] for n in chart["nodes"]] == [
        "for x in [\n    torch.ones(2),\n]:",
        "y = x + 1",
    ]


def test_a_match_has_the_code_of_its_head(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        "import torch\nmatch (x := torch.ones(2)):\n    case _:\n        y = x + 1\n",
    )
    assert chart["nodes"][0]["code"] == "match (x := torch.ones(2)):"


@pytest.mark.filterwarnings("error")
def test_drawing_does_not_repeat_the_compilers_warnings(tmp_path: Path) -> None:
    (tmp_path / "warned.py").write_text("import torch\nx = torch.ones(len('\\d'))\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile((tmp_path / "warned.py").read_text(), str(tmp_path / "warned.py"), "exec")
    flow.on(save=True, save_dir=tmp_path)
    exec(code, {})
    output = flow.off(filename="x.json")
    assert output is not None
    assert '"code": "x = torch.ones(len(' in (tmp_path / "x.json").read_text()


def test_a_change_in_a_loop_header_has_the_headers_code(tmp_path: Path) -> None:
    chart = capture(
        tmp_path, "import torch\nxs = [torch.ones(2)]\nfor x in xs:  # each\n    # why\n    pass\n"
    )
    assert chart["nodes"][-1]["code"] == "for x in xs:  # each"


def test_code_without_source_has_neither_code_nor_arrows(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        exec(compile("a = torch.ones(2)\\nb = a + 1", "<made up>", "exec"))
        """,
    )
    assert [(n["name"], n["file"], n["code"]) for n in chart["nodes"]] == [
        ("a", "<made up>", ""),
        ("b", "<made up>", ""),
    ]
    assert edges(chart) == []
