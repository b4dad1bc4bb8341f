"""Ask the rules while a training runs.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from tensortap.answers.finding import Finding, Findings, UnhealthyError

if TYPE_CHECKING:
    from tensortap import _core

EVERY = 4  # steps between two questions


class Guard:
    """The rules of one run that is being written.

    A finding is printed once and kept in the run as a note.  With "stop" an error-level finding
    raises UnhealthyError, unless a trainer's callback stops the training (`should_stop`).
    """

    def __init__(
        self, recorder: _core.Recorder, mode: Literal["warn", "stop"], allow: str | None = None
    ) -> None:
        """Show every event from now on to the rules; *allow*: globs of what may be NaN or Inf."""
        self.recorder, self.mode = recorder, mode
        self.findings: list[Finding] = []
        self.raises = mode == "stop"
        self.raised: BaseException | None = None  # the program's to see
        self.asked = -1  # the step of the last question
        recorder.watch_health(allow)

    @property
    def should_stop(self) -> bool:
        """An error was found, and "stop" was asked for."""
        return self.mode == "stop" and any(one.severity == "error" for one in self.findings)

    def check(self, *, now: bool = False) -> None:
        """Ask the rules if some steps have gone by, or *now*."""
        step = self.recorder.current_step
        if self.recorder.closed or not (now or step >= self.asked + EVERY):
            return
        self.asked = step
        found = self._find()
        for one in found:
            self.findings.append(one)
            print(f"tensortap: step {step}: {one}", file=sys.stderr)
            self.recorder.note(f"health: {one}")
        errors = [one for one in found if one.severity == "error"]
        if errors and self.raises:
            self.raised = UnhealthyError(*errors)
            raise self.raised

    def _find(self) -> tuple[Finding, ...]:
        """Return what is new; a rule that fails finds nothing, and the training goes on."""
        try:
            text = self.recorder.new_findings()
            return Findings.read(text).items if text is not None else ()
        except Exception as error:
            print(f"tensortap: the rules of health failed: {error!r}", file=sys.stderr)
            self.asked = sys.maxsize // 2
            return ()
