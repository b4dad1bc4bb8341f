"""The last steps of a training, in memory: batches, inputs, digests, numbers.

A step is what the run counts as one.  At its beginning the random generators are noted.  A
role decides what to do with it: `Writer` (writer.py) takes snapshots and writes the black box
when something goes wrong, `Replayer` (replayer.py) restores what was written.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

from tensortap import _core
from tensortap.answers.finding import Finding
from tensortap.blackbox import loaders, state
from tensortap.blackbox.fault import NOT_FINITE, FaultFinder
from tensortap.blackbox.memory import Kept, Memory
from tensortap.blackbox.signals import Signals
from tensortap.blackbox.step import Batch, Step, digests
from tensortap.compiled.hooks import unseen
from tensortap.models.forward import random_states
from tensortap.models.living import held, holds, living
from tensortap.models.modules import named_parameters

#: A box that waits for the next run that is opened with one.
waiting: list[Box] = []


class Role:
    """What a box is for; a method that is not overridden does nothing.

    The box calls them while it handles an event of the program: *step* is the one that runs.
    """

    raises = False  # what it raises reaches the program
    has_signals = False  # a signal makes the box call dump()
    takes_faults_at_once = False  # else when the optimizer has stepped
    home: str | None = None  # folder to record into, whatever the program says
    is_over = False  # nothing is wanted any more
    is_waiting = False  # start_step() is called again at the next event
    box: Box

    def join(self, box: Box) -> None:
        """Belong to a box."""
        self.box = box

    def fail(self, error: Exception) -> None:
        """Handle an error of our own."""

    def open(self, recorder: Any) -> None:
        """Prepare: the run is open."""

    def replace_batch(self, loader: str, given: list[Any]) -> None:
        """Put what the program gets into *given*, which holds the batch of its loader."""

    def begin_step(self, step: Step) -> None:
        """Begin a step."""

    def start_step(self, step: Step) -> None:
        """Handle the first event of a step, once there are models."""

    def begin_forward(self, step: Step, event: _core.ModuleEvent) -> None:
        """Look at a forward in training that is about to be kept."""

    def end_forward(self, step: Step) -> None:
        """Look at a forward that was kept; it runs now."""

    def begin_update(self, step: Step, optimizer: Any) -> None:
        """Look at an optimizer that is about to step."""

    def digests_of(self, step: Step) -> tuple[bool, bool]:
        """Return whether to digest whole gradients, and samples of them."""
        return False, False

    def end_update(self, step: Step) -> None:
        """Look at a step whose gradients and numbers were kept."""

    def wants_fault(self, cause: str) -> bool:
        """Return whether a fault of this cause is of interest."""
        return True

    def take_fault(self, fault: Finding) -> None:
        """Handle something that is wrong with a step."""

    def dump(self, cause: str, text: str = "", step: int | None = None) -> Path | None:
        """Write what is kept."""
        return None

    def end_program(self, error: BaseException | None, cause: str) -> None:
        """Handle the exception that ends the program, or its end."""

    def close(self) -> None:
        """Let go of everything."""


class Box:
    """What a run keeps of its last steps.

    It may be made before the run is open, so that it sees the first batch: batches are drawn before
    a model is called.

    Args:
        role: What it is for.
        on_spike: A loss that jumps is a fault, too.
    """

    def __init__(self, role: Role, on_spike: bool = False) -> None:
        """Listen to loaders; models come by add()."""
        self.role = role
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
        self.fetched: dict[str, int] = {}  # batches drawn, by loader
        self.first_step: int | None = None
        self.first_fetched: dict[str, int] | None = None  # when the first step had ended
        self.first_random: dict[str, Any] = {}  # generators when it began ...
        self.first_time = 0.0  # ... and when that was
        self.finder = FaultFinder(self, on_spike)
        self.free: list[Memory] = []
        self.consumers: list[Any] = []
        self.signals: Signals | None = None
        role.join(self)
        loaders.listen(self)

    @property
    def home(self) -> str | None:
        """Folder to record into, whatever the program says."""
        return self.role.home

    def open(
        self, recorder: Any, folder: Path, rank_and_size: tuple[int, int], program: dict[str, Any]
    ) -> None:
        """Begin a run: its folder, and how to start the program again."""
        self.recorder, self.folder, self.program = recorder, folder, program
        self.rank, self.world_size = rank_and_size
        self.role.open(recorder)
        for step in self.steps:
            step.number = self.first_step = self.number()
        if self.role.has_signals:
            self.signals = Signals(self.dump)

    def add(self, model: Any, name: str, root: Any) -> None:
        """Add a model; *root*: the module that the program calls."""
        if any(known() is model for _, known in self.models):
            return
        self.models.append((name, ref(model)))
        consumer = _core.ModuleConsumer(
            unseen(self.before_forward, is_traced=False),
            unseen(self.after_forward, is_traced=False),
            raises=self.role.raises,
        )
        consumer.add(root, name)
        self.consumers.append(consumer)
        self.names.update((id(p), name + key) for key, p in named_parameters(model).items())

    def close(self) -> None:
        """Let everything go; a fault of a last step that was skipped is passed on now."""
        self.quietly(self.pass_fault)
        self.role.close()
        loaders.leave(self)
        if self.signals is not None:
            self.signals.close()
        for consumer in self.consumers:
            consumer.remove()
        self.pid = -1
        self.steps, self.free = [], []

    # ---- what happens in the program

    def batch_drawn(self, loader: str, batch: Any, rows: Any) -> Any:
        """Keep a batch; return what the program gets."""
        given = [batch]
        self.quietly(self.role.replace_batch, loader, given)
        self.quietly(self._keep_batch, loader, given[0], rows)
        return given[0]

    def before_forward(self, event: _core.ModuleEvent) -> None:
        """Keep what a forward in training begins with."""
        if event.training:
            self.quietly(self._keep_forward, event)

    def after_forward(self, event: _core.ModuleEvent) -> None:
        """Keep the digests of what it returned."""
        if event.training:
            self.quietly(self._keep_outputs, event)

    def loss_seen(self, loss: Any) -> None:
        """Keep the digest of what backward() is called on."""
        self.quietly(self._keep_loss, loss)

    def not_finite(self, name: str, step: int, nan: int, posinf: int, neginf: int) -> None:
        """Note the first value that is wrong; the optimizer's step writes the black box."""
        if self.role.wants_fault(NOT_FINITE):
            self.quietly(self.finder.check_value, name, step, nan, posinf, neginf)
        if self.role.takes_faults_at_once:
            self.quietly(self.pass_fault)

    def before_update(self, optimizer: Any) -> None:
        """Keep gradients and numbers of an optimizer that is about to step; look for trouble."""
        self.quietly(self._keep_update, optimizer)

    def step_ended(self) -> None:
        """Begin the next step: the last optimizer has stepped."""
        self.quietly(self._begin)

    def program_ended(self, error: BaseException | None, cause: str = "exception") -> None:
        """Handle the exception that ends the program: its own, or one of a rule."""
        self.quietly(self.pass_fault)  # on_nonfinite="raise" ends it before the optimizer's step
        self.role.end_program(error, cause)

    def dump(self, cause: str, text: str = "", step: int | None = None) -> Path | None:
        """Write what is kept now; return the file, or None if there is nothing to write."""
        return self.role.dump(cause, text, step)

    def quietly(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function of ours, whose errors are not the program's."""
        if os.getpid() != self.pid or self.role.is_over:
            return
        try:
            function(*args)
        except Exception as error:
            self.role.fail(error)

    def pass_fault(self) -> None:
        """Pass what is wrong with a step to the role."""
        fault = self.finder.take_fault()
        if fault is not None:
            self.role.take_fault(fault)

    # ---- steps

    def number(self) -> int:
        """Return the number of the step that runs."""
        if self.recorder is None:
            return 0
        return int(self.recorder.current_step) + bool(self.recorder.step_over)

    def _begin(self) -> Step:
        """Return the step that runs now; begin it if it is new."""
        number = self.number()
        if self.steps and self.steps[-1].number == number:
            return self.steps[-1]
        last = self.steps[-1] if self.steps else None
        if last is not None and last.losses and not last.updates:
            self.finder.check_skipped(last.number)
        self.pass_fault()
        if self.first_step is None:
            self.first_step = number
            self.first_random, self.first_time = random_states(), time.monotonic()
        elif self.first_fetched is None:
            self.first_fetched = dict(self.fetched)
        step = Step(number, dict(self.fetched))
        self.steps.append(step)
        self.role.begin_step(step)
        return step

    def _now(self) -> Step:
        """Return the step that runs now, and start it at its first event."""
        step = self._begin()
        if self.models and (not step.is_started or self.role.is_waiting):
            step.is_started = True
            self.role.start_step(step)
        return step

    def search(self) -> None:
        """Find scalers, schedulers, and optimizers that have not stepped yet."""
        from torch.amp import GradScaler
        from torch.optim import Optimizer
        from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

        found = living(Optimizer, GradScaler, LRScheduler, ReduceLROnPlateau)
        ids = {id(p) for _, model in self.live_models() for p in model.parameters()}
        for one in found:
            if isinstance(one, Optimizer) and holds(one, ids):
                self._know(one)
        self.scalers = [
            ref(one) for one in found if isinstance(one, GradScaler) and one.is_enabled()
        ]
        known = {id(one) for one in self.live_optimizers()}
        schedulers = [one for one in found if isinstance(one, LRScheduler | ReduceLROnPlateau)]
        ours = [one for one in schedulers if id(getattr(one, "optimizer", None)) in known]
        self.schedulers = [ref(one) for one in sorted(ours, key=lambda one: type(one).__name__)]

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

    def live_optimizers(self) -> list[Any]:
        """Return the optimizers that are still there, in the order of their parameters."""
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
        step = self._now()
        self.role.begin_forward(step, event)
        step.keep_forward(event, self._memory)
        self.role.end_forward(step)

    def _keep_outputs(self, event: _core.ModuleEvent) -> None:
        if self.steps:
            self.steps[-1].keep_outputs(event)

    def _keep_loss(self, loss: Any) -> None:
        step = self._begin()
        on_spike = self.finder.on_spike
        value = loss.item() if loss.numel() == 1 and (loss.is_cpu or on_spike) else None
        step.losses.append((digests([loss])[0], value))
        if on_spike and value is not None:
            self.finder.check_loss(value, step.number)

    def _keep_update(self, optimizer: Any) -> None:
        step = self._begin()
        self.role.begin_update(step, optimizer)
        self._know(optimizer)
        index = next(i for i, one in enumerate(self.live_optimizers()) if one is optimizer)
        step.updates.append({"optimizer": index, "numbers": state.numbers(optimizer)})
        parameters = list(held(optimizer))
        names = [self.names.get(id(p)) or f"#{i}" for i, p in enumerate(parameters)]
        whole, sampled = self.role.digests_of(step)
        step.keep_gradients(names, [p.grad for p in parameters], whole=whole, sampled=sampled)
        self.pass_fault()
        self.role.end_update(step)
