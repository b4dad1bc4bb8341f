"""Which code is captured: where it lies, who wrote it, how it was started."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from charts import capture, names

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("flow_alone")


def test_the_tools_own_work_is_not_captured(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        from tensortap import flow
        def f(q):
            return q
        x = flow.run(f)
        """,
    )
    assert names(chart) == ["x"]


def test_installed_packages_are_not_captured(tmp_path: Path) -> None:
    package = tmp_path / "venv" / "lib" / "site-packages"
    package.mkdir(parents=True)
    (package / "installed.py").write_text("import torch\nx = torch.ones(2)\n")
    chart = capture(
        tmp_path,
        f"import sys\nsys.path.insert(0, {str(package)!r})\nimport installed\ny = installed.x\n",
    )
    assert [(n["name"], n["code"]) for n in chart["nodes"]] == [
        ("installed.x", "installed.x (source)"),
        ("y", "y = installed.x"),
    ]


def test_the_working_directory_is_that_of_on(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text(f"import torch\n{name} = torch.ones(2)\n")
    os.chdir(tmp_path / "here")
    chart = capture(
        tmp_path / "here",
        f"""\
        import os, runpy
        os.chdir({str(tmp_path / "there")!r})
        runpy.run_path({str(tmp_path / "there" / "part.py")!r})
        runpy.run_path({str(tmp_path / "here" / "part.py")!r})
        """,
    )
    assert names(chart) == ["here"]


def test_all_frames_above_are_captured_from_their_next_line(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(
        textwrap.dedent("""\
        import torch
        from tensortap import flow
        def start():
            a = torch.ones(1)
            flow.on(save=True, save_dir=".")
            b = a + 1
            return b
        def middle():
            c = torch.ones(1)
            d = start()
            e = c + d
            return e
        f = middle()
        g = f + 1
        output = flow.off(filename="x.json")
        """)
    )
    runpy.run_path("prog.py")
    chart = json.loads((tmp_path / "x.json").read_text())
    assert [(n["name"], "source" in n["code"]) for n in chart["nodes"]] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", True),
        ("e", False),
        ("f", True),
        ("g", False),
    ]


@pytest.mark.parametrize("how", [["-c", "@"], ["-"], ["prog.py"], ["-m", "prog"]])
def test_a_program_is_captured_however_it_is_started(tmp_path: Path, how: list[str]) -> None:
    program = textwrap.dedent("""\
        import torch
        from tensortap import flow
        flow.on()
        x = torch.ones(3)
        y = x * 2
        print(flow.off().node_count)
        """)
    (tmp_path / "prog.py").write_text(program)
    command = [sys.executable, *(program if word == "@" else word for word in how)]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_a_link_in_the_working_directory_is_captured(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    inside = tmp_path / "inside"
    elsewhere.mkdir()
    inside.mkdir()
    (elsewhere / "linked.py").write_text("import torch\nx = torch.ones(2)\n")
    (inside / "linked.py").symlink_to(elsewhere / "linked.py")
    os.chdir(inside)
    assert names(capture(inside, "import runpy\nrunpy.run_path('linked.py')\n")) == ["x"]
    os.chdir(elsewhere)
    assert names(capture(inside, "import torch\ny = torch.ones(2)\n")) == []


def test_a_class_typed_on_the_command_line_is_captured(tmp_path: Path) -> None:
    code = """\
class Made:
    def __init__(self, torch):
        self.x = torch.ones(2)
"""
    chart = capture(
        tmp_path,
        f"import torch\nscope = {{}}\nexec({code!r}, scope)\nm = scope['Made'](torch)\n",
    )
    assert names(chart) == ["self.x"]


def test_dataclass_code_is_not_captured(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import dataclasses, collections, torch
        @dataclasses.dataclass
        class D:
            t: object
        N = collections.namedtuple("N", "t")
        d = D(torch.ones(2))
        n = N(torch.ones(2))
        """,
    )
    assert names(chart) == []
