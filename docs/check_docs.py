"""Run the examples in README.md and docs and compare what they print.

    ./dev docs [--write]

Also runs the programs of examples/, and reports files that the documents name and that do not
exist.

A ```pycon block is a Python session; the blocks of a page share one.  A ```console
block holds `$ command` lines.  Both run in a folder that holds nothing but `examples`
when the page begins, 120 columns wide.  `...` in an expected line stands for anything.
--write puts what was printed into the page.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(
    r"`((?:core|cli|python|tests|bench|docs|include|calls|lines|runs|base|tensor|models)/[\w/]+\.\w+)`"
)
BLOCK = re.compile(r"^```(pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_python(source: str, names: dict[str, Any]) -> str:
    """Return what one statement of a session prints."""
    printed = io.StringIO()
    # As for a notebook cell: code without source has no arrows in a chart.
    linecache.cache["<example>"] = (len(source), None, source.splitlines(True), "<example>")
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(source, "<example>", "single"), names)
        except Exception as error:
            last = "".join(traceback.format_exception_only(type(error), error))
            printed.write("Traceback (most recent call last):\n    ...\n" + last)
    return printed.getvalue()


def run_console(command: str, folder: str) -> str:
    """Return what one command prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def python_steps(block: str, names: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (the input as written, what is expected, what was printed)."""
    for example in doctest.DocTestParser().get_examples(block):
        lines = example.source.splitlines()
        written = "".join(
            f"{'...' if i else '>>>'} {line}".rstrip() + "\n" for i, line in enumerate(lines)
        )
        printed = run_python(example.source, names)
        yield written, example.want, re.sub(r"^$(?=\n)", "<BLANKLINE>", printed, flags=re.MULTILINE)


def console_steps(block: str, folder: str) -> Iterator[tuple[str, str, str]]:
    """Yield (the command as written, what is expected, what was printed)."""
    for step in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        if step:
            command, _, expected = step.partition("\n")
            yield command + "\n", expected, run_console(command[2:], folder)


def check(page: Path, is_writing: bool) -> int:
    """Run one page; return how many steps printed something else."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    wrong = 0
    agrees = doctest.OutputChecker().check_output
    with tempfile.TemporaryDirectory() as folder:

        def renew(found: re.Match[str]) -> str:
            nonlocal wrong
            steps = (
                python_steps(found[2], names)
                if found[1] == "pycon"
                else console_steps(found[2], folder)
            )
            new = ""
            for written, expected, printed in steps:
                is_right = agrees(expected, printed, doctest.ELLIPSIS)
                if not is_right:
                    wrong += 1
                    if not is_writing:
                        line = text.count("\n", 0, found.start()) + 1
                        place = f"{page.relative_to(ROOT)}:{line}"
                        print(f"{place}: {written}expected:\n{expected}printed:\n{printed}")
                new += written + (expected if is_right else printed)
            return f"```{found[1]}\n{new}```"

        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        before = os.getcwd()
        os.chdir(folder)  # where the commands run, too
        try:
            renewed = BLOCK.sub(renew, text)
        finally:
            os.chdir(before)
    if is_writing and renewed != text:
        page.write_text(renewed, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {wrong} outputs renewed")
        return 0
    return wrong


def missing_files() -> Iterator[str]:
    """Yield the files that the documents name and that do not exist."""
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout
    known = "\n/".join(["", *listing.splitlines()]) + "\n"
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for name in NAMED.findall(page.read_text(encoding="utf-8")):
            if listing and "NAME" not in name and f"/{name}\n" not in known:
                yield f"{page.relative_to(ROOT)}: there is no file {name}"


def run_examples() -> int:
    """Run every example program; return how many failed."""
    wrong = 0
    for program in sorted(ROOT.glob("examples/*.py")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(program)], cwd=folder, capture_output=True, text=True
            )
        needed = re.search(r"No module named '(\w+)'", done.stderr)
        if done.returncode != 0 and needed and needed[1] != "tensortap":
            print(f"examples/{program.name}: not run, {needed[1]} is not installed")
        elif done.returncode != 0:
            print(f"examples/{program.name}: {done.stderr}")
            wrong += 1
    return wrong


def main() -> int:
    """Check every page and example; return the exit code."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    missing = list(missing_files())
    print("\n".join(missing), end="\n" if missing else "")
    wrong = sum(check(page, "--write" in sys.argv) for page in pages) + len(missing)
    wrong += run_examples()
    print(f"{len(pages)} pages, {wrong} examples are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
