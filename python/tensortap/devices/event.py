"""Moments on a device, which host clocks do not see.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any


class Event:
    """A moment on a device; on the CPU, which waits for nobody, nothing."""

    def __init__(self, device: Any, *, is_timed: bool = False) -> None:
        """Note that the current stream has come here."""
        import torch

        self._event: Any = None
        if device.type != "cpu":
            self._event = torch.get_device_module(device).Event(enable_timing=is_timed)
            self._event.record()

    def wait(self) -> None:
        """Wait until the device has come here."""
        if self._event is not None:
            self._event.synchronize()

    def nanoseconds_to(self, end: Event) -> int:
        """Return the time between two events that have happened."""
        return 0 if self._event is None else int(self._event.elapsed_time(end._event) * 1e6)


def is_capturing(device: Any) -> bool:
    """Return whether a graph of what runs now is captured, to be replayed without us."""
    import torch

    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
