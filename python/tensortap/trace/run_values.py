"""Put kept values into the open run, if there is one.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from tensortap import process


class RunValues:
    """Writes values as `trace/{name}`: tensors whole, numbers as points."""

    def __init__(self) -> None:
        """Have complained of nothing yet."""
        self.is_told = False

    def add(self, name: str, value: Any) -> None:
        """Record one value at the run's current step; what a run cannot hold is left out."""
        if not process.open_runs:
            return
        run = process.open_runs[-1]
        site = f"trace/{name}"
        try:
            if isinstance(value, (torch.Tensor, np.ndarray)):
                run.tensor(site, value, keep="stats|value")
            elif isinstance(value, (bool, int, float, np.generic)):
                run.log(site, float(value))
        except Exception as error:
            if not self.is_told:
                self.is_told = True
                text = f"tensortap: {name} is not in the run: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
