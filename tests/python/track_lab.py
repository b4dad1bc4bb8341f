"""Runs a few lines as a tracked function and gives its changes as short text."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import textwrap
from typing import Any

import numpy as np

from tensortap.track import var_tracker

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

_CHANGE = re.compile(r"[│ ]+├─ \[(?:Var|Tensor)\] ([\w.\[\]']+)@(\d+) (.*)")


def run(
    body: str, *names: str, file: str = "prog.py", rtol: Any = None, atol: Any = None, **given: Any
) -> str:
    """Run *body*, whose first line is line 2, tracked; give all that was printed."""
    text = "def work():\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"np": np, "torch": torch, **given}
    exec(compile(text, file, "exec"), space)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            var_tracker(*names, rtol=rtol, atol=atol)(space["work"])()
    finally:
        del linecache.cache[file]  # another test has a real file of this name
    return out.getvalue()


def changes(body: str, *names: str, **options: Any) -> list[str]:
    """Give "x@3 shape, dtype" for each change of the names, "x@2" for a first sight."""
    found = []
    for line in run(body, *(names or ("x",)), **options).splitlines():
        match = _CHANGE.fullmatch(line)
        if match is not None:
            what = re.search(r"changed: (.*?)(?: \| in \w+(?: \(\S+\))?)?$", match[3])
            kind = re.sub(r" \(.*\)", "", what[1]) if what is not None else ""
            found.append(f"{match[1]}@{match[2]} {kind}".strip())
    return found
