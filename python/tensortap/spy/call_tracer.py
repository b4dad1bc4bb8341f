"""Trace the order in which modules are called.

    tracer = CallTracer("traces")
    tracer.register_hooks(model)
    model(x)
    tracer.save_trace()               # traces/call_trace.txt: one path a line
    tracer.save_trace("calls.json")   # for ui.perfetto.dev, with times and shapes

Calls are recorded in C (`_core.CallLog`).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from weakref import ref

from tensortap import _core
from tensortap.compiled.module_call import what_hides_modules
from tensortap.files.chrome import Span, chrome_trace
from tensortap.spy.debugger import BaseDebugger
from tensortap.spy.inherited import UNKNOWN

if TYPE_CHECKING:
    import torch

log = logging.getLogger("tensortap.spy")

Tensors = tuple[tuple[tuple[int, ...], str], ...]  # (shape, dtype) of each


class CallEvent(NamedTuple):
    """One call of a module that has ended.

    Attributes:
        path: Path of the module.
        call: Number of the call of this module, from 0, in order of entry.
        depth: Number of traced modules around it.
        inputs: (shape, dtype) of each tensor among the arguments.
        outputs: (shape, dtype) of each tensor in the result.
        start: Time of entry in ns, as from `time.perf_counter_ns()`.
        duration: In ns.
        thread: Number of the thread.
        error: Type of the exception that it raised, or None.

    Example:
        >>> import torch
        >>> from tensortap.spy import CallTracer
        >>> model = torch.nn.Linear(2, 1)
        >>> tracer = CallTracer("traces")
        >>> tracer.register_hooks(model)
        >>> _ = model(torch.ones(1, 2))
        >>> tracer.events[0].outputs
        (((1, 1), 'float32'),)
    """

    path: str
    call: int
    depth: int
    inputs: Tensors
    outputs: Tensors
    start: int
    duration: int
    thread: int
    error: type[BaseException] | None


class HookHandle:
    """One traced module; `remove()` stops tracing it."""

    def __init__(self, log: _core.CallLog, module: torch.nn.Module) -> None:
        """Remember the module, weakly."""
        self._log, self._module = log, ref(module)

    def is_of(self, module: torch.nn.Module) -> bool:
        """Return whether it belongs to this module."""
        return self._module() is module

    def remove(self) -> None:
        """Stop tracing the module; a second call does nothing."""
        module = self._module()
        if module is not None:
            self._log.remove(module)


class CallTracer(BaseDebugger):
    """Record the paths of modules as they return.

    Entering it as a context manager starts a new trace; leaving it changes nothing.

    Args:
        output_dir: Folder for `save_trace`; created if it is missing.
        enabled: Whether to record. The attribute of this name may be changed later.

    Example:
        >>> import torch
        >>> from tensortap.spy import CallTracer
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> tracer = CallTracer("traces")
        >>> tracer.register_hooks(model)
        >>> _ = model(torch.ones(1, 2))
        >>> tracer.call_trace
        ['0', '1', 'root']
    """

    hooks: list[HookHandle]  # one of each traced module
    _not_copied = (*BaseDebugger._not_copied, "_log", "hooks")

    def _begin(self) -> None:
        super()._begin()
        self._log = _core.CallLog()
        self.hooks = []

    @property
    def enabled(self) -> bool:
        """Whether calls are recorded."""
        return not self._log.off

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._log.off = not value

    @property
    def call_trace(self) -> list[str]:
        """The paths in the order in which the modules returned."""
        return self._log.trace

    @property
    def events(self) -> list[CallEvent]:
        """Every call, also those that raised, in the order in which they ended."""
        return [CallEvent(*event) for event in self._log.events()]

    register_hooks = BaseDebugger.register_modules

    def _register(self, path: str, module: torch.nn.Module, is_called: bool) -> None:
        if self.get_module_path(module) != UNKNOWN:  # registered again, perhaps by another path
            self._log.remove(module)
            self.hooks = [handle for handle in self.hooks if not handle.is_of(module)]
        super()._register(path, module, is_called)
        if not is_called:
            return
        self._log.add(module, path)
        self.hooks.append(HookHandle(self._log, module))

    def remove_hooks(self) -> None:
        """Stop tracing; keep the trace."""
        self._log.remove(None)
        self.hooks.clear()

    def get_trace(self) -> list[str]:
        """Return a copy of the trace."""
        return list(self._log.trace)

    def reset_trace(self) -> None:
        """Forget all calls."""
        self._log.reset()

    def save_trace(self, filename: str | os.PathLike[str] = "call_trace.txt") -> Path:
        """Write the trace into the folder.

        Args:
            filename: One path is written on each line; if the name ends with `.json`, a Chrome
                trace with times and shapes, which ui.perfetto.dev opens.

        Returns:
            The path of the file.
        """
        file = self.output_dir / filename
        if self.hooks and len(self._log.unseen()) == len(self.hooks):
            log.warning(
                "%s: no call of the %d traced modules was seen (%s)",
                file,
                len(self.hooks),
                what_hides_modules() or "calls inside of a scripted model cannot be seen",
            )
        text = _chrome_trace(self.events) if file.suffix == ".json" else "\n".join(self._log.trace)
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
        return file

    def __enter__(self) -> Self:
        """Start a new trace."""
        self.enabled = True
        self.reset_trace()
        return self

    def __exit__(self, *_: object) -> None:
        """Change nothing."""

    def __del__(self) -> None:
        log = getattr(self, "_log", None)
        if log is not None:
            log.remove(None)


def _chrome_trace(events: list[CallEvent]) -> str:
    """Return the events as a Chrome trace."""
    ordered = sorted(events, key=lambda event: (event.start, event.depth))
    return chrome_trace(
        Span(
            event.path,
            "module",
            event.start,
            event.duration,
            event.thread,
            {
                "call": event.call,
                "depth": event.depth,
                "inputs": [_tensor_text(*tensor) for tensor in event.inputs],
                "outputs": [_tensor_text(*tensor) for tensor in event.outputs],
                **({"error": event.error.__name__} if event.error is not None else {}),
            },
        )
        for event in ordered
    )


def _tensor_text(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
