"""The black box: the last steps of a training, in memory, until something goes wrong.

A step is what the run counts as one.  At its beginning the random generators are noted.  At its
first event (a batch, or a forward of a model in training) every K-th step takes a snapshot of all
state.  The two latest snapshots stay, and so do the steps since the older one.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import ref

from tensortap import _core
from tensortap.blackbox import file, loaders, state
from tensortap.blackbox.cause import Judge
from tensortap.blackbox.memory import Kept, Memory
from tensortap.blackbox.signals import Signals
from tensortap.blackbox.step import Batch, Step, digests
from tensortap.blackbox.values import take_apart
from tensortap.compiled.hooks import unseen
from tensortap.models.forward import random_states
from tensortap.models.living import held, holders, living
from tensortap.models.modules import named_parameters

MOST_DUMPS = 3
SEARCHES = (0, 1, 16, 256, 4096)  # snapshots before which all objects are searched: milliseconds
ASKED = ("asked", "SIGUSR2")  # causes of which there may be several


#: A box that waits for the next run that is opened with one.
waiting: list[Box] = []


class Box:
    """The black box of one run.

    It may be made before the run is open, so that it sees the first batch: batches are drawn before
    a model is called.

    Args:
        every: Steps from one snapshot to the next.
        limit: Most bytes of memory and of one file; None: half of the memory that is free.
        on_spike: Write it also when the loss jumps.
    """

    raises = False  # what before_forward raises reaches the program
    home: str | None = None  # folder to record into, whatever the program says

    def __init__(self, every: int, limit: int | None = None, on_spike: bool = False) -> None:
        """Listen to loaders; models come by add()."""
        self.every = every
        self.limit = limit if limit is not None else _half_of_free()
        self.pid = os.getpid()
        self.recorder: Any = None  # once the run is open
        self.folder = Path()
        self.rank, self.world_size = 0, 1
        self.program: dict[str, Any] = {}
        self.is_by_command = False  # `tensortap run` opens the run
        self.models: list[tuple[str, ref[Any]]] = []
        self.optimizers: list[ref[Any]] = []
        self.scalers: list[ref[Any]] = []
        self.schedulers: list[ref[Any]] = []  # of learning rates
        self.names: dict[int, str] = {}  # of parameters, by id
        self.steps: list[Step] = []
        self.snapshots: list[tuple[int, Kept]] = []  # the older one first
        self.snapshot_count = 0
        self.fetched: dict[str, int] = {}  # batches drawn, by loader
        self.first_step: int | None = None
        self.first_fetched: dict[str, int] | None = None  # when the first step had ended
        self.first_random: dict[str, Any] = {}  # generators when it began ...
        self.first_time = 0.0  # ... and when that was
        self.judge = Judge(self, on_spike)
        self.free: list[Memory] = []
        self.dumped: dict[str, Path] = {}  # by cause
        self.consumers: list[Any] = []
        self.signals: Signals | None = None
        loaders.listen(self)

    def open(
        self, recorder: Any, folder: Path, rank_and_size: tuple[int, int], program: dict[str, Any]
    ) -> None:
        """Begin a run: its folder, and how to start the program again."""
        self.recorder, self.folder, self.program = recorder, folder, program
        self.rank, self.world_size = rank_and_size
        for step in self.steps:
            step.number = self.first_step = self._number()
        self.signals = Signals(self.dump)

    def add(self, model: Any, name: str, root: Any) -> None:
        """Add a model; *root*: the module that the program calls."""
        if any(known() is model for _, known in self.models):
            return
        self.models.append((name, ref(model)))
        consumer = _core.ModuleConsumer(
            unseen(self.before_forward, is_traced=False),
            unseen(self.after_forward, is_traced=False),
            raises=self.raises,
        )
        consumer.add(root, name)
        self.consumers.append(consumer)
        self.names.update((id(p), name + key) for key, p in named_parameters(model).items())

    def close(self) -> None:
        """Let everything go; a fault of a last step that was skipped is written now."""
        self._quietly(self._write_fault)
        loaders.leave(self)
        if self.signals is not None:
            self.signals.close()
        for consumer in self.consumers:
            consumer.remove()
        self.pid = -1
        self.steps, self.snapshots, self.free = [], [], []

    # ---- what happens in the program

    def batch_drawn(self, loader: str, batch: Any, rows: Any) -> Any:
        """Keep a batch; return what the program gets."""
        self._quietly(self._keep_batch, loader, batch, rows)
        return batch

    def before_forward(self, event: _core.ModuleEvent) -> None:
        """Keep what a forward in training begins with."""
        if event.training:
            self._quietly(self._keep_forward, event)

    def after_forward(self, event: _core.ModuleEvent) -> None:
        """Keep the digests of what it returned."""
        if event.training:
            self._quietly(self._keep_outputs, event)

    def loss_seen(self, loss: Any) -> None:
        """Keep the digest of what backward() is called on."""
        self._quietly(self._keep_loss, loss)

    def not_finite(self, name: str, step: int, nan: int, posinf: int, neginf: int) -> None:
        """Note the first value that is wrong; the optimizer's step writes the black box."""
        if "not finite" not in self.dumped:
            self._quietly(self.judge.see_value, name, step, nan, posinf, neginf)

    def before_update(self, optimizer: Any) -> None:
        """Keep gradients and numbers of an optimizer that is about to step; look for trouble."""
        self._quietly(self._keep_update, optimizer)

    def step_ended(self) -> None:
        """Begin the next step: the last optimizer has stepped."""
        self._quietly(self._begin)

    def program_ended(self, error: BaseException, cause: str = "exception") -> None:
        """Write the black box if an exception ends the program: its own, or one of a rule."""
        self._quietly(self._write_fault)  # on_nonfinite="raise" ends it before the optimizer's step
        if isinstance(error, Exception):
            first_line = str(error).partition("\n")[0]
            self.dump(cause, f"{type(error).__name__}: {first_line}"[:200])

    def _quietly(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function of ours; an error turns the black box off and is printed once."""
        if os.getpid() != self.pid:
            return
        try:
            function(*args)
        except Exception as error:
            self._turn_off(error)

    def _turn_off(self, error: Exception) -> None:
        what = str(error) if isinstance(error, MemoryError) else repr(error)
        print(f"tensortap: black box off: {what}", file=sys.stderr)
        self.pid = -1  # nothing is written any more
        self.close()

    # ---- steps

    def _number(self) -> int:
        if self.recorder is None:
            return 0
        return int(self.recorder.current_step) + bool(self.recorder.step_over)

    def _begin(self) -> Step:
        """Return the step that runs now; begin it if it is new."""
        number = self._number()
        if self.steps and self.steps[-1].number == number:
            return self.steps[-1]
        last = self.steps[-1] if self.steps else None
        if last is not None and last.losses and not last.updates:
            self.judge.see_skipped(last.number)
        self._write_fault()
        if self.first_step is None:
            self.first_step = number
            self.first_random, self.first_time = random_states(), time.monotonic()
        elif self.first_fetched is None:
            self.first_fetched = dict(self.fetched)
        step = Step(number, dict(self.fetched))
        self.steps.append(step)
        self._began(step)
        return step

    def _began(self, step: Step) -> None:
        """Do nothing more."""

    def _now(self) -> Step:
        """Return the step that runs now; at its first event, take a snapshot if one is due."""
        step = self._begin()
        if self.models and (not step.is_started or not self.snapshots):
            step.is_started = True
            self._start(step)
        return step

    def _start(self, step: Step) -> None:
        if self._is_due(step):
            self._take_snapshot(step)

    def _is_due(self, step: Step) -> bool:
        if not self.snapshots:
            return True
        since = self.snapshots[-1][0]
        used = sum(one.size for one in self.steps if one.number >= since)
        room = self.limit - 2 * self.snapshots[-1][1].memory.used
        return step.number - since >= self.every or 2 * used > room

    def _take_snapshot(self, step: Step) -> None:
        """Copy all state, into the memory of the older of two snapshots."""
        if self.snapshot_count in SEARCHES:
            self._search()
        self.snapshot_count += 1
        now = state.take(
            self.live_models(), self._optimizers(), self.live_scalers(), self.live_schedulers()
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
        for one in self.steps:
            self.free += one.memories() if one.number < oldest else []
        self.steps = [one for one in self.steps if one.number >= oldest]

    def _search(self) -> None:
        """Find optimizers that have not stepped yet, and scalers."""
        ids = {id(p) for _, model in self.live_models() for p in model.parameters()}
        for optimizer in holders(ids):
            self._know(optimizer)
        try:
            from torch.amp import GradScaler
        except ImportError:  # an older torch
            from torch.cuda.amp import GradScaler  # type: ignore[assignment]
        self.scalers = [ref(one) for one in living(GradScaler) if one.is_enabled()]
        from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

        kinds = {id(one): one for kind in (LRScheduler, ReduceLROnPlateau) for one in living(kind)}
        known = {id(one) for one in self._optimizers()}
        found = [one for one in kinds.values() if id(getattr(one, "optimizer", None)) in known]
        self.schedulers = [ref(one) for one in sorted(found, key=lambda one: type(one).__name__)]

    def _know(self, optimizer: Any) -> None:
        if all(known() is not optimizer for known in self.optimizers):
            self.optimizers.append(ref(optimizer))

    def live_models(self) -> list[tuple[str, Any]]:
        """Return the names and models that are still there."""
        return [(name, model) for name, known in self.models if (model := known()) is not None]

    def live_scalers(self) -> list[Any]:
        """Return the GradScalers that are still there."""
        return [scaler for known in self.scalers if (scaler := known()) is not None]

    def live_schedulers(self) -> list[Any]:
        """Return the schedulers of learning rates that are still there."""
        return [one for known in self.schedulers if (one := known()) is not None]

    def _optimizers(self) -> list[Any]:
        live = [one for known in self.optimizers if (one := known()) is not None]
        return state.in_order(live, self.live_models())

    def _memory(self) -> Memory:
        return self.free.pop() if self.free else Memory()

    # ---- what is kept

    def _keep_batch(self, loader: str, batch: Any, rows: Any) -> None:
        key = self.key_of(loader)
        number = self.fetched.get(key, 0)
        if not key.endswith("eval"):
            step = self._now()
            kept = Kept(batch, self._memory(), seen=True)
            step.keep_batch(Batch(key, number, rows, kept))
        self.fetched[key] = number + 1

    def key_of(self, loader: str) -> str:
        """Return the name of a loader and what its batches are for."""
        models = self.live_models()
        is_eval = bool(models) and not any(model.training for _, model in models)
        return f"{loader}, {'eval' if is_eval else 'train'}"

    def _keep_forward(self, event: _core.ModuleEvent) -> None:
        self._now().keep_forward(event, self._memory)

    def _keep_outputs(self, event: _core.ModuleEvent) -> None:
        if self.steps:
            self.steps[-1].keep_outputs(event)

    def _keep_loss(self, loss: Any) -> None:
        step = self._begin()
        on_spike = self.judge.on_spike
        value = loss.item() if loss.numel() == 1 and (loss.is_cpu or on_spike) else None
        step.losses.append((digests([loss])[0], value))
        if on_spike and value is not None:
            self.judge.see_loss(value, step.number)

    def _keep_update(self, optimizer: Any) -> None:
        step = self._begin()
        self._know(optimizer)
        index = next(i for i, one in enumerate(self._optimizers()) if one is optimizer)
        step.updates.append({"optimizer": index, "numbers": state.numbers(optimizer)})
        parameters = list(held(optimizer))
        names = [self.names.get(id(p)) or f"#{i}" for i, p in enumerate(parameters)]
        self._keep_gradients(step, names, [p.grad for p in parameters])
        self._write_fault()

    def _keep_gradients(self, step: Step, names: list[str], gradients: list[Any]) -> None:
        """Digest all of them in a step that fails; else a sample, which costs next to nothing."""
        is_failing = self.judge.fault is not None
        step.keep_gradients(names, gradients, whole=is_failing, sampled=not is_failing)

    # ---- writing

    def _write_fault(self) -> None:
        fault = self.judge.take_fault()
        if fault is not None:
            self.dump(*fault)

    def dump(self, cause: str, text: str = "", step: int | None = None) -> Path | None:
        """Write what is kept now; return the file, or None if there is nothing to write.

        One for each cause and step, at most three in a run, except where the user asks.
        """
        if os.getpid() != self.pid or not self.snapshots:
            return None
        number = self._number() if step is None else step
        path = self.folder / file.FOLDER / f"step{number}" / f"rank{self.rank}.safetensors"
        is_asked = cause in ASKED
        if path in self.dumped.values():
            return path
        if not is_asked and (cause in self.dumped or len(self.dumped) >= MOST_DUMPS):
            return None
        self.dumped[f"{cause} {number}" if is_asked else cause] = path
        text = text or ("asked for" if is_asked else f"{cause} arrived")
        rank = f", rank {self.rank}" if self.world_size > 1 else ""
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
        first = Kept(self.first_random, Memory())
        parts = [("snapshot", snapshot.memory), ("first", first.memory)]
        steps = []
        for step in self.steps:
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
            "first_step": self.first_step,
            "fetched": self.first_fetched or {},
            "first_random": first.tree,
            "seconds": time.monotonic() - self.first_time,
            "rank": self.rank,
            "world_size": self.world_size,
            "every": self.every,
            "is_by_command": self.is_by_command,
            "program": self.program,
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
