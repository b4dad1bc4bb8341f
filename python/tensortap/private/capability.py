"""A capability: something that needs names which torch, or Python, may change at any time.

Such a name is tried on a toy when it is needed for the first time.  If that fails, or a later use
does, the capability is lost for the rest of the process: its users go on without it, the program
is not affected, and each run that needed it has one note that says what is lost and why.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

LONGEST = 300  # characters of an error in a note

#: Called with the note of each capability that is needed and lost, every time: runs/process.py.
listeners: list[Callable[[str], None]] = []

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Otherwise = TypeVar("Otherwise")


class Capability:
    """One use of private names.

    Args:
        purpose: What it is for.
        loss: What is lost without it, as a sentence without its full stop.  Where something can no
            longer be recorded it ends in "not seen"; the verdict of `tensortap health` then says
            so.  Other losses are of time.
        attempt: Tries it, on a toy; raises an exception if it does not work.
    """

    def __init__(
        self, purpose: str, loss: str, attempt: Callable[[], object] = lambda: None
    ) -> None:
        self.purpose, self.loss = purpose, loss
        self._attempt: Callable[[], object] | None = attempt
        self.why: str | None = None  # it is lost

    def __repr__(self) -> str:
        return f"<Capability: {self.purpose}>"

    def works(self) -> bool:
        """Return whether it can be used; try it the first time."""
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None  # first: it may ask for itself
            try:
                attempt()
            except Exception as error:
                self.lose(error)
                return False
        if self.why is not None:
            self._notify()
        return self.why is None

    def lose(self, error: Exception) -> None:
        """Go on without it, because of this error."""
        self._attempt = None
        if self.why is None:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            version = getattr(sys.modules.get("torch"), "__version__", "?")
            self.why = f"{what[:LONGEST]} (torch {version})"
        self._notify()

    @property
    def note(self) -> str:
        """What runs say about the loss."""
        return f"{self.loss}: {self.why}"

    def _notify(self) -> None:
        for listener in listeners:
            listener(self.note)

    def guards(
        self, otherwise: Otherwise
    ) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result | Otherwise]]:
        """Return a decorator: the function returns *otherwise* where the capability is lost."""

        def decorate(
            function: Callable[Arguments, Result],
        ) -> Callable[Arguments, Result | Otherwise]:
            @functools.wraps(function)
            def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | Otherwise:
                if not self.works():
                    return otherwise
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    self.lose(error)
                    return otherwise

            return call

        return decorate


def expect(is_so: object, what: str) -> None:
    """Raise TypeError unless a private name is what we take it for."""
    if not is_so:
        raise TypeError(what)


def find(module: Any, name: str, kind: type | tuple[type, ...] = object) -> Any:
    """Return an attribute, which must be of a certain type."""
    found = getattr(module, name)
    expect(isinstance(found, kind), f"{name} is a {type(found).__name__}")
    return found


def register_all(*pairs: tuple[Callable[[Any], Any], Any]) -> None:
    """Register hooks, each with its function of torch: all of them, or none and an exception."""
    handles: list[Any] = []
    try:
        for register, hook in pairs:
            handles.append(register(hook))
            expect(hasattr(handles[-1], "remove"), "a hook cannot be removed")
    except Exception:
        for handle in handles:
            if hasattr(handle, "remove"):
                handle.remove()
        raise
