"""Run a few lines of code under the line source and give back what it told.

The code is compiled from text, as a notebook cell is, so that a test states the
statement and what must be told about it side by side.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable, Iterable
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from tensortap import _core

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

BACKENDS = ["numpy", *(["torch"] if torch is not None else [])]
FILE = "<lab>"


class Box:
    """An object with attributes."""


def tensor(backend: str, *shape: int, value: float = 1.0) -> Any:
    if backend == "torch":
        return torch.full(shape or (3, 3), value)
    return np.full(shape or (3, 3), value)


def surroundings(backend: str) -> dict[str, Any]:
    box = Box()
    box.h = tensor(backend)
    box.k = tensor(backend)
    names = {name: tensor(backend, value=float(2**i)) for i, name in enumerate("xywbc")}
    xs = [tensor(backend, value=float(i)) for i in range(3)]
    cache = {"k": tensor(backend), "m": tensor(backend)}
    lib = torch if backend == "torch" else np
    return {
        **names,
        "xs": xs,
        "cache": cache,
        "box": box,
        "lib": lib,
        "i": 1,
        "n": 2,
        "key": "k",
        "Box": Box,
    }


class Told(SimpleNamespace):
    """What was told: changes as (line, name, how), arrows as (line, {name: names read})."""

    events: list[Any]

    def arrows(self) -> list[tuple[int, str, list[str]]]:
        return [
            (event.line, change.name, sorted({event.reads[i].name for i in change.reads}))
            for event in self.events
            for change in event.changes
        ]

    def changes(self) -> list[tuple[int, str, str]]:
        return [(e.line, c.name, c.how) for e in self.events for c in e.changes]

    def names(self) -> list[str]:
        return [c.name for e in self.events for c in e.changes]


def watch_lines(
    change: Any = None,
    *,
    codes: Iterable[CodeType] = (),
    files: Iterable[str] = (),
    select: Callable[[CodeType], Any] = lambda code: True,
    **options: Any,
) -> Any:
    """Watch some code objects and files; all, if none is named."""
    ids, names = {id(code) for code in codes}, set(files)

    def chosen(code: CodeType) -> Any:
        is_named = id(code) in ids or code.co_filename in names
        return select(code) if is_named or not (ids or names) else False

    return _core.watch_lines(change, select=chosen, **options)


def keep_source(text: str) -> None:
    """Let Python know the source of what is compiled next, as a notebook does."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)


def run(source: str, names: dict[str, Any], *, is_function: bool = True, **options: Any) -> Told:
    """Run *source* as the body of a function (its names are arguments) or of a module."""
    body = textwrap.dedent(source).strip("\n")
    events: list[Any] = []
    if is_function:
        text = f"def lab({', '.join(names)}):\n" + textwrap.indent(body, "    ")
        keep_source(text)
        space: dict[str, Any] = {"Box": Box}
        exec(compile(text, FILE, "exec"), space)
        call = space["lab"]
        first = 1
    else:
        keep_source(body)
        code = compile(body, FILE, "exec")
        space = dict(names)
        call = None
        first = 0
    if "only" in options:
        options["names"] = options.pop("only")
    keep = options.pop("keep", lambda event: events.append(_shift(event, first)))
    result = None
    with watch_lines(keep, files=[FILE], **{"arrays": True, **options}) as watch:
        try:
            result = call(**names) if call is not None else exec(code, space)
        finally:
            errors = watch.errors
    assert errors == (0, None)
    return Told(events=events, result=result, space=space)


def _shift(event: Any, by: int) -> Any:
    fields = {
        name: getattr(event, name)
        for name in ("frame", "caller", "thread", "code", "reads", "is_return")
    }
    return SimpleNamespace(line=event.line - by, changes=list(event.changes), **fields)


def code_of(call: Any) -> CodeType:
    code: CodeType = call.__code__
    return code
