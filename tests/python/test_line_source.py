"""Arrows come from a syntax tree that belongs to the code that runs, or there are none.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import linecache
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
from line_lab import FILE, code_of, keep_source, run, surroundings, watch_lines

from tensortap import _core
from tensortap.analysis.table import table

PROGRAM = "def work(x, y):\n    z = x + 1\n    return z\n"


def told(code: CodeType, *calls: Any, **space: Any) -> list[tuple[int, str, list[str]]]:
    """Run a module's code, then its functions; return line, name and reads of each change."""
    found: list[tuple[int, str, list[str]]] = []

    def keep(event: Any) -> None:
        found.extend(
            (event.line, change.name, sorted({event.reads[i].name for i in change.reads}))
            for change in event.changes
        )

    with watch_lines(keep, files=[code.co_filename], arrays=True) as watch:
        exec(code, space)
        for name, *given in calls:
            space[name](*given)
        assert watch.errors == (0, None)
    return found


def imported(path: Path, text: str) -> CodeType:
    path.write_text(text)
    linecache.checkcache(str(path))
    return compile(text, str(path), "exec")


WORK = ("work", np.ones(2), np.ones(2))


@pytest.mark.parametrize(
    "edited",
    [
        PROGRAM.replace("x + 1", "y + 1"),
        PROGRAM.replace("x + 1", "x + 2"),
        "# one line more\n" + PROGRAM,
        PROGRAM.replace("    return z\n", "    assert z is y\n    return z\n"),
        "",
        "def work(x, y:\n",
    ],
)
def test_a_file_that_was_edited_since_its_import_gives_names_without_arrows(
    tmp_path: Path, edited: str
) -> None:
    code = imported(tmp_path / "prog.py", PROGRAM)
    (tmp_path / "prog.py").write_text(edited)
    assert told(code, WORK) == [(2, "z", [])]


def test_a_file_that_was_edited_and_imported_again_has_its_new_arrows(tmp_path: Path) -> None:
    code = imported(tmp_path / "prog.py", PROGRAM)
    assert told(code, WORK) == [(2, "z", ["x"])]
    code = imported(tmp_path / "prog.py", "\n" + PROGRAM.replace("x + 1", "y * 10"))
    assert told(code, WORK) == [(3, "z", ["y"])]


def test_a_function_whose_neighbour_was_edited_keeps_its_arrows(tmp_path: Path) -> None:
    other = "def other():\n    return 1\n"
    code = imported(tmp_path / "prog.py", PROGRAM + other)
    (tmp_path / "prog.py").write_text(PROGRAM + other.replace("1", "2"))
    assert told(code, WORK) == [(2, "z", ["x"])]


def test_a_function_that_pytest_rewrote_has_its_arrows() -> None:
    found: list[tuple[str, list[str]]] = []

    def keep(event: Any) -> None:
        found.extend(
            (change.name, sorted({event.reads[i].name for i in change.reads}))
            for change in event.changes
        )

    def work(x: Any) -> Any:
        z = x + 1
        assert z is not x
        w = z * x
        return w

    assert any(name.startswith("@py_") for name in code_of(work).co_varnames)
    with watch_lines(keep, codes=[code_of(work)], arrays=True):
        work(np.ones(2))
    assert found == [("z", ["x"]), ("w", ["x", "z"])]


@pytest.mark.parametrize("mode", ["exec", "single"])
def test_a_cell_that_is_compiled_statement_by_statement_has_its_arrows(mode: str) -> None:
    text = "y = x + 1\nfor i in range(1):\n    z = y * x\n(w := z + y)\n"
    keep_source(text)
    found = []
    space: dict[str, Any] = {"x": np.ones(2)}
    hook, sys.displayhook = sys.displayhook, lambda value: None
    try:
        for one in ast.parse(text).body:
            tree = ast.Module([one], []) if mode == "exec" else ast.Interactive([one])
            code = compile(tree, FILE, mode).replace(co_name="<cell line: 1>")
            found += told(code, **space)
            exec(code, space)
    finally:
        sys.displayhook = hook
    assert found == [(1, "y", ["x"]), (3, "z", ["x", "y"]), (4, "w", ["y", "z"])]


def test_lambdas_on_one_line_are_told_apart() -> None:
    source = "fs = [lambda a, b: (q := a + 1), lambda a, b: (q := b + 1)]\nfs[1](x, y)\nfs[0](x, y)"
    found = run(source, surroundings("numpy")).arrows()
    assert found == [(1, "q", ["b"]), (1, "q", ["a"])]


def test_a_comprehension_has_no_row_but_its_statements() -> None:
    keep_source("def lab(xs, t):\n    v = [t + 1 for t in xs]\n    return v\n")
    space: dict[str, Any] = {}
    exec(compile("".join(linecache.getlines(FILE)), FILE, "exec"), space)
    assert [row[2] for row in table(code_of(space["lab"])).rows] == [0, 2, 3]


def test_a_modules_variable_is_not_that_of_its_comprehension() -> None:
    names = {"xs": [np.ones(2)], "t": np.ones(2)}
    found = run("v = sum([t + 1 for t in xs])\nz = t * 2", names, is_function=False).arrows()
    assert found == [(1, "v", ["xs[0]"]), (2, "z", ["t"])]


def test_the_compilers_warnings_are_not_given_again(tmp_path: Path) -> None:
    text = "x = 1 is 1\ny = '\\d'\nwarned()\n" + PROGRAM
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = imported(tmp_path / "prog.py", text)

    def warned() -> None:
        warnings.warn("once", stacklevel=1)

    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        warned()
        assert told(code, WORK, warned=warned) == [(5, "z", ["x"])]
        warned()  # what was shown is still known
        filters = list(warnings.filters)
    assert [str(one.message) for one in given] == ["once"]
    assert not any(one[0] == "ignore" and one[2] is Warning for one in filters)


def test_without_debug_ranges_changes_have_names_and_there_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(
        "import numpy as np\nfrom tensortap import _core\n"
        "def work(x):\n    z = x + 1\n    z += 1\n    return z\n"
        "def told(event):\n"
        "    print(event.line, event.changes[0].name, len(event.changes[0].reads))\n"
        "for _ in range(2):\n"
        "    select = lambda code: code is work.__code__\n"
        "    with _core.watch_lines(told, select=select, arrays=True):\n"
        "        work(np.ones(2))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", "prog.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ran.stdout == "4 z 0\n5 z 0\n" * 2
    assert ran.stderr.count("tensortap: Python runs without debug ranges") == 1


def test_importing_tensortap_does_not_import_the_analysis() -> None:
    # From 3.14 on `typing` itself imports ast.
    ours = {"dis", "linecache", "tensortap.analysis"}
    ours |= {"ast"} if sys.version_info < (3, 14) else set()
    script = f"import sys, tensortap; print({ours} & set(sys.modules) - early)"
    script = "import sys; early = set(sys.modules); " + script
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_a_sum_of_many_terms_has_its_arrows() -> None:
    found = run("z = " + " + ".join(["x", "y"] * 450), surroundings("numpy")).arrows()
    assert found == [(1, "z", ["x", "y"])]


def test_an_expression_that_is_nested_too_deeply_gives_names_without_arrows() -> None:
    names = {"x": np.ones((2, 2))}
    found = run("y = x + 1\nz = x" + ".T" * 900 + "\nw = z + 1", names).arrows()
    assert found == [(1, "y", []), (2, "z", []), (3, "w", [])]


def test_a_python_that_is_newer_than_any_tested_has_no_line_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "hexversion", 0x03100000)
    with pytest.raises(RuntimeError, match=r"tested up to Python 3\.\d+, and this is 3\.16"):
        watch_lines(lambda event: None)
    assert _core.stats(np.arange(3.0)).max == 2  # all else works
