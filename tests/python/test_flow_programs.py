"""Small programs of the kind that people write, and the arrows that a person expects of them.

They are in flow_programs/*.txt: `###` begins one and names it, `#>` are its arrows, thought out
by hand, the rest is the body of a function in which `x` and `w` are tensors.  `x'` is the second
node of the name x.  Those of torch.txt need torch; all others hold with NumPy alone too.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest
from charts import Chart, arrows, capture

pytestmark = pytest.mark.usefixtures("flow_alone")

HAS_TORCH = importlib.util.find_spec("torch") is not None
HEAD = f"""\
import asyncio, collections, contextlib, dataclasses, functools, itertools, threading
import {"torch" if HAS_TORCH else "numpy"} as T
def f(p):
    h = p + 1
    return h
def g(q):
    k = q * 2
    return k
def ip(r):
    r += 1
class Box: pass
def main():
    x = T.ones(2)
    w = T.ones(2) * 3
"""


def _programs() -> list[object]:
    found = []
    for path in sorted((Path(__file__).parent / "flow_programs").glob("*.txt")):
        for text in path.read_text().split("### ")[1:]:
            name, *lines = text.splitlines()
            expected = " ".join(line[2:] for line in lines if line.startswith("#>"))
            body = "\n".join(line for line in lines if not line.startswith("#>"))
            why = "torch is not there" if path.stem == "torch" and not HAS_TORCH else ""
            if "send" in name and sys.version_info >= (3, 14):
                why = "a value sent to a generator has no arrow there: docs/install.md says so"
            marks = pytest.mark.skipif(why != "", reason=why)
            found.append(pytest.param(body, expected, id=f"{path.stem}: {name}", marks=marks))
    return found


def _capture(folder: Path, body: str) -> Chart:
    text = HEAD + textwrap.indent(body, "    ") + "\nmain()\n"
    return capture(folder, text, max_nodes=2000, arrays=not HAS_TORCH)


@pytest.mark.parametrize(("body", "expected"), _programs())
def test_a_program_gives_these_arrows(tmp_path: Path, body: str, expected: str) -> None:
    assert arrows(_capture(tmp_path, body)) == sorted(expected.split())


def test_a_statement_may_have_hundreds_of_arrows(tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(300)]
    body = "\n".join(f"{name} = x + {i}" for i, name in enumerate(names))
    found = arrows(_capture(tmp_path, f"{body}\ny = {' + '.join(names)}"))
    assert found == sorted([*(f"x->{name}" for name in names), *(f"{name}->y" for name in names)])


def test_a_statement_may_change_hundreds_of_names(tmp_path: Path) -> None:
    names = [f"a{i}" for i in range(300)]
    values = ", ".join(f"x + {i}" for i in range(300))
    found = arrows(_capture(tmp_path, f"{', '.join(names)} = {values}"))
    assert found == sorted(f"x->{name}" for name in names)


def test_all_that_a_call_changes_in_place_is_told_at_its_own_line(tmp_path: Path) -> None:
    body = [f"a{i} = x + {i}" for i in range(100)]
    names = ", ".join(f"a{i}" for i in range(100))
    body += ["def bump(*all):", "    for one in all: one *= 3", f"bump({names})", "y = x + w"]
    line = HEAD.count("\n") + len(body) - 1
    chart = _capture(tmp_path, "\n".join(body))
    changed = {node["name"] for node in chart["nodes"] if node["line"] == line}
    assert changed >= {f"a{i}" for i in range(100)}
