"""Trace the order in which modules are called.

    tracer = CallTracer("traces")
    tracer.register_hooks(model)
    model(x)
    tracer.save_trace()               # traces/call_trace.txt: one path a line
    tracer.save_trace("calls.json")   # for ui.perfetto.dev, with times and shapes

Calls are taken in C (`_core.CallLog`).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from tensortap import _core
from tensortap.spy.debugger import UNKNOWN, BaseDebugger, selected

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

log = logging.getLogger("tensortap.spy")

Tensors = tuple[tuple[tuple[int, ...], str], ...]  # (shape, dtype) of each


class CallEvent(NamedTuple):
    """One call of a module that has ended."""

    path: str
    call: int  # of this module, from 0, in order of entry
    depth: int  # traced modules around it
    inputs: Tensors
    outputs: Tensors
    start: int  # ns, as time.perf_counter_ns()
    duration: int  # ns
    thread: int
    error: type[BaseException] | None  # what it raised


class HookHandle:
    """One traced module; `remove()` stops tracing it."""

    def __init__(self, log: _core.CallLog, module: torch.nn.Module) -> None:
        """Remember the module, weakly."""
        self._log, self._module = log, ref(module)

    def is_of(self, module: torch.nn.Module) -> bool:
        """Tell whether it is this module's."""
        return self._module() is module

    def remove(self) -> None:
        """Stop tracing the module; twice is fine."""
        module = self._module()
        if module is not None:
            self._log.remove(module)


class CallTracer(BaseDebugger):
    """Records the paths of modules as they return."""

    hooks: list[HookHandle]  # one of each traced module
    _not_copied = (*BaseDebugger._not_copied, "_log", "hooks")

    def _begin(self) -> None:
        super()._begin()
        self._log = _core.CallLog()
        self.hooks = []

    @property
    def enabled(self) -> bool:
        """Tell whether calls are taken."""
        return not self._log.off

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._log.off = not value

    @property
    def call_trace(self) -> list[str]:
        """Give the paths in the order in which the modules returned."""
        return self._log.trace

    @property
    def events(self) -> list[CallEvent]:
        """Give every call, in the order in which they ended, those that raised included."""
        return [CallEvent(*event) for event in self._log.events()]

    def register_hooks(
        self,
        model: torch.nn.Module,
        target_classes: type | Sequence[type] | None = None,
        target_names: Sequence[str] | None = None,
        exclude_names: Sequence[str] | None = None,
    ) -> None:
        """Trace the modules of these classes (all), whose path contains one of the names
        (any) and none of the excluded ones.
        """  # noqa: D205
        from torch.nn import DataParallel

        replicated = {
            id(below)
            for module in model.modules()
            if isinstance(module, DataParallel)
            for below in module.module.modules()
        }
        for path, module in selected(model, target_classes, target_names, exclude_names):
            if self.get_module_path(module) != UNKNOWN:  # once more, perhaps by another path
                self._log.remove(module)
                self.hooks = [handle for handle in self.hooks if not handle.is_of(module)]
            self._register(path, module)
            self._log.add(module, path, id(module) in replicated)
            self.hooks.append(HookHandle(self._log, module))

    def remove_hooks(self) -> None:
        """Stop tracing; the model is as it was before, the trace stays."""
        self._log.remove(None)
        self.hooks.clear()

    def get_trace(self) -> list[str]:
        """Give a copy of the trace."""
        return list(self._log.trace)

    def reset_trace(self) -> None:
        """Forget all calls."""
        self._log.reset()

    def save_trace(self, filename: str | os.PathLike[str] = "call_trace.txt") -> Path:
        """Write the trace into the folder: one path a line, or, for `.json`, a Chrome trace."""
        file = self.output_dir / filename
        if self.hooks and len(self._log.unseen()) == len(self.hooks):
            log.warning(
                "%s: none of the %d traced modules was called in sight (calls inside of a compiled "
                "or scripted model cannot be seen)",
                file,
                len(self.hooks),
            )
        text = _chrome_trace(self.events) if file.suffix == ".json" else "\n".join(self._log.trace)
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
        return file

    def __enter__(self) -> Self:
        """Begin a new trace."""
        self.enabled = True
        self.reset_trace()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave everything as it is."""

    def __del__(self) -> None:
        log = getattr(self, "_log", None)
        if log is not None:
            log.remove(None)


def _chrome_trace(events: list[CallEvent]) -> str:
    """Write the events as chrome://tracing and Perfetto read them; times are in us."""
    events = sorted(events, key=lambda event: (event.start, event.depth))  # a call before its calls
    start, pid = events[0].start if events else 0, os.getpid()
    rows: list[dict[str, Any]] = [_name_row("process_name", pid, pid, Path(sys.argv[0]).name)]
    rows += [
        _name_row("thread_name", pid, thread, f"thread {thread}")
        for thread in sorted({event.thread for event in events})
    ]
    rows += [
        {
            "name": event.path,
            "cat": "module",
            "ph": "X",
            "ts": (event.start - start) / 1000,
            "dur": event.duration / 1000,
            "pid": pid,
            "tid": event.thread,
            "args": {
                "call": event.call,
                "depth": event.depth,
                "inputs": [_tensor_text(*tensor) for tensor in event.inputs],
                "outputs": [_tensor_text(*tensor) for tensor in event.outputs],
                **({"error": event.error.__name__} if event.error is not None else {}),
            },
        }
        for event in events
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": rows})


def _name_row(what: str, pid: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": thread, "args": {"name": name or "python"}}


def _tensor_text(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
