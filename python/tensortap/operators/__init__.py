"""Name the operator that created the first NaN or Inf.

    >>> with tt.ops() as log:
    ...     loss = model(x).mean()
    ...     loss.backward()
    >>> print(log)              # the operator, its line and module, its operands, where it went
    >>> log.table()             # every operator with the statistics of its results
    >>> log.chrome_trace("step.json")

Importing this does not import torch.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.operators.log import OperatorLog, ops
from tensortap.operators.operator import Operand, Operator
from tensortap.operators.origin import Origin
from tensortap.operators.report import origin_report

__all__ = ["Operand", "Operator", "OperatorLog", "Origin", "ops", "origin_report"]
