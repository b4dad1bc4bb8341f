"""The time `import tensortap` takes in a fresh process, and that torch stays out of it."""

import subprocess
import sys

import harness

CODE = """
import sys, time
start = time.perf_counter()
import tensortap
print(time.perf_counter() - start, "torch" in sys.modules)
"""
answers = [
    subprocess.run(
        [sys.executable, "-c", CODE], check=True, capture_output=True, text=True
    ).stdout.split()
    for _ in range(11)
]
harness.row(
    "import tensortap",
    min(float(taken) for taken, _ in answers) * 1e3,
    50,
    unit="ms",
    at_most=True,
)
harness.row(
    "import tensortap brings in torch",
    any(torch == "True" for _, torch in answers),
    0,
    at_most=True,
)
