"""Call a function when a signal arrives, before what the program does about it.

The program's own handlers, its exit code and the default of each signal stay: the handler that was
there is called afterwards, and a signal that ends the process still does.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any


class Signals:
    """Handlers of ours in front of those that were there."""

    def __init__(self, then: Callable[[str], object]) -> None:
        """Put them; only the main thread may, and only where Python knows the handler before."""
        self.then = then
        self.pid = os.getpid()
        self.before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            old = signal.getsignal(number)
            is_own = number == signal.SIGUSR2 and old is not signal.SIG_DFL  # the program's signal
            if old not in (None, signal.SIG_IGN) and not is_own:
                self.before[number] = old
                signal.signal(number, self._arrived)

    def _arrived(self, number: int, frame: Any) -> None:
        if os.getpid() == self.pid:
            self.then(signal.Signals(number).name)
        old = self.before[number]
        if callable(old):
            old(number, frame)
        elif number != signal.SIGUSR2:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def close(self) -> None:
        """Put back what was there, where the program has not put its own since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, old in self.before.items():
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, old)
        self.before = {}
