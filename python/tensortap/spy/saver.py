"""Save intermediate tensors: `spy_save("q", q, self)` in forward, a DebugContext around it.

    saver = TensorSaver("debug_tensors")
    saver.register_modules(model)
    with DebugContext(saver, prefix="step0"):
        model(x)                      # step0.layers.0.attn.q.call0.pt

Names and counts are decided here; copying and writing is done in C.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections import defaultdict
from contextvars import ContextVar
from operator import index
from typing import TYPE_CHECKING, Any, Literal, Self

from tensortap import _core
from tensortap.compiled.hooks import hidden
from tensortap.files.locks import make_lock
from tensortap.runs.program import rank_and_size
from tensortap.spy.compiled import traced_save
from tensortap.spy.debugger import BaseDebugger
from tensortap.spy.file_names import safe_name, site_name
from tensortap.spy.inherited import ALONE, UNKNOWN, ContextNames
from tensortap.spy.leaf import leaves, plain, readable, row_norms, saved_by_torch, stats_json

if TYPE_CHECKING:
    import torch

    from tensortap._core import spy_save
    from tensortap.runs.record import Recording
else:
    spy_save = hidden(_core.spy_save, traced_save)

__all__ = ["DebugContext", "TensorSaver", "get_debug_context", "spy_save"]

log = logging.getLogger("tensortap.spy")

Format = Literal["pt", "npy", "safetensors", "run"]
FORMATS = ("pt", "npy", "safetensors", "run")

_entered: ContextVar[tuple[DebugContext, ...]] = _core._spy_entered  # the innermost last
_savers: weakref.WeakSet[TensorSaver] = weakref.WeakSet()
_counting = make_lock()


class TensorSaver(BaseDebugger):
    """Save tensors as files `{name}.call{n}.pt` in a folder.

    Where several ranks run, the files are `{name}.rank{r}.call{n}.pt`.

    Args:
        output_dir: Folder to write into; created if it is missing.
        enabled: Whether to save. The attribute of this name may be changed later.
        format: "pt", "npy", "safetensors", or "run": the folder is then a run, as `tt.record`
            makes one.
        max_bytes: Most bytes of copies that may wait for the disk.

    Raises:
        ValueError: The format is unknown.

    Example:
        >>> import torch
        >>> from tensortap.spy import TensorSaver
        >>> saver = TensorSaver("debug")
        >>> saver.save("x", torch.ones(2))
        >>> torch.load("debug/x.call0.pt")
        tensor([1., 1.])
    """

    call_counts: defaultdict[str, int]  # next call of each name; 0 for one never saved
    _not_copied = (*BaseDebugger._not_copied, "_files", "_run")

    def __init__(
        self,
        output_dir: str | os.PathLike[str],
        enabled: bool = True,
        *,
        format: Format = "pt",
        max_bytes: int = 64 << 20,
    ) -> None:
        """Create the folder."""
        if format not in FORMATS:
            raise ValueError(
                f"format must be one of {', '.join(map(repr, FORMATS))}, not {format!r}"
            )
        self._max_bytes = max_bytes
        super().__init__(output_dir, enabled)
        self.format = format
        self.call_counts = defaultdict(int)
        self._move()

    def _begin(self) -> None:
        super()._begin()
        self._files = _core.FileSaver(self._max_bytes)
        self._run: Recording | None = None
        _savers.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._max_bytes = state["_max_bytes"]
        super().__setstate__(state)

    def _move(self) -> None:
        # The thread that writes does not follow a program that changes its folder.
        self._stem_folder = self.output_dir
        self._folder = os.path.abspath(self.output_dir)

    def save(
        self, name: str, tensor: Any, call_idx: int | None = None, norm_only: bool = False
    ) -> None:
        """Save a tensor; the file is complete on return.

        Args:
            name: Name of the file, without `.call{n}.pt`.
            tensor: A tensor, or containers of tensors: position, key or field is appended to the
                name.
            call_idx: Number in the file's name. By default the calls of each name are counted.
            norm_only: Save the L2 norm of each row of the first dimension instead.

        Raises:
            OSError: The file cannot be written.
            TypeError: The tensor cannot be saved in this format.
        """
        self._save(str(name), tensor, call_idx, norm_only, False, is_waiting=True)

    def reset_counts(self) -> None:
        """Count calls from 0 again."""
        self.call_counts.clear()

    def flush(self) -> None:
        """Wait until everything is on disk; raise OSError if a file could not be written."""
        self._files.wait()
        if self._run is not None and not self._run.closed:
            self._run.flush()
            if self._run.error:
                raise OSError(self._run.error)

    def close(self) -> None:
        """Flush, and end the thread and the run; saving starts them again."""
        try:
            self.flush()
        finally:
            if self._run is not None:
                self._run.close()
                self._run = None

    def _save(
        self,
        name: str,
        tensor: Any,
        call_idx: int | None,
        norm_only: bool,
        stats_only: bool,
        is_waiting: bool,
    ) -> None:
        """Save a tensor or a container of tensors, at once or from the thread."""
        if not self.enabled:
            return
        for path, leaf in leaves(name, tensor):
            call = self._count(path) if call_idx is None else index(call_idx)
            if norm_only:
                leaf = row_norms(leaf)
            if self.format == "run":
                keep = "stats" if stats_only else "stats|value"
                self._open_run().tensor(site_name(path), plain(leaf), keep=keep)
                if is_waiting:
                    self.flush()
            elif stats_only:
                file = f"{self._stem(path)}{call}.json"
                self._write(file, stats_json(leaf), "bytes", is_waiting)
            else:
                file = f"{self._stem(path)}{call}.{self.format}"
                self._write(file, leaf, self.format, is_waiting)

    def _count(self, name: str) -> int:
        """Return the number of a call of a name, from 0."""
        with _counting:
            call = self.call_counts[name]
            self.call_counts[name] = call + 1
        return call

    def _stem(self, name: str) -> str:
        """Return the path of a name's files up to the number of the call."""
        if self._stem_folder is not self.output_dir:  # the user has set another folder
            self._move()
        rank, world = rank_and_size()
        each = f".rank{rank}" if world > 1 else ""  # all ranks write into one folder
        return f"{self._folder}/{safe_name(name)}{each}.call"

    def _write(self, path: str, tensor: Any, format: str, is_waiting: bool) -> None:
        if self._files.save(path, tensor, format, None, is_waiting):
            return
        for form, dtype in readable(tensor, format):
            if self._files.save(path, form, format, dtype, is_waiting):
                return
        if format != "pt":
            raise TypeError(
                f"{path}: a {tensor.layout} {tensor.dtype} tensor can only be saved as pt"
            )
        self._files.save(path, saved_by_torch(path, tensor), "bytes", None, is_waiting)

    def _open_run(self) -> Recording:
        if self._stem_folder is not self.output_dir:  # the user has set another folder
            self.close()
            self._move()
        if self._run is None or self._run.closed:
            from tensortap.runs import process
            from tensortap.runs.record import record

            # Not the program's run: what the program records still goes to its own.
            self._run = record(self._folder, resume=True, keep="stats|value", follow_fork=True)
            process.leave(self._run)
            self._run_process = os.getpid()
        elif self._run_process != os.getpid():  # forked: record into another file
            self._run.go_on()
            self._run_process = os.getpid()
        return self._run


class DebugContext(ContextNames):
    """Make `spy_save` save inside a `with` block; the innermost block is used.

    Leaving the block waits until everything is on disk, and raises OSError, with the file's
    name, if a file could not be written.

    Args:
        saver: A TensorSaver, or any object with `get_module_path(module)` and
            `save(name, tensor)`.
        prefix: Put before each name, with a dot.
        module_path_override: Used instead of the path of the module.

    Raises:
        TypeError: *saver* has no `save`.

    Example:
        >>> import torch
        >>> from tensortap.spy import DebugContext, TensorSaver, spy_save
        >>> with DebugContext(TensorSaver("debug"), prefix="step0"):
        ...     spy_save("x", torch.ones(2))
        >>> torch.load("debug/step0.manual.x.call0.pt")
        tensor([1., 1.])
    """

    def __init__(
        self, saver: Any, prefix: str = "", module_path_override: str | None = None
    ) -> None:
        """Check and keep the arguments."""
        if not callable(getattr(saver, "save", None)):
            raise TypeError(
                f"saver must be a TensorSaver, or have a save(name, tensor), not {saver!r}"
            )
        self.saver = saver
        self.prefix = prefix
        self.module_path_override = module_path_override

    def __enter__(self) -> Self:
        _entered.set((*_entered.get(()), self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        around = list(_entered.get(()))
        if self in around:  # not if it was entered elsewhere: in another task
            del around[len(around) - 1 - around[::-1].index(self)]
            _entered.set(tuple(around))
        if not isinstance(self.saver, TensorSaver):
            return
        try:
            self.saver.flush()
        except Exception as failure:
            if error is None:
                raise
            log.error("%s", failure)  # the program's own error is more important

    def _save(
        self,
        name: str,
        tensor: Any,
        module: torch.nn.Module | None = None,
        *,
        norm_only: bool = False,
        stats_only: bool = False,
    ) -> None:
        """Save under the full name; `spy_save` calls this."""
        saver = self.saver
        if self.module_path_override is not None:
            path = self.module_path_override
        elif module is None:
            path = ALONE
        else:
            path = saver.get_module_path(module)
            if path == UNKNOWN:
                log.warning(
                    "Module path unknown: %s is not registered with the saver, %r is not saved",
                    type(module).__name__,
                    name,
                )
                return
        full_name = f"{self.prefix}.{path}.{name}" if self.prefix else f"{path}.{name}"
        if isinstance(saver, TensorSaver) and type(saver).save is TensorSaver.save:
            saver._save(full_name, tensor, None, norm_only, stats_only, is_waiting=False)
            return
        if stats_only:
            raise TypeError(
                f"stats_only needs a TensorSaver; {type(saver).__name__} saves whole tensors"
            )
        for leaf_name, leaf in leaves(full_name, tensor):
            saver.save(leaf_name, row_norms(leaf) if norm_only else leaf)


def get_debug_context() -> DebugContext | None:
    """Return the context that `spy_save` would save into here.

    Returns:
        The innermost `DebugContext`, or None outside of all.

    Example:
        >>> from tensortap.spy import get_debug_context
        >>> get_debug_context() is None
        True
    """
    around = _entered.get(())
    return around[-1] if around else None


@atexit.register
def _flush_all() -> None:
    """Finish the files of contexts that were never left."""
    for saver in list(_savers):
        try:
            saver.close()
        except Exception as error:
            log.error("%s", error)
