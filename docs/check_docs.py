"""Run the examples in README.md and docs and compare what they print.

    ./dev docs [--write] [PAGE...]

Also runs the programs of examples/, and reports files that the documents name and that do not
exist, and pages that do not say for whom they are.

A ```pycon block is a Python session and a ```console block holds `$ command` lines; what they print
is compared.  A ```python block is a piece of a program and a ```sh block a script; they must run
without an error.  A block with a title is the file of that name.  The Python blocks of a page share
their names.  What a reader has and a page does not show (a model, a run) is in comments that begin
with `<!-- python` or `<!-- sh`.  All of it runs in a folder that holds only `examples` and a
`train.py` when the page begins, 120 columns wide.
`...` in an expected line stands for anything.  --write puts what was printed into the page.
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
BLOCK = re.compile(
    r"""^(?:```|<!-- )(pycon|console|python|sh)(?: title="(\S+)")?\n(.*?)^(?:```|-->)$""",
    re.MULTILINE | re.DOTALL,
)
#: Lines of scripts that are not run: they change the machine, or do not end.
NOT_RUN = re.compile(
    r"^(pip install|apt-get install|tensortap serve|tensorboard) .*$", re.MULTILINE
)

NEWEST = '"$(ls -d runs/* | tail -n 1)"'  # what runs/... stands for


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


def run_shell(script: str, folder: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the folder, where nothing opens a browser."""
    path = f"{folder}/.bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120", "ROOT": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def missing_package(text: str) -> str:
    """Return the package whose absence this error is about; empty: it is about something else."""
    found = re.search(r"No module named '(\w+)", text)
    return found[1] if found and found[1] != "tensortap" else ""


def run_block(block: re.Match[str], place: str, names: dict[str, Any], folder: str) -> str:
    """Run a ```python or ```sh block; return its error, or nothing."""
    language, file, source = block.groups()
    if file:
        (Path(folder) / file).unlink(missing_ok=True)
        (Path(folder) / file).write_text(source)
        return ""
    if language == "sh":
        script = NOT_RUN.sub("true", source).replace("runs/...", NEWEST)
        done = run_shell("set -e\n" + script, folder)
        return done.stdout if done.returncode != 0 else ""
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, place, "exec"), names)
    except Exception:
        return traceback.format_exc(limit=-2)
    return ""


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
            yield command + "\n", expected, run_shell(command[2:], folder).stdout


def prepare(folder: Path) -> None:
    """Put into the folder what every page may use."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "train.py").symlink_to(ROOT / "examples/diverging.py")
    (folder / ".bin").mkdir()
    (folder / ".bin/xdg-open").symlink_to("/bin/true")


def check(page: Path, is_writing: bool) -> int:
    """Run one page; return how many steps printed something else."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    wrong = 0
    agrees = doctest.OutputChecker().check_output
    with tempfile.TemporaryDirectory() as folder:

        def renew(found: re.Match[str]) -> str:
            nonlocal wrong
            place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}"
            if found[1] in ("python", "sh"):
                error = run_block(found, place, names, folder)
                if missing_package(error):
                    print(f"{place}: not run, {missing_package(error)} is not installed")
                elif error:
                    wrong += 1
                    print(f"{place}: {found[3]}{error}")
                return found[0]
            steps = (
                python_steps(found[3], names)
                if found[1] == "pycon"
                else console_steps(found[3], folder)
            )
            new = ""
            for written, expected, printed in steps:
                is_right = agrees(expected, printed, doctest.ELLIPSIS)
                if not is_right:
                    wrong += 1
                    if not is_writing:
                        print(f"{place}: {written}expected:\n{expected}printed:\n{printed}")
                new += written + (expected if is_right else printed)
            return f"```{found[1]}\n{new}```"

        prepare(Path(folder))
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


def without_readers() -> Iterator[str]:
    """Yield the pages whose first line does not say for whom they are."""
    for page in ROOT.glob("docs/**/*.md"):
        _, _, rest = page.read_text(encoding="utf-8").partition("\n")
        if page.name != "index.md" and not rest.lstrip().startswith("For "):
            yield f"{page.relative_to(ROOT)}: the first line does not say for whom it is"


def run_examples() -> int:
    """Run every example program; return how many failed."""
    wrong = 0
    for program in sorted(ROOT.glob("examples/*.py")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(program)], cwd=folder, capture_output=True, text=True
            )
        if done.returncode != 0 and missing_package(done.stderr):
            print(
                f"examples/{program.name}: not run, {missing_package(done.stderr)} is not installed"
            )
        elif done.returncode != 0:
            print(f"examples/{program.name}: {done.stderr}")
            wrong += 1
    return wrong


def main() -> int:
    """Check every page and example; return the exit code."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if not words or str(page.relative_to(ROOT)) in words]
    missing = [*missing_files(), *without_readers()]
    print("\n".join(missing), end="\n" if missing else "")
    wrong = sum(check(page, "--write" in sys.argv) for page in pages) + len(missing)
    wrong += 0 if words else run_examples()
    print(f"{len(pages)} pages, {wrong} examples are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
