"""Calls as a Chrome trace, for chrome://tracing and ui.perfetto.dev.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple


class Span(NamedTuple):
    """One call; times in ns."""

    name: str
    category: str
    start: int
    duration: int
    thread: int
    args: dict[str, Any]


def chrome_trace(spans: Iterable[Span]) -> str:
    """Return the calls as JSON, a call before those inside of it; times there are in us."""
    spans = list(spans)
    start, pid = min((span.start for span in spans), default=0), os.getpid()
    rows: list[dict[str, Any]] = [_name_row("process_name", pid, pid, Path(sys.argv[0]).name)]
    rows += [
        _name_row("thread_name", pid, thread, f"thread {thread}")
        for thread in sorted({span.thread for span in spans})
    ]
    rows += [
        {
            "name": span.name,
            "cat": span.category,
            "ph": "X",
            "ts": (span.start - start) / 1000,
            "dur": span.duration / 1000,
            "pid": pid,
            "tid": span.thread,
            "args": span.args,
        }
        for span in spans
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": rows})


def _name_row(what: str, pid: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": thread, "args": {"name": name or "python"}}
