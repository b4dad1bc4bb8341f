"""Values whose squares underflow in f32 keep their digits, and are the same everywhere."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import tensortap as tt

PRINT = """
import numpy as np, tensortap as tt
rng = np.random.default_rng(0)
for n in (5, 31, 32, 33, 2048, 5000):
    for scale in (1e-45, 1e-40, 2.0**-100, 1e-28, 2.0**-57, 2.0**-56, 1e-15):
        for late in (None, 1.0, 3e38, np.nan):
            x = (rng.standard_normal(n) * scale).astype(np.float32)
            if late is not None:
                x[-1] = late
            s = tt.stats(x)
            print([float(v).hex() for v in (s.min, s.max, s.mean, s.var, s.l1, s.l2, s.sum)])
"""


@pytest.mark.parametrize("late", [None, 1e-20, 1.0, 3e38])
@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-31, 1e-28, 1e-20, 2.0**-57, 1e-15])
@pytest.mark.parametrize("n", [5, 32, 100, 2049])
def test_tiny_values_keep_their_digits(n: int, scale: float, late: float | None) -> None:
    x = (np.random.default_rng(n).standard_normal(n) * scale).astype(np.float32)
    if late is not None:
        x[-1] = late
    exact = x.astype(np.float64)
    s = tt.stats(x)
    mean = math.fsum(exact) / n
    assert abs(s.mean - mean) <= 1e-6 * math.fsum(abs(exact)) / n
    assert s.l1 == pytest.approx(math.fsum(abs(exact)), rel=1e-6)
    biggest = float(abs(exact).max())
    norm = biggest * math.sqrt(math.fsum((exact / biggest) ** 2))
    assert s.l2 == pytest.approx(norm, rel=1e-6)
    off = (exact - mean) / biggest
    assert s.std == pytest.approx(biggest * math.sqrt(math.fsum(off**2) / (n - 1)), rel=1e-5)
    assert (s.min, s.max) == (exact.min(), exact.max())


def test_tiny_values_have_the_same_bits_for_every_instruction_set() -> None:
    answers = set()
    for isa in ("base", ""):
        env = {**os.environ, "TENSORTAP_ISA": isa} if isa else dict(os.environ)
        command = [sys.executable, "-c", PRINT]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
    assert len(answers.pop().splitlines()) == 6 * 7 * 4
