"""Programs of two files, one of them selected, and the lines that are told of it or traced.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import linecache
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from line_lab import watch_lines

OTHER = """
import sys

def heard():
    lines = sys._getframe().f_trace_lines  # we switch it off in a frame that we must hear of
    return not lines

def calling(function, *args):
    kept = 1
    result = function(*args)
    return result

def generator(function):
    yield sys._getframe().f_trace_lines
    yield function()
    yield sys._getframe().f_trace_lines
"""


def module(text: str, file: str, **names: Any) -> dict[str, Any]:
    space = dict(names)
    text = textwrap.dedent(text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), space)
    return space


def evaluator() -> int | None:
    """Return the address of the interpreter's frame evaluation function."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    ask = api._PyInterpreterState_GetEvalFrameFunc
    ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    found: int | None = ask(ctypes.c_void_p(api.PyInterpreterState_Get()))
    return found


def lines_told(run: Callable[[], Any], *, bare: bool) -> list[tuple[str, int]]:
    told: list[tuple[str, int]] = []
    watch = watch_lines(
        line=lambda event: told.append((event.code.co_name, event.line)),
        files=["<mine>"],
        bare=bare,
    )
    with watch:
        run()
    return told


def lines_traced(run: Callable[[], Any]) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and frame.f_code.co_name != "<listcomp>":  # a part of its line
            seen.append((frame.f_code.co_name, frame.f_lineno))
        return local

    def every(frame: Any, event: str, arg: Any) -> Any:
        return local if frame.f_code.co_filename == "<mine>" else None

    sys.settrace(every)
    try:
        run()
    finally:
        sys.settrace(None)
    return seen
