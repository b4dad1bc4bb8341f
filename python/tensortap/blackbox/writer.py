"""The black box of a run: snapshots of all state, and the file when something goes wrong.

At the first event of a step (a batch, or a forward of a model in training) every K-th step takes a
snapshot.  The two latest snapshots stay, and so do the steps since the older one.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensortap.answers.finding import Finding
from tensortap.blackbox import file, state
from tensortap.blackbox.box import Box, Role
from tensortap.blackbox.memory import Kept, Memory
from tensortap.blackbox.step import Step
from tensortap.blackbox.values import take_apart

MOST_DUMPS = 3
SEARCHES = (0, 1, 16, 256, 4096)  # snapshots before which all objects are searched: milliseconds
ASKED = ("asked", "SIGUSR2")  # causes of which there may be several


def black_box(every: int, limit: int | None = None, on_spike: bool = False) -> Box:
    """Make a black box.

    Args:
        every: Steps from one snapshot to the next.
        limit: Most bytes of memory and of one file; None: half of the memory that is free.
        on_spike: Write it also when the loss jumps.
    """
    return Box(Writer(every, limit if limit is not None else _half_of_free()), on_spike)


class Writer(Role):
    """Takes snapshots, and writes what the box keeps when something goes wrong."""

    has_signals = True

    def __init__(self, every: int, limit: int) -> None:
        """Begin without a snapshot."""
        self.every, self.limit = every, limit
        self.snapshots: list[tuple[int, Kept]] = []  # the older one first
        self.snapshot_count = 0
        self.dumped: dict[str, Path] = {}  # by cause

    def fail(self, error: Exception) -> None:
        """Turn the black box off, and say so."""
        what = str(error) if isinstance(error, MemoryError) else repr(error)
        print(f"tensortap: black box off: {what}", file=sys.stderr)
        self.box.pid = -1  # nothing is written any more
        self.box.close()

    def close(self) -> None:
        """Let the snapshots go."""
        self.snapshots = []

    # ---- snapshots

    @property
    def is_waiting(self) -> bool:  # type: ignore[override]
        """Whether there is no snapshot yet."""
        return not self.snapshots

    def start_step(self, step: Step) -> None:
        """Copy all state, if a snapshot is due."""
        if self._is_due(step):
            self._take_snapshot(step)

    def _is_due(self, step: Step) -> bool:
        if not self.snapshots:
            return True
        since = self.snapshots[-1][0]
        used = sum(one.size for one in self.box.steps if one.number >= since)
        room = self.limit - 2 * self.snapshots[-1][1].memory.used
        return step.number - since >= self.every or 2 * used > room

    def _take_snapshot(self, step: Step) -> None:
        """Copy all state, into the memory of the older of two snapshots."""
        if self.snapshot_count in SEARCHES:
            self.box.search()
        self.snapshot_count += 1
        box = self.box
        now = state.take(
            box.live_models(), box.live_optimizers(), box.live_scalers(), box.live_schedulers()
        )
        memory = self.snapshots.pop(0)[1].memory if len(self.snapshots) == 2 else Memory()
        if not memory.size:
            tensors = _tensors_in(now)
            size = sum(t.numel() * t.element_size() for t in tensors.values())
            if 2 * size > self.limit:
                raise MemoryError(
                    f"two snapshots of {size} bytes do not fit into its limit of {self.limit}; "
                    "give --black-box-bytes, or black_box_bytes"
                )
        self.snapshots.append((step.number, Kept(now, memory)))
        oldest = self.snapshots[0][0] - 1  # a loader may be a batch ahead of the model
        for one in box.steps:
            box.free += one.memories() if one.number < oldest else []
        box.steps = [one for one in box.steps if one.number >= oldest]

    # ---- faults

    def digests_of(self, step: Step) -> tuple[bool, bool]:
        """Digest all gradients in a step that fails; else a sample, which costs next to nothing."""
        is_failing = self.box.finder.fault is not None
        return is_failing, not is_failing

    def wants_fault(self, cause: str) -> bool:
        """Return whether no fault of this cause has been written."""
        return cause not in self.dumped

    def take_fault(self, fault: Finding) -> None:
        """Write the black box."""
        self.dump(fault.rule, fault.sentence, fault.first_step)

    def end_program(self, error: BaseException | None, cause: str) -> None:
        """Write the black box if an exception ends the program: its own, or one of a rule."""
        if isinstance(error, Exception):
            first_line = str(error).partition("\n")[0]
            self.dump(cause, f"{type(error).__name__}: {first_line}"[:200])

    # ---- writing

    def dump(self, cause: str, text: str = "", step: int | None = None) -> Path | None:
        """Write what is kept now; return the file, or None if there is nothing to write.

        One for each cause and step, at most three in a run, except where the user asks.
        """
        if os.getpid() != self.box.pid or not self.snapshots:
            return None
        number = self.box.number() if step is None else step
        path = self.box.folder / file.FOLDER / f"step{number}" / f"rank{self.box.rank}.safetensors"
        is_asked = cause in ASKED
        if path in self.dumped.values():
            return path
        if not is_asked and (cause in self.dumped or len(self.dumped) >= MOST_DUMPS):
            return None
        self.dumped[f"{cause} {number}" if is_asked else cause] = path
        text = text or ("asked for" if is_asked else f"{cause} arrived")
        rank = f", rank {self.box.rank}" if self.box.world_size > 1 else ""
        said = f"tensortap: step {number}{rank}: {text}; black box"
        try:
            self._write(path, cause, text, number)
        except Exception as error:
            why = getattr(error, "strerror", None) or repr(error)
            print(f"{said} not written: {why}", file=sys.stderr)
            return None
        print(f"{said} written to {path.parent}", file=sys.stderr)
        return path

    def _write(self, path: Path, cause: str, text: str, number: int) -> None:
        since, snapshot = self.snapshots[0]
        first = Kept(self.box.first_random, Memory())
        parts = [("snapshot", snapshot.memory), ("first", first.memory)]
        steps = []
        for step in self.box.steps:
            facts, tensors = step.describe()
            steps.append(facts)
            parts += tensors
        size = sum(memory.used for _, memory in parts)
        if size > self.limit:
            raise MemoryError(f"{size} bytes are more than its limit of {self.limit}")
        facts = {
            "cause": cause,
            "text": text,
            "step": number,
            "first_step": self.box.first_step,
            "fetched": self.box.first_fetched or {},
            "first_random": first.tree,
            "seconds": time.monotonic() - self.box.first_time,
            "rank": self.box.rank,
            "world_size": self.box.world_size,
            "every": self.every,
            "is_by_command": self.box.is_by_command,
            "program": self.box.program,
            "snapshot": {"step": since, "state": snapshot.tree},
            "steps": steps,
        }
        file.write(path, facts, parts)


def _tensors_in(value: Any) -> dict[int, Any]:
    """Return the tensors in a nested value, by their ids."""
    found: dict[int, Any] = {}

    def add(_: str, tensor: Any) -> bool:
        found[id(tensor)] = tensor
        return True

    take_apart(value, "", add)
    return found


def _half_of_free() -> int:
    """Return half of the memory that programs could have now."""
    with suppress(OSError, ValueError, IndexError):  # not every system has it
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 512
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
