"""Replay: the program runs again, and its steps become those that were kept.

The program builds its own model, optimizer and loader, and runs one step of its own (none, if the
snapshot is of its very first step).  Then all state is set from the snapshot, the loader returns
the kept batches, and the random generators are set at the beginning of each step and of each
forward, until the failing step.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tensortap import _core
from tensortap.answers.finding import Finding
from tensortap.blackbox import file, state
from tensortap.blackbox.box import Box, Role
from tensortap.blackbox.locals import changed
from tensortap.blackbox.step import Step
from tensortap.blackbox.verdict import Result
from tensortap.blackbox.writer import ASKED
from tensortap.compiled.dynamo import count_frames
from tensortap.models.forward import set_random_states

NOISE = 1e-3  # relative difference of two losses that rounding explains
MOST_ROWS = 8  # named
MOST_VARIABLES = 3  # named
WITHOUT_FAULT = (*ASKED, "SIGTERM", "SIGINT", "health")  # causes that have no failing step


class ReplayEndedError(BaseException):
    """Ends the program when the step has been replayed; tensortap catches it."""


class Replayer(Role):
    """Return to the program what a box kept, through a box of its own, and compare.

    Args:
        facts, tensors: The black box, as `file.read` returns it.
        home: Folder for the run of the replay.
        step: The step to end with; None: the one that failed.
        operators: Returns an operator log (`tt.ops`) of a model, for the last two steps; or None.
        eager: Run the last step, and only that, without torch.compile.
        from_start: Set nothing but the random generators of the first step, and let the program
            run up to the failing one.
        then: Called with the result; must not return.
    """

    raises = True
    takes_faults_at_once = True

    def __init__(
        self,
        facts: dict[str, Any],
        tensors: dict[str, Any],
        home: str,
        *,
        step: int | None = None,
        operators: Callable[[Any], Any] | None = None,
        eager: bool = False,
        from_start: bool = False,
        then: Callable[[Result], object],
    ) -> None:
        """Read what there is; nothing happens before the program's first batch."""
        self.facts, self.tensors, self.home, self.then = facts, tensors, home, then
        self.kept = {one["step"]: one for one in facts["steps"]}
        self.from_start = from_start
        self.since: int = facts["first_step"] if from_start else facts["snapshot"]["step"]
        self.target = step if step is not None else self._last_step()
        self.operators, self.eager = operators, eager
        self.log: Any = None
        self.faults: list[Finding] = []  # what was not finite
        self.differences: list[tuple[int, str]] = []
        self.replaced = 0  # inputs that were not the kept ones
        self.is_set = False
        self.result: Result | None = None
        Box(self)

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Whether there is a verdict."""
        return self.result is not None

    @property
    def is_waiting(self) -> bool:  # type: ignore[override]
        """Whether the state has not been set yet."""
        return not self.is_set

    def _last_step(self) -> int:
        """Return the failing step; if none failed, the last one that was complete."""
        last: int = self.facts["step"]
        complete = [n for n, one in self.kept.items() if one["updates"] and self.since <= n <= last]
        return max(complete, default=last) if self.facts["cause"] in WITHOUT_FAULT else last

    def open(self, recorder: Any) -> None:
        """Set the number of the program's first step: the one after it is the snapshot's."""
        is_first = self.since <= self.facts["first_step"]
        recorder.current_step = self.since if is_first else self.since - 1

    # ---- what happens in the program

    def fail(self, error: Exception) -> None:
        """End the replay."""
        is_misfit = isinstance(error, state.MisfitError)
        self._end("unplayable", str(error) if is_misfit else f"an error of tensortap: {error!r}")

    def replace_batch(self, loader: str, given: list[Any]) -> None:
        """Put the kept batch in place of the program's own."""
        if self.from_start:
            return
        key = self.box.key_of(loader)
        number = self.box.fetched.get(key, 0) + self._offset(key)
        for at, step in self.kept.items():
            for i, kept in enumerate(step["batches"]):
                if kept["loader"] == key and kept["number"] == number:
                    place = f"step{at}/batch{i}"
                    try:
                        given[0] = file.value_at(kept["value"], place, self.tensors, given[0])
                    except ValueError as error:
                        self._end("unplayable", f"the batch of step {at}: {error}")

    def _offset(self, key: str) -> int:
        """Return how many batches were drawn before those that the program is about to draw."""
        if self.since <= self.facts["first_step"] or self.since not in self.kept:
            return 0
        before: dict[str, int] = self.kept[self.since]["fetched"]
        return before.get(key, 0) - int(self.facts["fetched"].get(key, 0))

    def begin_step(self, step: Step) -> None:
        """Set the random generators to what they were when this step began."""
        if step.number > self.target:
            self._end_at_target()
        box = self.box
        past = [one for one in box.steps[:-1] if one.number not in self.kept]
        box.free += [memory for one in past for memory in one.memories()]
        box.steps = [one for one in box.steps if one not in past]
        if self.since > step.number:
            return
        if self.eager and step.number == self.target:
            run_eagerly()
        logged = self.target if self.eager else self.target - 1  # what is compiled, it cannot log
        if self.operators is not None and self.log is None and step.number >= logged:
            models = [model for _, model in box.live_models()]
            self.log = self.operators(models[0] if len(models) == 1 else None)
            self.log.start()
        self._set_generators(step.number, 0)

    def start_step(self, step: Step) -> None:
        """Set all state, once."""
        if self.is_set or step.number < self.since:
            return
        self.is_set = True
        if self.from_start:
            return
        box = self.box
        box.search()
        kept = file.value_at(self.facts["snapshot"]["state"], "snapshot", self.tensors)
        state.set_back(
            kept,
            box.live_models(),
            box.live_optimizers(),
            box.live_scalers(),
            box.live_schedulers(),
        )

    def _set_generators(self, number: int, which: int) -> None:
        if self.from_start:
            if number == self.since and which == 0 and self.facts.get("first_random"):
                tree = self.facts["first_random"]
                set_random_states(file.value_at(tree, "first", self.tensors))
            return
        trees = self.kept[number]["random"] if number in self.kept else []
        if which + 1 < len(trees):
            tree = trees[which + 1]
            set_random_states(file.value_at(tree, f"step{number}/random", self.tensors))

    def begin_forward(self, step: Step, event: _core.ModuleEvent) -> None:
        """Use the kept inputs."""
        which = len(step.forwards)
        if self.since <= step.number and step.number in self.kept and not self.from_start:
            forwards = self.kept[step.number]["forwards"]
            if which < len(forwards):
                self._replace_inputs(step.number, which, forwards[which], event)

    def end_forward(self, step: Step) -> None:
        """Set the random generators to what they were when this forward began."""
        if self.since <= step.number:
            self._set_generators(step.number, len(step.forwards))

    def _replace_inputs(
        self, number: int, which: int, kept: dict[str, Any], event: _core.ModuleEvent
    ) -> None:
        """Use the kept inputs where the program's own are others."""
        found = dict(_core.find_tensors((event.args, event.kwargs or {}), ""))
        for name, digest, same in kept["inputs"]:
            tensor = found.get(name)
            if tensor is None or digest is None or _core.digest(tensor).hex() == digest:
                continue
            place = f"inputs{which}/{name}" if same is None else f"batch{same[0]}{same[1]}"
            value = self.tensors.get(f"step{number}/{place}")
            if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype:
                self._end(
                    "unplayable", f"the input{name} of the model has another shape or type now"
                )
            else:
                _fill(tensor, value)
                self.replaced += 1

    def begin_update(self, step: Step, optimizer: Any) -> None:
        """Set the numbers of the optimizer."""
        kept = self.kept.get(step.number)
        which = len(step.updates)
        is_set = kept is not None and self.since <= step.number and not self.from_start
        if kept is not None and is_set and which < len(kept["updates"]):
            numbers = kept["updates"][which]["numbers"]
            state.set_numbers([_as_numbers(one) for one in numbers], optimizer)

    def digests_of(self, step: Step) -> tuple[bool, bool]:
        """Digest whole gradients and samples, if there is something to compare with."""
        is_kept = step.number in self.kept
        return is_kept, is_kept

    def end_update(self, step: Step) -> None:
        """End the replay after the last optimizer of the last step."""
        kept = self.kept.get(step.number)
        if kept is None or step.number < self.since:
            return
        if step.number == self.target and len(step.updates) >= len(kept["updates"]):
            self._end_at_target()

    def take_fault(self, fault: Finding) -> None:
        """Note that a fault is there again."""
        self.faults.append(fault)

    def end_program(self, error: BaseException | None, cause: str) -> None:
        """Decide what became of the replay, if the program has ended by itself."""
        if self.result is not None:
            return
        self._end_if_reproduced(error)
        if error is not None and isinstance(error, Exception):
            why = f"the program ended with {type(error).__name__}: {error}"[:300]
        else:
            why = f"the program ended at step {self.box.number()}, before step {self.target}"
        if not self.is_set:
            why += " (no step began: was the model trained in this process?)"
        self._end("unplayable", why)

    def close(self) -> None:
        """Decide what became of the replay, if the program closes its run in the failing step."""
        if self.result is None:
            self._end_if_reproduced(None)

    # ---- the verdict

    def _end_if_reproduced(self, error: BaseException | None) -> None:
        """End the replay if the program has ended itself in the failing step, with its fault."""
        if self.box.number() != self.target:
            return
        if self.facts["cause"] == "exception":
            is_same = type(error).__name__ == self.facts["text"].partition(":")[0]
            if error is not None:
                self._end_at_target(error if is_same else None)
        elif self._has_fault():
            self._end_at_target()

    def _has_fault(self) -> bool:
        return any(one.first_step == self.target for one in self.faults)

    def _compare(self) -> tuple[int, int]:
        """Compare all digests; return how many of the last step's are equal, and their number."""
        equal = total = 0
        for step in self.box.steps:
            kept = self.kept.get(step.number)
            if kept is None or step.number < self.since:
                continue
            now = step.digests()
            for name, digest in kept["digests"].items():
                if digest is None:
                    continue
                if now.get(name) != digest:
                    self.differences.append((step.number, name))
                if step.number == self.target:
                    total += 1
                    equal += now.get(name) == digest
        return equal, total

    def _end_at_target(self, error: BaseException | None = None) -> None:
        equal, total = self._compare()
        cause = self.facts["cause"]
        is_whole = equal == total and (total > 0 or error is not None)
        if cause == "exception":
            verdict = (
                "bits" if error is not None and is_whole else "noise" if error else self._absent()
            )
        elif cause == "not finite" and not self._has_fault():
            verdict = self._absent()
        elif is_whole:
            verdict = "bits"
        elif cause == "not finite":
            verdict = "noise"
        else:
            verdict = "noise" if self._has_same_loss() else self._absent()
        self._end(verdict, "", equal=equal, total=total)

    def _absent(self) -> str:
        """Return the verdict on a fault that did not come again.

        It was transient if the program ran from its first step and computed the same until then:
        nothing but the step itself is left to explain it.
        """
        has_compared = any(step.number in self.kept for step in self.box.steps[:-1])
        is_same = has_compared and all(step == self.target for step, _ in self.differences)
        return "transient" if self.from_start and is_same else "unreproduced"

    def _changed(self) -> list[dict[str, Any]]:
        """Return the plain variables of the program that were others in the last step."""
        step = next((one for one in self.box.steps if one.number == self.target), None)
        kept = self.kept.get(self.target, {}).get("variables", [])
        pairs = changed(kept, step.variables or []) if step is not None else []
        return [
            {
                "name": old.name,
                "was": old.value,
                "is": new.value,
                "file": new.file,
                "line": new.line,
            }
            for old, new in pairs[:MOST_VARIABLES]
        ]

    def _has_same_loss(self) -> bool:
        now = next((s.losses for s in self.box.steps if s.number == self.target), [])
        kept = self.kept[self.target]["losses"] if self.target in self.kept else []
        pairs = [
            (a, b)
            for (_, a), (_, b) in zip(now, kept, strict=False)
            if a is not None and b is not None
        ]
        return bool(pairs) and all(abs(a - b) <= NOISE * max(abs(a), abs(b)) for a, b in pairs)

    def _end(self, verdict: str, reason: str, **counts: int) -> None:
        if self.log is not None:
            self.log.stop()
        kept = self.kept.get(self.target, {"batches": []})
        self.result = {
            "verdict": verdict,
            "reason": reason,
            "step": self.target,
            "cause": self.facts["cause"],
            "text": self.facts["text"],
            "rank": self.facts["rank"],
            "replaced_inputs": self.replaced,
            "first_difference": min(self.differences, key=lambda one: one[0], default=None),
            "found": [(one.sentence, one.first_step) for one in self.faults[:1]],
            "rows": [
                row for i, one in enumerate(kept["batches"]) for row in self._bad_rows(i, one)
            ],
            "is_compiled": _is_compiled(),
            "from_start": self.from_start,
            "changed_variables": self._changed(),
            **counts,
        }
        self.then(self.result)
        raise ReplayEndedError

    def _bad_rows(self, index: int, kept: dict[str, Any]) -> list[str]:
        """Return which rows of a batch of the last step hold NaN or Inf."""
        place = f"step{self.target}/batch{index}"
        found = []
        for name, tensor in self.tensors.items():
            if not name.startswith(place) or not tensor.is_floating_point() or not tensor.ndim:
                continue
            bad = (~tensor.isfinite()).reshape(len(tensor), -1).any(1).nonzero().flatten().tolist()
            for row in bad[:MOST_ROWS]:
                of = ""
                if kept["rows"] and len(kept["rows"]) == len(tensor):
                    of = f" (row {kept['rows'][row]} of the dataset)"
                found.append(f"row {row} of the batch{name.removeprefix(place)}{of}")
        return found


def run_eagerly() -> None:
    """Run all code without torch.compile from now on."""
    import torch

    torch.compiler.set_stance("force_eager")


def _fill(tensor: Any, value: Any) -> None:
    """Replace the contents of a tensor, unseen by a log of operators where that is possible."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        tensor.data.copy_(value)
        return
    room = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(
        tensor.data_ptr()
    )
    _core.copy_into(room, [value], [0])


def _as_numbers(kept: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a parameter group; JSON has no tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}


def _is_compiled() -> bool:
    """Return whether torch.compile has compiled anything in this process."""
    return count_frames() > 0
