"""Pictures, pages and texts of a chart, and what happens where they cannot be made."""

from __future__ import annotations

import builtins
import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensortap import flow

pytestmark = pytest.mark.usefixtures("flow_alone")


def capture(**options: Any) -> None:
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, save=True, save_dir="out", **options)
    a = np.arange(12.0).reshape(3, 4)
    b = a * np.nan  # noqa: F841  # <b>&"code"
    flow.off(render=False)


MAGIC = {".png": b"\x89PNG\r\n", ".pdf": b"%PDF-", ".svg": b"<?xml", ".html": b"<!DOCTYPE html>"}


@pytest.mark.parametrize("suffix", MAGIC)
def test_the_suffix_picks_the_format(suffix: str) -> None:
    pytest.importorskip("pygraphviz")
    capture()
    output = flow.off(filename=f"x{suffix}")
    assert output == flow.RenderOutput(f"out/x{suffix}", False, 2)
    assert Path(f"out/x{suffix}").read_bytes().startswith(MAGIC[suffix])


def test_the_suffix_may_be_in_capitals() -> None:
    capture()
    assert flow.off(filename="X.DOT") == flow.RenderOutput("out/X.DOT", False, 2)


@pytest.mark.parametrize("name", ["x.gif", "x", "x.png.bak"])
def test_an_unknown_suffix_names_those_that_are_known_and_keeps_the_nodes(name: str) -> None:
    capture()
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf, \.html, \.dot, \.json"):
        flow.off(filename=name)
    assert not flow.on().enabled or flow.off(filename="x.dot") is not None


def test_a_filename_of_a_wrong_type_is_refused() -> None:
    capture()
    with pytest.raises(TypeError, match="filename"):
        flow.off(filename=3)  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_an_error_and_keeps_the_nodes(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file, not a folder")
    capture()
    with pytest.raises(OSError, match="out"):
        flow.off(filename="x.dot")
    output = flow.off(filename=tmp_path / "x.dot")
    assert output is not None
    assert output.node_count == 2


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ModuleNotFoundError("no such module"), "pip install pygraphviz"),
        (ImportError("libgobject-2.0.so.0: cannot open"), "apt-get install libglib2.0-0"),
        (ImportError("libXrender.so.1: cannot open"), "apt-get install .*libxrender1"),
    ],
)
def test_without_graphviz_the_dot_file_is_written_and_the_message_says_so(
    monkeypatch: pytest.MonkeyPatch, error: ImportError, remedy: str
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pygraphviz":
            raise error
        return real(name, *args, **kwargs)

    capture()
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.warns(RuntimeWarning, match=rf"x\.png was not drawn.*{remedy}.*x\.dot") as told:
        output = flow.off(filename="x.png")
    assert told[0].filename == __file__
    assert output == flow.RenderOutput("out/x.dot", False, 2)
    assert Path("out/x.dot").read_text().startswith("digraph")


def test_graphviz_that_fails_leaves_the_dot_file(monkeypatch: pytest.MonkeyPatch) -> None:
    pygraphviz = pytest.importorskip("pygraphviz")

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("out of paper")

    capture()
    monkeypatch.setattr(pygraphviz.AGraph, "draw", fail)
    with pytest.warns(RuntimeWarning, match="out of paper"):
        output = flow.off(filename="x.pdf")
    assert output is not None
    assert output.saved_path == "out/x.dot"


def test_show_outside_of_ipython_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    capture()
    with pytest.warns(UserWarning, match="save=True"):
        output = flow.off(show=True, save=False)
    assert output == flow.RenderOutput(None, False, 2)


def test_importing_flow_imports_neither_torch_nor_graphviz() -> None:
    import subprocess

    code = (
        "import sys, tensortap.flow;"
        "print(sorted({'torch', 'numpy', 'pygraphviz'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_svg_holds_names_values_and_code() -> None:
    pytest.importorskip("pygraphviz")
    capture()
    flow.off(filename="x.svg")
    texts = [t.text or "" for t in ET.parse("out/x.svg").iter("{http://www.w3.org/2000/svg}text")]
    plain = [t.replace("\xa0", " ") for t in texts]
    assert {"a", "b", "11", "NaN", "12 NaN"} <= set(plain)
    assert any('# <b>&"code"' in t for t in plain)


def test_backslashes_are_drawn_as_they_were_written() -> None:
    pytest.importorskip("pygraphviz")
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, save=True, save_dir="out")
    d = {"\\\\N": np.ones(1)}  # one \n, two \\N
    flow.off(filename="x.svg")
    root = ET.parse("out/x.svg").getroot()
    texts = [(t.text or "").replace("\xa0", " ") for t in root.iter() if t.tag.endswith("}text")]
    tips = [a.get("{http://www.w3.org/1999/xlink}title", "") for a in root.iter() if "}a" in a.tag]
    assert f"d[{next(iter(d))!r}]" in texts
    assert all("two " + 2 * "\\" + "N" in text for text in ("".join(texts), tips[0]))


def test_a_sampled_table_says_so_and_names_its_rows_and_columns() -> None:
    pytest.importorskip("pygraphviz")
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, save=True, save_dir="out", max_matrix=4)
    a = np.full((11, 5), 0.5)  # noqa: F841
    flow.off(filename="x.svg")
    texts = [t.text for t in ET.parse("out/x.svg").getroot().iter() if t.tag.endswith("}text")]
    assert "sampled: not every element is shown" in texts
    start = texts.index("sampled: not every element is shown")
    numbers = [text for text in texts[:start] if text is not None and text.isdigit()]
    assert numbers == ["0", "1", "2", "4", "0", "3", "6", "10"]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("id") == "data"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data
            self._in_data = False


def test_the_page_is_complete_in_itself_and_knows_the_statistics() -> None:
    pytest.importorskip("pygraphviz")
    capture()
    flow.off(filename="x.html")
    text = Path("out/x.html").read_text()
    page = _Page()
    page.feed(text)
    tags = {tag for tag, _ in page.tags}
    assert {"svg", "script", "style"} <= tags
    assert not tags & {"link", "img", "iframe"}
    assert not any("src" in attrs for _, attrs in page.tags)
    chart = json.loads(page.data)
    assert [n["name"] for n in chart["nodes"]] == ["a", "b"]
    assert chart["nodes"][1]["stats"]["nan"] == 12
    ids = {attrs.get("id") for tag, attrs in page.tags if tag == "g"}
    assert {f"n{n['id']}" for n in chart["nodes"]} <= ids


def test_a_chart_without_arrows_of_many_nodes_is_no_strip() -> None:
    pytest.importorskip("pygraphviz")
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, save=True, save_dir="out", max_nodes=60)
    for _ in range(60):
        a = np.ones((4, 4))  # noqa: F841
    flow.off(filename="x.svg")
    size = re.search(r'<svg width="(\d+)pt" height="(\d+)pt"', Path("out/x.svg").read_text())
    assert size is not None
    assert 1 / 4 < int(size[1]) / int(size[2]) < 4


def turn(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = x @ w
    return y + 1


@pytest.mark.parametrize("nodes", [16, 50, 200])
def test_a_large_chart_is_a_page_with_all_its_nodes_and_arrows(nodes: int) -> None:
    pytest.importorskip("pygraphviz")
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, save=True, save_dir="out", max_nodes=nodes)
    w = np.ones((8, 8))
    for _ in range(nodes):
        x = np.ones((4, 8))
        z = turn(x, w)
        w = w + z.T @ x
    flow.flush(filename="x.json", clear=False)
    flow.off(filename="x.svg")
    chart = json.loads(Path("out/x.json").read_text())
    text = Path("out/x.svg").read_text()
    size = re.search(r'<svg width="(\d+)pt" height="(\d+)pt"', text)
    assert size is not None
    assert 0.8 < int(size[1]) / int(size[2]) < 2.5
    drawn = ET.fromstring(text).iter("{http://www.w3.org/2000/svg}g")
    classes = [group.get("class") for group in drawn]
    assert classes.count("node") == nodes == len(chart["nodes"])
    assert classes.count("edge") == len(chart["edges"]) > 0
