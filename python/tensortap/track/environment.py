"""TENSORTAP_TRACK=module:function[:var,…] decorates without touching the source.

Several entries are separated by semicolons.  `module` is imported, or it is the
program itself: `__main__`, or its file without .py.  Installed when Python starts
(tensortap.pth), and when tensortap is imported, if the variable is set; loaded only then.

A module that is imported is decorated when its import has ended.  The program
cannot wait for its end: its top level is followed line by line until every
function has been defined.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from types import FrameType, ModuleType
from typing import Any

from tensortap.files.frames import frame_at, frames_from
from tensortap.files.imports import ImportWaiter

Target = tuple[str, tuple[str, ...]]  # function, names
Wanted = dict[str, list[Target]]

#: set in the first process only: its children may well never import the module
PARENT = "_TENSORTAP_TRACK_PARENT"

_installed: list[Any] = []  # empty: not yet


def parse(text: str) -> Wanted:
    """Read "module:function:var,var;…" as {module: [(function, names)]}."""
    wanted: Wanted = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        module, _, rest = entry.partition(":")
        function, _, names = rest.partition(":")
        if not module or not function:
            _warn(f"{entry!r} is not module:function[:var,…]")
            continue
        variables = tuple(name.strip() for name in names.split(",") if name.strip())
        wanted.setdefault(module.strip(), []).append((function.strip(), variables))
    return wanted


def _warn(text: str) -> None:
    warnings.warn(f"TENSORTAP_TRACK: {text}", RuntimeWarning, stacklevel=2)


def _replace(space: dict[str, Any], target: Target) -> bool:
    """Put the decorated function in the place of the plain one; False: it is not there."""
    from tensortap.track import auto_diff, var_tracker

    path, names = target
    first, *rest = path.split(".")
    try:
        owner: Any = None
        func = space[first]
        for part in rest:
            owner, func = func, vars(func)[part]
    except (AttributeError, KeyError, TypeError):
        return False
    if not callable(func) and not isinstance(func, (staticmethod, classmethod)):
        return False
    decorated = var_tracker(*names)(func) if names else auto_diff(func)
    if owner is None:
        space[first] = decorated
    else:
        setattr(owner, rest[-1], decorated)
    return True


# ---- modules that are imported


class _Modules:
    """Decorates modules when they have been imported, and remembers which were."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.seen: set[str] = set()

    def decorate(self, module: ModuleType) -> None:
        """Decorate a module that is complete."""
        self.seen.add(module.__name__)
        for target in self.wanted[module.__name__]:
            if not _replace(vars(module), target):
                _warn(f"{module.__name__} has no function {target[0]}")

    def report_missed(self) -> None:
        """Print at the end which modules were never imported."""
        for name in self.wanted:
            if name not in self.seen:
                print(f"tensortap: TENSORTAP_TRACK: no module {name} was imported", file=sys.stderr)


# ---- the program itself


class _Program:
    """Follows the top level of the program until its functions are there."""

    def __init__(self, modules: _Modules) -> None:
        self._modules = modules
        self._left: list[Target] = []

    def start(self) -> None:
        """Wait for the program, or join it if it runs already."""
        frame = _program_frame()
        if frame is None:
            if "__main__" in sys.modules and hasattr(sys.modules["__main__"], "__file__"):
                return  # it is over, or another thread's
            if sys.gettrace() is None:
                sys.settrace(self._on_call)
        elif self._claim(frame) and not self._decorate(frame):
            frame.f_trace = self._on_line
            if sys.gettrace() is None:
                sys.settrace(self._on_call)

    def _claim(self, frame: FrameType) -> bool:
        """Claim the targets that name this program; return whether there are any."""
        space = frame.f_globals
        spec = space.get("__spec__")
        stem = os.path.splitext(os.path.basename(frame.f_code.co_filename))[0]
        for name in ("__main__", stem, getattr(spec, "name", None)):
            if name in self._modules.wanted and name not in self._modules.seen:
                self._modules.seen.add(name)
                self._left += self._modules.wanted[name]
        return bool(self._left)

    def _decorate(self, frame: FrameType) -> bool:
        """Decorate what is there by now; return whether that is all."""
        self._left = [target for target in self._left if not _replace(frame.f_globals, target)]
        return not self._left

    def _on_call(self, frame: FrameType, event: str, arg: object) -> Any:
        if self._left or not _is_program(frame):  # once claimed, such a frame is an exec() in it
            return None
        if self._claim(frame):
            return self._on_line
        self._stop()
        return None

    def _on_line(self, frame: FrameType, event: str, arg: object) -> Any:
        if not self._decorate(frame) and event != "return":
            return self._on_line
        for path, _ in self._left:
            _warn(f"{os.path.basename(frame.f_code.co_filename)} has no function {path}")
        self._stop()
        frame.f_trace = None
        return None

    def _stop(self) -> None:
        mine = sys.gettrace()
        if getattr(mine, "__self__", None) is self:
            sys.settrace(None)


def _is_program(frame: FrameType) -> bool:
    if frame.f_code.co_name != "<module>":
        return False
    if frame.f_globals.get("__name__") not in ("__main__", "__mp_main__"):
        return False
    # The first such frame under `tensortap run` starts us (cli/python.c), not the program.
    is_start = frame.f_code.co_filename == "<string>" and sys.orig_argv[1:2] == ["-c"]
    return not (is_start and "tensortap.commands." in sys.orig_argv[2])


def _program_frame() -> FrameType | None:
    """Return the frame of the program that is running, not of an exec() in it."""
    found = None
    for frame in frames_from(frame_at(1)):
        if _is_program(frame) and (found is None or frame.f_globals is found.f_globals):
            found = frame
    return found


def install() -> None:
    """Decorate what TENSORTAP_TRACK names, now or when it is there; twice is harmless."""
    wanted = {} if _installed else parse(os.environ.get("TENSORTAP_TRACK", ""))
    if not wanted:
        return
    modules = _Modules(wanted)
    _installed.append(modules)
    sys.meta_path.insert(0, ImportWaiter(wanted, modules.decorate))
    for name in wanted:
        if name in sys.modules and name != "__main__":
            modules.decorate(sys.modules[name])
    if os.environ.setdefault(PARENT, str(os.getpid())) == str(os.getpid()):
        atexit.register(modules.report_missed)
    _Program(modules).start()
