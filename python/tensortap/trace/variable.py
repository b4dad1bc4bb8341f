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
MODES = ("train", "eval")


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
    pre_save_callbacks: list[callbacks.Callback]
    pre_gather_callbacks: list[callbacks.Callback]
    post_gather_callbacks: list[callbacks.Callback]
    post_trace_callbacks: list[callbacks.Callback]

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
        """Trace *paths* in every *trace_interval*-th forward of the mode "train" or "eval".

        *keep*: "changed" (a value that is not the last one again), "content" (compares
        contents) or "always" (one value each iteration, whether it changed or not).
        """
        if mode not in MODES:
            raise ValueError(f"mode must be 'train' or 'eval', not {mode!r}")
        lists = {
            "pre_save_callbacks": pre_save_callbacks,
            "pre_gather_callbacks": pre_gather_callbacks,
            "post_gather_callbacks": post_gather_callbacks,
            "post_trace_callbacks": post_trace_callbacks,
        }
        self._fill(paths, trace_interval, {"gather_interval": gather_interval}, lists, mode, keep)
        self._with_lists = False

    @classmethod
    def _of_paths(cls, *options: Any) -> Variable:
        """Make the one that stands for all paths of a ModelTracer."""
        self = cls.__new__(cls)
        self._fill(*options)
        self._with_lists = True
        return self

    def _fill(
        self,
        paths: Any,
        trace_interval: int,
        gather_interval: dict[str, int],  # by the name that the caller's argument has
        callback_lists: dict[str, Any],
        mode: Mode | None,
        keep: Keep,
    ) -> None:
        self.paths = _checked_paths(paths)
        self.trace_interval = _checked_count("trace_interval", trace_interval)
        (self.gather_interval,) = (_checked_count(*one) for one in gather_interval.items())
        if keep not in KEEPS:
            raise ValueError(f"keep must be 'changed', 'content' or 'always', not {keep!r}")
        self.mode = mode
        self.keep = keep
        for name, given in callback_lists.items():
            setattr(self, name, callbacks.checked(name, given))
        self._reset()

    def _reset(self) -> None:
        self.results = TraceResults()
        self._local: dict[str, LocalVariableResult] = {}

    def _local_of(self, name: str) -> LocalVariableResult:
        local = self._local.get(name)
        if local is None:
            local = self._local[name] = LocalVariableResult()
        return local

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


def _checked_count(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument} must be a number of iterations, 1 or more, not {value!r}")
    if value < 1:
        raise ValueError(f"{argument} must be a number of iterations, 1 or more, not {value!r}")
    return value
