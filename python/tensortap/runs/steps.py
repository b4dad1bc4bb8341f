"""Count steps, and read parameters and gradients at the right instant.

The instant is the optimizer's step pre-hook: after backward, before the step.  A
step ends
- when an optimizer that has already stepped in it steps again,
- at the first training forward after all optimizers that make up a step have
  stepped: known after one round, or at once if no other optimizer holds a parameter.
  Those of a model that was trained before the newest model came, and has not run since,
  do not count;
- where no optimizer holds a watched parameter, at the next training forward of a model;
- or at `run.step()`, whose first call switches to counting by hand for good.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import itertools
import math
import time
from array import array
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from tensortap import _core
from tensortap.display import session
from tensortap.models.living import all_held, held, holders, living
from tensortap.models.modules import class_of
from tensortap.private.optimizers import scale_tensor_of, stepping_scaler
from tensortap.runs import optimizers, program, settings
from tensortap.runs.program import is_private

if TYPE_CHECKING:
    from tensortap.answers.guard import Guard
    from tensortap.blackbox.box import Box
    from tensortap.runs.watch import Watched

FORWARDS_ARE_STEPS, FORWARDS_ARE_NO_STEPS = 1, 2  # Recorder.forwards
NO_OPTIMIZER = "no optimizer holds the parameters: each training forward of a model is a step"
MOST_NAMED = 6  # parameters in a note
SEARCH_AGE = 5  # s of a run
REQUIRES_GRAD, IS_OPTIMIZED, HAS_GRAD, IS_SHARDED = 1, 2, 4, 8  # tt_state_bit of core/health
#: Notes about parameters that no optimizer has: the end of one, and one that takes it back.
UNTRAINED = "require gradients but no optimizer updates them"
UNFINISHED = "has no step of an optimizer"
RANDOM_STATE = "tensortap/random_state"  # core/health/dropout.c
ALL_TRAINED = "all parameters that require gradients are updated by an optimizer"


class Plan:
    """What to read when one optimizer steps."""

    def __init__(self, number: int, prefix: str) -> None:
        self.number, self.prefix = number, prefix
        self.stepped = -1  # the step in which it stepped last
        self.before = 0  # steps that the optimizer had done before the run
        self.ids: set[int] = set()
        self.parts: list[tuple[Watched, bytes | None]] = []
        self.rates: list[str] = []
        self.key: object = None
        self.settings: tuple[object, ...] = ()  # of the optimizer, when they were recorded

    def prepare(self, optimizer: Any, watched: list[Watched]) -> bool:
        """Find out which of the watched parameters are this optimizer's; say if that changed."""
        key = (tuple(len(g["params"]) for g in optimizer.param_groups), tuple(map(id, watched)))
        if key == self.key:
            return False
        self.key = key
        self.ids = set(map(id, held(optimizer)))
        self.parts = []
        for one in watched:
            theirs = one.core.parameter_ids()
            mine = [i for i, at in enumerate(theirs) if at in self.ids]
            if mine:
                whole = len(mine) == len(theirs)
                self.parts.append((one, None if whole else array("i", mine).tobytes()))
        names = ["learning_rate"]
        if len(optimizer.param_groups) > 1:
            names = [f"learning_rate/{i}" for i in range(len(optimizer.param_groups))]
        self.rates = [self.prefix + name for name in names]
        return True

    def reads_other_than(self, watched: Watched) -> bool:
        """Return whether there is something left to read without this model."""
        return any(one is not watched for one, _ in self.parts)


class Steps(optimizers.Listener):
    """The steps of one run, from what the optimizers do."""

    def __init__(self, recorder: _core.Recorder) -> None:
        """Listen to all optimizers of the process."""
        self.recorder = recorder
        self.box: Box | None = getattr(recorder, "box", None)
        self.watched: list[Watched] = []
        self.classes: dict[str, str] = {}  # of modules, as recorded
        self.plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()
        self.given: list[Any] = []  # optimizers that the user named
        self._others: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()  # of other models
        self.current: set[int] = set()  # ids of the optimizers that make up a step
        self.is_known = False
        self.errors = 0
        self.error: BaseException | None = None
        self._first: int | None = None  # step
        self._is_changed = True  # optimizers or models, since look()
        self._untrained: list[str] = []  # parameters, as the run was told
        self._states: dict[str, int] = {}  # of parameters, likewise
        self.guard: Guard | None = None  # asks the rules of health
        self._settings = settings.Settings(recorder)
        self._began = time.monotonic()
        self._has_searched = False  # for schedulers and DataLoaders
        self._owes_settings = False  # they were not asked for inside torch.jit.trace
        self._norms: list[tuple[int, str, list[float], list[Watched]]] = []  # not all known yet
        self._reads = 0
        self._notes = True  # gradients are looked at when accumulated: until more is known
        self._is_clipping = False  # ... because the program changes them before the step
        self._can_note = True  # ... which tells what they were; not on every device
        self._scalers: list[ref[Any]] = []  # enabled ones
        self._has_searched_scalers = False
        recorder.watchers.insert(0, self)  # closed last
        optimizers.listen(self)

    @staticmethod
    def of(recorder: _core.Recorder) -> Steps:
        """Return the one of this recorder."""
        for watcher in recorder.watchers:
            if isinstance(watcher, Steps):
                return watcher
        return Steps(recorder)

    def add(self, watched: Watched | None, optimizer: Any = None) -> None:
        """Add a model, or optimizers, or both."""
        if watched is not None:
            self.watched.append(watched)
            watched.note(self._notes)
            for one in self.watched:  # who is trained no more will not run again
                one.core.has_run = False
            self._learn(set())
        if optimizer is not None:
            self.given += list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
            self.current = {id(one) for one in self.given}
            self.is_known = True

    def drop(self, watched: Watched) -> None:
        """Forget a model."""
        if watched in self.watched:
            self.watched.remove(watched)
            if not self.given:
                left = {id(o) for o, p in self.plans.items() if p.reads_other_than(watched)}
                self.current &= left

    def _learn(self, current: set[int]) -> None:
        """Find out anew which optimizers make up a step; these do for certain."""
        if not self.given:
            self.current = current
            self.is_known = False

    def decide(self) -> None:
        """Decide if forwards count as steps: a model runs again, and no optimizer has stepped."""
        if self.plans or self.given or holders(set().union(*(w.trainable for w in self.watched))):
            self.recorder.forwards = FORWARDS_ARE_NO_STEPS
        else:
            self.recorder.forwards = FORWARDS_ARE_STEPS
            self.recorder.note(NO_OPTIMIZER)
            self._record_settings()
            self._record_states(self._find_states())

    def take_error(self, error: BaseException) -> None:
        """Count an error of our own: it is no business of the program's."""
        self.errors += 1
        if self.error is None:
            self.error = error.with_traceback(None)

    def _close(self) -> None:
        optimizers.leave(self)
        has_one_step = self._first is not None and self._is_changed
        if has_one_step or self._owes_settings:
            self._record_settings()
        if self._first is not None:
            self._search(0)
        self._settings.close()
        self._note_last()
        if self.errors:
            session.warn(
                f"tensortap: {self.errors} errors at optimizer steps, the first: {self.error!r}",
                run=self.recorder,
            )

    def _note_last(self) -> None:
        """Note that the last step has forwards only: they may be an evaluation in training mode."""
        recorder = self.recorder
        last = max((plan.stepped for plan in self.plans.values()), default=-1)
        if not recorder.closed and not recorder.manual and 0 <= last < recorder.current_step:
            recorder.note(f"step {recorder.current_step}, the last, {UNFINISHED}")

    def _look_after_first(self) -> None:
        """Look once the first step is over, and again when optimizers or models change."""
        if self._first is None:
            self._first = self.recorder.current_step
            self._record_random_state()
        elif self._is_changed and self.recorder.current_step > self._first:
            self.warn_of_gaps()

    def _record_random_state(self) -> None:
        """Record a hash of the state of torch's generators, by which ranks are compared."""
        if program.rank_and_size()[1] == 1:
            return
        with suppress(Exception):  # under a mode that makes no real tensors
            state = settings.hash_of_generators()
            self.recorder._log_at(self.recorder.current_step, RANDOM_STATE, state)

    def warn_of_gaps(self) -> None:
        """Warn about globs that match nothing and parameters without an optimizer."""
        if self._is_changed:
            self._record_settings()
        self._is_changed = False
        if hasattr(self.recorder, "check_only"):
            self.recorder.check_only()
        for one in self.watched:
            one.warn_of_unseen()
        states = self._find_states()
        self._record_states(states)
        names = [name for name, state in states if _is_untrained(state)] if self.plans else []
        if names == self._untrained:
            return
        self._untrained = names
        shown = ", ".join(names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        self.recorder.note(f"{shown}{more} {UNTRAINED}" if names else ALL_TRAINED)

    def _record_settings(self) -> None:
        """Record what the program has set, as far as it is new."""
        import torch

        self._owes_settings = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        if self._owes_settings:  # torch would record that a parameter was asked for its size
            return
        record = self._settings.record
        self._record_optimizers()
        for scaler in filter(None, (known() for known in self._scalers)):
            record(partial(settings.of_scaler, scaler))
        record(partial(settings.of_torch, self.recorder.autocast))
        for one in self.watched:
            named = one.named_modules()
            kinds = [] if is_private() else [class_of(module) for _, module in named]
            record(partial(settings.of_parameters, one.parameters(), f"{one.own_prefix}model"))
            self._record_batch(one)
            record(partial(settings.of_modules, named, kinds), partial(settings.of_files, kinds))
        self._settings.is_first = False

    def _record_batch(self, one: Watched) -> None:
        one.batch_size = one.core.batch_size
        self._settings.record(partial(settings.of_batch, one.core, one.own_prefix))
        if not is_private():
            self._settings.record(partial(settings.of_call, one.core, one.own_prefix))

    def _search(self, age: float) -> None:
        """Search for schedulers and DataLoaders, once, if the run is so old: it takes 50 ms."""
        if not self._has_searched and time.monotonic() - self._began >= age:
            self._has_searched = self._settings.is_first = True  # they were there before
            self._settings.record(partial(settings.of_living, self.plans))
            self._settings.is_first = False

    def _record_optimizers(self) -> None:
        names: dict[int, str] = {}
        for one in self.watched:
            names |= dict(zip(one.core.parameter_ids(), one.names, strict=True))
        for optimizer, plan in self.plans.items():
            plan.settings = settings.plain_of(optimizer)
            prefix = f"optimizer{plan.number if plan.number > 1 else ''}"
            self._settings.record(
                partial(settings.of_optimizer, optimizer, prefix, names, plan.before)
            )

    def _find_states(self) -> list[tuple[str, int]]:
        """Find out which parameters require a gradient, have one, and have an optimizer.

        Without any optimizer the program updates them itself, and nobody can know.
        """
        known = set().union(*(plan.ids for plan in self.plans.values()))
        found = [state for one in self.watched for state in one.states(known)]
        if not found:
            return []
        if not known or any(_is_untrained(state) for _, state in found):
            known |= all_held()  # one that has not stepped yet may hold the others
            found = [state for one in self.watched for state in one.states(known)]
        return found if known else []

    def _record_states(self, states: list[tuple[str, int]]) -> None:
        if self.recorder.closed:
            return
        is_all = getattr(self.recorder, "only", "*") == "*"
        for name, state in states:
            if not is_all and not state & IS_SHARDED:  # ... which is never compared over ranks
                continue
            state |= self._states.get(name, 0) & HAS_GRAD  # gradients are dropped between steps
            if self._states.get(name) != state:
                self._states[name] = state
                self.recorder.log(f"tensortap/state/{name}", state)

    # ---- what the optimizers call

    def before_step(self, optimizer: Any) -> None:
        """Begin its step, before the forward in its closure, if it has one."""
        mark = self.recorder._mark()
        try:
            plan = self._plan(optimizer)
            if plan is not None:
                self._begin(optimizer, plan)
        except Exception as error:
            self._sort_out(error)
        finally:
            self.recorder._spend_since(mark)

    def gradients_ready(self, optimizer: Any) -> None:
        """Read everything."""
        mark = self.recorder._mark()
        try:
            plan = self._plan(optimizer)
            if plan is None:
                return
            if plan.stepped != self.recorder.current_step:  # its models have just been found
                self._begin(optimizer, plan)
            self._read(plan, optimizer)
        except Exception as error:
            self._sort_out(error)
        finally:
            self.recorder._spend_since(mark)

    def after_step(self, optimizer: Any) -> None:
        """Find out if this was the last optimizer of the step."""
        mark = self.recorder._mark()
        try:
            plan = self.plans.get(optimizer)
            if plan is None or self.recorder.manual:
                return
            self.recorder._set_over(self._is_over(optimizer, plan))
            if self.box is not None and self.recorder.step_over:
                self.box.step_ended()
        except Exception as error:
            self.take_error(error)
        finally:
            self.recorder._spend_since(mark)

    def _is_over(self, optimizer: Any, plan: Plan) -> bool:
        now = self.recorder.current_step
        if self.is_known and self.current == {id(optimizer)}:  # the usual: there is but one
            return plan.stepped == now
        done = {id(o): p for o, p in self.plans.items() if p.stepped == now}
        if not self.is_known and self._covers(list(done.values())):
            self.is_known = True
            self.current = set(done)
        self.current &= {id(o) for o in self.plans}  # without those that are gone
        return self.is_known and self.current <= done.keys()

    def _covers(self, plans: list[Plan]) -> bool:
        """Return whether no other optimizer holds a parameter that is trained now."""
        now = (one for one in self.watched if one.core.has_run or not one.is_trained)
        needed = (one.trainable.intersection(one.core.parameter_ids()) for one in now)
        missing = set().union(*needed).difference(*(plan.ids for plan in plans))
        return not missing or missing.isdisjoint(all_held())

    def _plan(self, optimizer: Any) -> Plan | None:
        if self.recorder.closed:
            return None
        plan = self.plans.get(optimizer)
        if plan is None:
            other = None if optimizer in self.given else self._others.get(optimizer)
            if other is not None and not other.prepare(optimizer, self.watched):
                return None
            taken = {p.number for p in self.plans.values()}
            number = next(n for n in itertools.count(1) if n not in taken)
            plan = Plan(number, f"{type(optimizer).__name__}{number}:" if number > 1 else "")
        is_changed = plan.prepare(optimizer, self.watched)
        if not plan.parts and optimizer not in self.given:
            self._others[optimizer] = plan
            return None
        self._is_changed |= is_changed
        self.plans[optimizer] = plan
        self.recorder.forwards = FORWARDS_ARE_NO_STEPS
        return plan

    def _begin(self, optimizer: Any, plan: Plan) -> None:
        """End the step before, if this optimizer has already stepped in it."""
        self.recorder._train()
        now = self.recorder.current_step
        if plan.stepped == now and not self.recorder.manual:
            if not self.given:  # one round has been seen: these make up a step
                self.current = {id(o) for o, p in self.plans.items() if p.stepped == now}
                self.is_known = True
            self.recorder._next_step()
            now += 1
        elif plan.stepped < 0 or id(optimizer) not in self.current:  # one that is new here
            self._learn({id(o) for o, p in self.plans.items() if p.stepped == now})
        if plan.stepped < 0:
            plan.before = settings.steps_of(optimizer) - now
        plan.stepped = now
        if not self.given:
            self.current.add(id(optimizer))
        self._look_after_first()

    def _sort_out(self, error: Exception) -> None:
        """Raise what on_nonfinite or a rule of health raised, keep the rest from the program."""
        is_from_rule = self.guard is not None and self.guard.raised is error
        if is_from_rule or any(one.raised is error for one in self.watched):
            raise error
        self.take_error(error)

    def _read(self, plan: Plan, optimizer: Any) -> None:
        recorder = self.recorder
        if recorder.closed:
            return
        scaler = stepping_scaler()
        is_scaled = scaler is not None
        self._know_scaler(scaler)
        if plan.parts:
            wants_norm = plan.parts[0][0].core.wants(plan.prefix + "gradient_norm")
            norms: list[float] = []
            for one, which in plan.parts:
                one.is_trained = True
                one.core.scaled = is_scaled
                one.core.changed = one.core.clipped = False
                with one.batch.together():
                    norm = one.core.read_parameters(which, wants_norm and one.has_gradients)
                    if which is not None and not one.is_frozen_read:
                        self._read_frozen(one)
                    one.core.read_buffers()
                norms += [] if norm is None else [norm]
                one.fetch(waits=one.on_nonfinite not in (None, "warn"))
            is_clipped = any(one.core.clipped for one, _ in plan.parts)
            name = "gradient_norm (clipped)" if is_clipped else "gradient_norm"
            watched = [one for one, _ in plan.parts]
            self._norms.append((recorder.current_step, plan.prefix + name, norms, watched))
            self.record_norms()
            if is_clipped and not is_scaled and all(map(math.isfinite, norms)):
                self._can_note = not self._notes
                self._note(self._can_note)
            self._is_clipping = self._can_note and any(one.core.changed for one, _ in plan.parts)
        self._reads += 1
        if self._reads & (self._reads - 1) == 0:  # 1, 2, 4, 8, ...
            self._search(SEARCH_AGE)
            # A scaler may skip steps: then gradients are looked at when they are accumulated, which
            # costs as much as their statistics.  Without one, a skipped step turns this on.
            self._note(is_scaled or self._is_clipping)
        if plan.settings and plan.settings != settings.plain_of(optimizer):
            self._record_optimizers()
        for one, _ in plan.parts:
            if one.batch_size not in (0, one.core.batch_size):
                self._record_batch(one)
        for name, group in zip(plan.rates, optimizer.param_groups, strict=True):
            if "lr" in group and all(one.core.wants(name) for one in self.watched[:1]):
                recorder.log(name, float(group["lr"]))
        name = plan.prefix + "loss_scale"
        if scaler is not None and all(one.core.wants(name) for one in self.watched[:1]):
            recorder.log(name, scaler.get_scale())  # step() has just waited for the device
        if self.box is not None:
            self.box.before_update(optimizer)
        if self.guard is not None:
            self.guard.check()

    def _know_scaler(self, scaler: Any) -> None:
        if scaler is not None and all(known() is not scaler for known in self._scalers):
            self._scalers.append(ref(scaler))

    def unscale(self, loss: Any) -> Any:
        """Return a loss as it was before GradScaler.scale(), or the same if none scales losses.

        With several scalers it is not known which one it was: the loss stays scaled.
        """
        import torch

        if not self._has_searched_scalers:  # the first loss comes before the first step
            self._has_searched_scalers = True
            for scaler in living(torch.amp.GradScaler):
                self._know_scaler(scaler if scaler.is_enabled() else None)
        scalers = [one for known in self._scalers if (one := known()) is not None]
        scale = scale_tensor_of(scalers[0]) if len(scalers) == 1 else None
        if scale is None:
            return loss
        with torch.no_grad():
            return loss.detach() / scale.to(loss.device)

    def record_norms(self) -> None:
        """Record the norms of the steps whose gradients have been read, also those on devices."""
        waiting, self._norms = self._norms, []
        for step, name, norms, watched in waiting:
            if any(one.fetched < step for one in watched):
                self._norms.append((step, name, norms, watched))
                continue
            norms = norms + [norm for one in watched for norm in one.norms.pop(step, [])]
            if norms and not self.recorder.closed:
                self.recorder._log_at(step, name, math.hypot(*norms))

    def _note(self, all_of_them: bool) -> None:
        self._notes = all_of_them
        for one in self.watched:
            one.note(all_of_them)

    def _read_frozen(self, one: Watched) -> None:
        """Record once what is not trained."""
        one.is_frozen_read = True
        ids = one.core.parameter_ids()
        frozen = [i for i, at in enumerate(ids) if at not in one.trainable]
        one.core.read_parameters(array("i", frozen).tobytes(), False)


def _is_untrained(state: int) -> bool:
    return state & (REQUIRES_GRAD | IS_OPTIMIZED) == REQUIRES_GRAD
