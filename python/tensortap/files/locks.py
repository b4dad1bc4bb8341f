"""Locks that a forked child finds open.

A child has only the thread that forked.  A lock that another thread held at that moment
would stay locked in it for ever.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def make_lock() -> AbstractContextManager[bool]:
    """Return a lock that one thread may acquire several times, for use in a `with` statement."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _open_all() -> None:
    """Open the locks of threads that this process does not have."""
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_open_all)
