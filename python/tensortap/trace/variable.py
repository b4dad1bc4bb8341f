"""Variable: paths with settings of their own.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tensortap.trace import callbacks
from tensortap.trace.results import LocalVariableResult, TraceResults

Keep = Literal["changed", "content", "always"]
Mode = Literal["train", "eval"]
KEEPS = ("changed", "content", "always")


class Variable:
    """Paths to trace, how often, in which mode, and the callbacks for their values.

    Args:
        paths: One path or several.
        trace_interval: Trace every n-th forward of this mode.
        gather_interval: Gather every n-th traced forward.
        pre_save_callbacks, pre_gather_callbacks: As for `ModelTracer`.
        post_gather_callbacks, post_trace_callbacks: As for `ModelTracer`.
        mode: "train" or "eval".
        keep: Which values to keep: "changed", "content" (compares contents) or "always".

    Raises:
        ValueError: An option has a value that is not accepted.

    Example:
        >>> from tensortap.trace import Variable
        >>> variable = Variable("layers.*", trace_interval=10, mode="eval")
    """

    results: TraceResults  # by name; on rank 0
    mode: Mode | None  # None: both, counted together
    _with_lists = False  # callbacks that take both forms are given lists

    def __init__(
        self,
        paths: str | Iterable[str],
        trace_interval: int = 1,
        gather_interval: int = 1,
        pre_save_callbacks: Any = (),
        pre_gather_callbacks: Any = (),
        post_gather_callbacks: Any = (),
        post_trace_callbacks: Any = (),
        mode: Mode = "train",
        *,
        keep: Keep = "changed",
    ) -> None:
        """Check and keep the options."""
        if mode not in ("train", "eval"):
            raise ValueError(f"mode must be 'train' or 'eval', not {mode!r}")
        if keep not in KEEPS:
            raise ValueError(f"keep must be 'changed', 'content' or 'always', not {keep!r}")
        self.paths = _checked_paths(paths)
        self.trace_interval = checked_count("trace_interval", trace_interval)
        self.gather_interval = checked_count("gather_interval", gather_interval)
        self.mode, self.keep = mode, keep
        checked = callbacks.checked
        self.pre_save_callbacks = checked("pre_save_callbacks", pre_save_callbacks)
        self.pre_gather_callbacks = checked("pre_gather_callbacks", pre_gather_callbacks)
        self.post_gather_callbacks = checked("post_gather_callbacks", post_gather_callbacks)
        self.post_trace_callbacks = checked("post_trace_callbacks", post_trace_callbacks)
        self._reset()

    def _reset(self) -> None:
        self.results = TraceResults()
        self._local: dict[str, LocalVariableResult] = {}

    def _local_of(self, name: str) -> LocalVariableResult:
        return self._local.setdefault(name, LocalVariableResult())

    def _take(self) -> dict[str, LocalVariableResult]:
        taken, self._local = self._local, {}
        return taken

    def __repr__(self) -> str:
        return f"<Variable {', '.join(self.paths)}: {len(self.results)} names>"


def _checked_paths(paths: Any) -> list[str]:
    given = [paths] if isinstance(paths, str) else paths
    if not isinstance(given, Iterable):
        raise TypeError(f"paths must be dotted paths like 'layers.*.forward.x', not {paths!r}")
    found = list(given)
    for path in found:
        if not isinstance(path, str):
            raise TypeError(f"a path must be text like 'layers.*.forward.x', not {path!r}")
        if not path or any(not part for part in path.split(".")):
            raise ValueError(f"{path!r} is no path: parts are joined by single dots")
    return found


def checked_count(argument: str, value: Any) -> int:
    """Return the number of iterations if it is one."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or value < 1:
        error = ValueError if is_number else TypeError
        raise error(f"{argument} must be a number of iterations, 1 or more, not {value!r}")
    return int(value)
