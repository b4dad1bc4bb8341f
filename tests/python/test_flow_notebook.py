"""Charts in notebooks and in plain IPython."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("pygraphviz")
pytest.importorskip("IPython")

PROGRAM = """\
import torch
from tensortap import flow
flow.on({options})
x = torch.randn(8, 8)
y = x @ x
"""


def run_cells(folder: Path, *cells: str) -> list[Any]:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    spec = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=spec).execute()
    return [cell["outputs"] for cell in book["cells"]]


@pytest.mark.heavy
@pytest.mark.parametrize("options", ["", "show=True"])
def test_a_notebook_shows_the_chart_inline(tmp_path: Path, options: str) -> None:
    first, second, third = run_cells(
        tmp_path,
        PROGRAM.format(options=options),
        "z = y + x\n",
        "output = flow.off(); print(output)",
    )
    assert first == []
    assert second == []
    svg = [out["data"]["image/svg+xml"] for out in third if out["output_type"] == "display_data"]
    assert len(svg) == 1
    assert "z" in re.findall(r">([a-z])</text>", "".join(svg))
    printed = "".join(out.get("text", "") for out in third)
    assert "displayed=True, node_count=3" in printed


@pytest.mark.heavy
def test_show_false_shows_nothing_in_a_notebook(tmp_path: Path) -> None:
    (outputs,) = run_cells(tmp_path, PROGRAM.format(options="show=False") + "output = flow.off()")
    assert outputs == []


def test_plain_ipython_says_where_the_chart_is(tmp_path: Path) -> None:
    script = tmp_path / "session.ipy"
    script.write_text(PROGRAM.format(options="show=True") + "print(flow.off())\n")
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=nocolor", str(script)],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "IPYTHONDIR": str(tmp_path / "ip"),
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "displayed=True, node_count=2" in done.stdout
    (page,) = re.findall(r"the chart is in (.*\.html)", done.stdout)
    assert Path(page).parent == tmp_path
    assert "<svg" in Path(page).read_text()
