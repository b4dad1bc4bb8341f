"""How fast the command answers: first lines on 10 million points, diff of two million.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import harness
import numpy as np

import tensortap as tt

PROGRAM = Path(sys.executable).parent / "tensortap"
SITES, TURNS = 1000, 9


def make(path: Path, steps: int, *, is_killed: bool = False) -> None:
    """Record the statistics of a thousand small tensors at every step."""
    if is_killed:
        child = os.fork()
        if child != 0:
            os.waitpid(child, 0)
            return
    kinds = ("activation", "parameter", "gradient")
    names = [f"{kinds[i % 3]}/layers.{i // 10}.part{i % 10}" for i in range(SITES)]
    tensors = [np.random.default_rng(i).standard_normal(16, np.float32) for i in range(16)]
    with tt.record(path) as run:
        for step in range(steps):
            for i, name in enumerate(names):
                run.tensor(name, tensors[(step + i) % 16])
            run.step()
        if is_killed:
            run.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def make_values(path: Path) -> None:
    """Record the bytes of two large tensors at every step."""
    numbers = np.random.default_rng(0)
    with tt.record(path, keep="value") as run:
        for _ in range(40):
            for name in ("parameter/weight", "gradient/weight"):
                run.tensor(name, numbers.standard_normal(1_300_000, np.float32))
            run.step()


def first_line(*arguments: object) -> float:
    """Return the median time until the first line is there, in ms."""

    def once() -> float:
        start = time.perf_counter()
        command = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE)
        assert command.stdout is not None
        command.stdout.readline()
        taken = time.perf_counter() - start
        command.stdout.close()
        command.wait()
        return taken

    return median(once() for _ in range(TURNS)) * 1e3


class Spent(NamedTuple):
    """What one command took."""

    wall: float  # s
    processor: float  # s; all threads
    memory: float  # MB


def spend(*command: object) -> Spent:
    """Run a command once."""
    start = time.perf_counter()
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"bench_command: {command} ended with {child.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(*commands: list[object], turns: int = TURNS) -> list[Spent]:
    """Return the medians of commands that take turns."""
    spent: list[list[Spent]] = [[] for _ in commands]
    for _ in range(turns):
        for command, mine in zip(commands, spent, strict=True):
            mine.append(spend(*command))
    return [Spent(*(median(column) for column in zip(*mine, strict=True))) for mine in spent]


def main() -> None:
    """Measure every bar of the command."""
    harness.row("tensortap --version", first_line("--version"), 5, unit="ms", at_most=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "large", 10_000)
        make(folder / "killed", 10_000, is_killed=True)
        make(folder / "a", 1_000)
        make(folder / "b", 1_000)
        for command, what, points in (
            ("ls", folder, "10 million"),
            ("show", folder / "large", "10 million"),
            ("nan", folder / "large", "10 million"),
            ("show", folder / "killed", "a killed run of 10 million"),
            ("nan", folder / "killed", "a killed run of 10 million"),
        ):
            harness.row(
                f"tensortap {command}, {points} points: its first line",
                first_line(command, what),
                100,
                unit="ms",
                at_most=True,
            )
        [show] = compare([PROGRAM, "show", folder / "large"])
        harness.row("tensortap show, 10 million points: all", show.wall, 1, unit="s", at_most=True)
        [diff] = compare([PROGRAM, "diff", folder / "a", folder / "b"])
        harness.row("tensortap diff, a million points each", diff.wall, 1, unit="s", at_most=True)
        # The child's peak counts from the fork, so that this Python is in it.
        harness.row("tensortap diff, its memory", diff.memory, 128, unit="MB", at_most=True)
        make_values(folder / "values")
        for part, what in (("a", "a million points"), ("values", "400 MB of values")):
            file = folder / part / "rank0.tap"
            plain, check = compare(
                ["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"],
                [PROGRAM, "check", file],
            )
            harness.row(
                f"tensortap check, {what}, over reading the file", plain.wall / check.wall, 0.8
            )
        script = folder / "empty.py"
        script.touch()
        python, ours = compare([sys.executable, script], [PROGRAM, "run", script])
        harness.row(
            "tensortap run over plain Python, an empty script",
            (ours.wall - python.wall) * 1e3,
            60,
            unit="ms",
            at_most=True,
        )


if __name__ == "__main__":
    main()
