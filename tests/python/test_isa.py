"""All instruction sets give the same bits, seen from Python."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from layouts import DTYPES, SHAPES, random_array

from tensortap import _core


def summaries() -> bytes:
    """Compute a little of everything; equal bytes mean equal bits."""
    found = []
    for dtype in DTYPES:
        for seed, shape in enumerate(SHAPES):
            a = random_array(dtype, shape, seed, specials=True)
            b = random_array(dtype, shape, seed + 1, specials=False)
            c = _core.compare(a, b, ulp=True)
            found.append((_core.stats(a), _core.stats(b.T), _core.digest(a).hex()))
            found.append((repr(_core.histogram(b).as_dict()), repr(c.as_dict())))
    q = random_array("float32", (2, 33, 40), 1, specials=False)
    k = random_array("float32", (2, 70, 40), 2, specials=False)
    a = _core.attention(q, k, is_causal=True)
    found.append((a.entropy.tobytes(), a.max_logit.tobytes(), a.sink.tobytes()))
    return pickle.dumps(found)


def test_the_plain_kernels_give_the_same_bits() -> None:
    if _core.isa != "avx2":
        pytest.skip(f"this machine has only {_core.isa}")
    code = "import sys, test_isa; sys.stdout.buffer.write(test_isa.summaries())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=120,
        cwd=os.path.dirname(__file__),
        env={**os.environ, "TENSORTAP_ISA": "base"},
    )
    assert done.returncode == 0, done.stderr.decode()
    ours = pickle.loads(summaries())
    theirs = pickle.loads(done.stdout)
    assert ours == theirs


def test_the_environment_names_the_kernels() -> None:
    code = "from tensortap import _core; print(_core.isa)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TENSORTAP_ISA": "base"},
    )
    assert done.stdout.strip() in ("base", "neon")
