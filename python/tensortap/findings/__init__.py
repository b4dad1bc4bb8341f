"""What is wrong with a training: `tt.health(run)`, `tt.assert_healthy(run)`.

    >>> import tensortap as tt
    >>> for finding in tt.health("runs/today"):
    ...     print(finding)
    warning dead-units: ...

The rules are in C (core/health), the same that `tensortap health` prints.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.answers.finding import Finding, Findings, UnhealthyError
from tensortap.answers.health import assert_healthy, health

__all__ = ["Finding", "Findings", "UnhealthyError", "assert_healthy", "health"]
