"""Run print_bits with each instruction set and see that every bit is the same.

Also where the thread flushes denormals to zero.

    python3 tests/same_bits.py PROGRAM                      base and the best set here
    python3 tests/same_bits.py PROGRAM "qemu-aarch64 OTHER"   and another build

Standard library alone.  Exits 1 if a line differs.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys


def answers(command: str, isa: str, *words: str) -> tuple[str, list[str]]:
    """Return the instruction set that ran, and the lines it printed."""
    environment = {**os.environ, "TENSORTAP_ISA": isa}
    whole = [*shlex.split(command), *words]
    done = subprocess.run(whole, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return " ".join([done.stderr.strip(), *words]), done.stdout.splitlines()


def main() -> int:
    """Compare every run with the first; return the exit code."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    programs = [(sys.argv[1], "base"), (sys.argv[1], "avx2")]
    programs += [(command, "neon") for command in sys.argv[2:]]
    runs = [answers(*program) for program in programs]
    runs += [answers(*program, "flush") for program in programs]
    first_isa, first = runs[0]
    wrong = 0
    for isa, lines in runs[1:]:
        if len(lines) != len(first):
            sys.exit(f"{isa} printed {len(lines)} lines, {first_isa} {len(first)}")
        tensor = ""
        for mine, theirs in zip(first, lines, strict=True):
            tensor = mine if not mine.startswith(" ") else tensor
            wrong += mine != theirs
            if mine != theirs and wrong <= 10:
                print(f"{tensor}\n{first_isa:>6}:{mine}\n{isa:>6}:{theirs}")
    if wrong > 0:
        print(f"{wrong} of {len(first)} lines differ")
        return 1
    print(f"{len(first)} lines, the same bits: {', '.join(isa for isa, _ in runs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
