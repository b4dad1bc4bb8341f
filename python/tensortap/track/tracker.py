"""Watch names frame by frame, and log each change.

A consumer of the line source, which tells when a name was bound and when what it holds
may have changed.  A line is written only if the value differs from the one that was last
seen under that name in that frame.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tensortap import _core
from tensortap.compiled.hooks import never_compile
from tensortap.files.frames import frame_at
from tensortap.files.owners import Owner
from tensortap.track.description import Description, Tolerance, differences
from tensortap.track.log import log
from tensortap.track.rendering import Branch, named_text

_MISSING = object()
_FARTHEST = 1000  # frames, to the nearest that is tracked


class _Change(NamedTuple):
    """Where and how a value was seen."""

    code: CodeType
    line: int
    key: int  # that the line source gave to what is there now; 0: none


class _Frame:
    """What the names held when they were last seen in one frame."""

    __slots__ = ("depth", "is_root", "last")

    def __init__(self, depth: int, *, is_root: bool) -> None:
        self.depth = depth
        self.is_root = is_root  # of a decorated function: its arguments are logged as inputs
        self.last: dict[str, Description] = {}


class Tracker:
    """Logs each change of some names in this thread, while started.

    Args:
        names: The names.
        roots: Code of decorated functions.
        tolerance: Values that are this close are not a change.
    """

    def __init__(self, names: tuple[str, ...], roots: set[CodeType], tolerance: Tolerance) -> None:
        """Watch nothing yet."""
        self.names, self.roots, self.tolerance = names, roots, tolerance
        self.depth = 0  # of what a decorated function's frame logs
        #: by the frame's address; a generator keeps its own while it is suspended
        self._frames: dict[int, _Frame] = {}
        self._file: str | None = None  # of the root that was entered last
        self._watch: _core.LineWatch | None = None

    def start(self) -> None:
        """Begin or go on; what was seen last is still known."""
        if self._watch is None:
            self._watch = _core.watch_lines(
                self._on_change,
                enter=self._on_enter,
                leave=self._on_leave,
                select=self._selects,
                names=self.names,
                threads="own",
                arrays=True,
                objects=True,
            )

    def stop(self) -> tuple[int, str | None]:
        """Stop; return how many callbacks failed, and the first message."""
        if self._watch is None:
            return 0, None
        errors = self._watch.errors
        self._watch.close()
        self._watch = None
        return errors

    def adopt(self, frame: FrameType) -> None:
        """Look at the names of a frame that runs already."""
        self._see_all(frame, frame.f_lineno, has_inputs=False)

    # ---- frames

    def _make_frame(self, frame: FrameType) -> _Frame:
        """Return a new record, in place of one that ended unseen."""
        code = frame.f_code
        is_root = code in self.roots
        caller = None
        if is_root:
            self._file = code.co_filename
        else:
            caller = self._find_caller(frame)
        made = _Frame(self.depth if caller is None else caller.depth + 1, is_root=is_root)
        self._frames[id(frame)] = made
        return made

    def _find_caller(self, frame: FrameType) -> _Frame | None:
        self._frames.pop(id(frame), None)
        above = frame.f_back
        for _ in range(_FARTHEST):
            if above is None:
                break
            found = self._frames.get(id(above))
            if found is not None:
                return found
            above = above.f_back
        return None

    # ---- events

    def _selects(self, code: CodeType) -> bool:
        return _core._owner(code) == Owner.PROGRAM or code in self.roots

    def _on_enter(self, event: Any) -> None:
        frame = frame_at(1)
        if not event.is_resumed or id(frame) not in self._frames:
            self._see_all(frame, event.line, has_inputs=True)

    def _on_change(self, event: Any) -> None:
        frame = frame_at(1)
        seen = self._frames.get(id(frame))
        if seen is None:  # it was running when we came: what changed is seen for the first time
            seen = self._make_frame(frame)
        for change in event.changes:
            if change.name not in self.names:
                continue
            if change.how == "bound":
                seen.last.pop(change.name, None)
            last = seen.last.get(change.name)
            if change.how != "touched" or last is None or last.may_be_other(change.object):
                where = _Change(frame.f_code, event.line, change.key)
                self._see(seen, change.name, change.object, where)

    def _on_leave(self, event: Any) -> None:
        if not event.is_yield:
            self._frames.pop(id(frame_at(1)), None)

    # ---- values

    def _see_all(self, frame: FrameType, line: int, *, has_inputs: bool) -> None:
        """Look at what the names hold when a frame is first seen."""
        seen = self._make_frame(frame)
        is_logged = not (has_inputs and seen.is_root)
        where = _Change(frame.f_code, line, 0) if is_logged else None
        for name in self.names:
            value = _core.track_frame_value(frame, name, _MISSING)
            if value is not _MISSING:
                self._see(seen, name, value, where)

    def _see(self, seen: _Frame, name: str, value: Any, where: _Change | None) -> None:
        """Compare a value with the last one; log it if it differs, unless *where* is None."""
        last = seen.last.get(name)
        now = Description(value, wants_digest=True)
        what = differences(last, now, value, self.tolerance)
        if what is not None or self.tolerance is None or last is None or not last.has_elements:
            if now.has_elements and self.tolerance is not None:
                now.keep_copy(value)
            seen.last[name] = now
        else:  # what was logged last stays what is compared with
            last.identity = id(value)
        if what is not None and where is not None:
            self._write(seen, name, value, now, what, where)

    def _write(
        self,
        seen: _Frame,
        name: str,
        value: Any,
        now: Description,
        what: list[str],
        where: _Change,
    ) -> None:
        file = where.code.co_filename
        _core.track_record_change(where.key, file, where.line, name, value)
        colors = log.colors()
        text = named_text(name, where.line, now, value, colors)
        if what:
            text += f" | {colors['remark']}changed: {', '.join(what)}{colors['plain']}"
        if not seen.is_root:
            text += f" | in {where.code.co_name}"
            if self._file is not None and self._file != file:
                text += f" ({os.path.basename(file)})"
        log.lines((seen.depth, Branch.ENTRY, text))


never_compile(Tracker._on_change, Tracker._on_enter, Tracker._on_leave, Tracker._selects)
