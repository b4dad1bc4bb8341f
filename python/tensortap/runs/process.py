"""Know the open runs of this process, and end them when it forks or exits.

`close()` is the real end of a run; what is here is the safety net:
- a forked child forgets the runs of its parent (the file is the parent's, and
  models are no longer watched), so that DataLoader workers record nothing; unless a run
  was opened with follow_fork=True: the child then goes on with it, in its own file;
- at exit every open run is closed, after the program's own exit handlers, as those
  were registered later; children of multiprocessing leave by `os._exit` and
  run its finalizers instead.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tensortap import _core
from tensortap.display import session
from tensortap.files.whole import whole_file
from tensortap.private import capability

if TYPE_CHECKING:
    from tensortap.runs.record import Recording

SECONDS_AT_EXIT = 5.0

_open_runs: list[Recording] = _core._open_runs  # the innermost is the last
_losses: list[str] = []  # notes of capabilities that were lost while no run was open
_is_registered = False


def enter(run: Recording) -> None:
    """Add a run that has just been opened."""
    global _is_registered
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(after_in_child=_forget)
        atexit.register(close_all)
    _finalize_in_child()
    if run.follows:
        from multiprocessing.util import register_after_fork

        # Not sooner: multiprocessing forgets all finalizers when its child begins.
        register_after_fork(run, lambda _: _finalize())
    _open_runs.append(run)
    while _losses:
        note_once(run, _losses.pop(0))


def note_once(run: Recording, text: str) -> None:
    """Write a note into a run, unless it has it already."""
    noted = vars(run).setdefault("noted", set())
    if text not in noted and not run.closed:
        noted.add(text)
        run.note(text)


def _note_loss(text: str) -> None:
    """Note in all open runs, or in the next, that a capability was needed and is lost."""
    if not _open_runs and text not in _losses:
        _losses.append(text)
    for run in _open_runs:
        with suppress(Exception):  # whoever needed it goes on
            note_once(run, text)


capability.listeners.append(_note_loss)


def leave(run: Recording) -> None:
    """Forget a run that ends."""
    if run in _open_runs:
        _open_runs.remove(run)


def open_run() -> Recording | None:
    """Return the run that events go to, the innermost one; C asks in runs/open_run.c."""
    return _open_runs[-1] if _open_runs else None


def needed_run() -> Recording:
    """Return the run that events go to; raise RuntimeError if none is open."""
    run = open_run()
    if run is not None:
        return run
    raise RuntimeError(
        "no run is open to record into; open one around it:\n"
        '    with tt.record("runs/my-run") as run:\n'
        "        tt.watch(model)"
    )


def keep_chart(name: str, picture: Callable[[], bytes]) -> None:
    """Put a picture into the folder `charts` of the innermost open run, if there is one.

    Args:
        name: Of the file, with its suffix; a picture of the same name is replaced.
        picture: Returns its contents; not called if there is no run.
    """
    run = open_run()
    if run is None or run.closed:
        return
    folder = os.path.join(run.path, "charts")
    content = picture()
    try:
        os.makedirs(folder, exist_ok=True)
        with whole_file(os.path.join(folder, name)) as path, open(path, "wb") as file:
            file.write(content)
    except OSError as error:  # the program's own files matter more
        session.warn(f"{name} is not in the run: {error}")


def close_all() -> None:
    """Close what is still open, the innermost first; a slow disk gets a few seconds."""
    while _open_runs:
        run = _open_runs.pop()
        try:
            run._stop(_uncaught())
            run.close(timeout=SECONDS_AT_EXIT)
        except Exception as error:  # also where warnings are errors: others must be closed too
            print(f"tensortap: {run.path}: {error}", file=sys.stderr)


def _uncaught() -> BaseException | None:
    """Return the exception that ends the program; in a session of a person it does not."""
    if hasattr(sys, "ps1") or session.ipython() is not None:
        return None
    error: BaseException | None = getattr(sys, "last_value", None)
    return error


def _finalize_in_child() -> None:
    """Close runs of a multiprocessing child at its end: it runs no exit handlers."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is None or multiprocessing.parent_process() is None:
        return
    if not _open_runs:
        _finalize()


def _finalize() -> None:
    from multiprocessing.util import Finalize

    Finalize(None, close_all, exitpriority=-100)


def _forget() -> None:
    """Leave the runs to the parent; what the child still says to them is ignored."""
    runs, lost = _open_runs[:], []
    _open_runs[:] = [run for run in runs if run.follows]
    for run in _open_runs:
        run.go_on()
    for run in reversed(runs):
        if run.follows:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run._leave()
        except Exception as error:
            lost.append(error)  # the child has work to do, and nothing of it is ours
