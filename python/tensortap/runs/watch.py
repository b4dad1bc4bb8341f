"""Record what the modules of a model do: outputs, parameters, gradients.

    with tt.record("runs/today"):
        tt.watch(model)
        train(model)

This part only chooses modules, parameters and their names; everything that
happens during a step is in C (`_core.Watch`).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from tensortap import _core
from tensortap.compiled.hooks import unseen
from tensortap.compiled.module_call import what_hides_modules
from tensortap.devices import statistics
from tensortap.devices.ring import Result
from tensortap.display import session
from tensortap.files.locks import make_lock
from tensortap.models.modules import (
    ROOT,
    RUN_EAGERLY,
    can_run,
    class_of,
    module_name,
    tensors_of,
    unwrapped,
    walk,
)
from tensortap.private.autograd import LOSS
from tensortap.private.meshes import gathered, offloads_gradients
from tensortap.private.modules import buffers_of, parameters_of, wrapper_of
from tensortap.private.shards import is_sharded
from tensortap.runs import process, program
from tensortap.runs.places import Places, keeps_own_statistics
from tensortap.runs.steps import HAS_GRAD, IS_OPTIMIZED, IS_SHARDED, REQUIRES_GRAD, Steps
from tensortap.runs.tokens import TokenLog

if TYPE_CHECKING:
    import torch

Grads = Literal["parameters", "activations", "all"] | None
OnNonFinite = Literal["warn", "raise"] | Callable[["NonFiniteError"], object] | None

MAX_NAMES = 20  # in a note
COMPILED_AGAIN = (
    "torch.compile had compiled this code before the model was watched: it was compiled again, "
    "once, so that its modules are seen"
)

OFFLOADED = (
    "FSDP offloads gradients to the CPU: they are read when the optimizer steps, as they are then "
    "(clipped, if the program clips them)"
)
FLAT = (
    "parameters of FullyShardedDataParallel are parts of flat ones: which part of a parameter a "
    "rank has is not known"
)
OWN_STATISTICS = (
    "each rank has its own running statistics of batch norms: nothing is wrong with that, and they "
    "are not compared; torch.nn.SyncBatchNorm shares them"
)
MAIN_GRAD = "gradients that are kept in main_grad (Megatron) are not seen"
EMPTY = "parameters that ZeRO-3 keeps elsewhere between calls (DeepSpeed) are not seen"


class NonFiniteError(ArithmeticError):
    """A tensor of a watched model holds NaN or Inf; raised if `on_nonfinite="raise"`.

    Attributes:
        name: Name of the tensor, such as `activation/fc`.
        step: The step.
        call: Number of the call of the module in this step.
        nan: Number of NaN.
        posinf: Number of positive infinities.
        neginf: Number of negative infinities.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Linear(2, 1)
        >>> with tt.record("runs/bad", model=model, on_nonfinite="raise"):
        ...     try:
        ...         _ = model(torch.tensor([[1.0, float("nan")]]))
        ...     except tt.NonFiniteError as error:
        ...         print(error.name, error.nan)
        activation/(root) 1
    """

    __module__ = "tensortap"  # where users find it

    def __init__(self, name: str, step: int, call: int, nan: int, posinf: int, neginf: int) -> None:
        counts = ((nan, "NaN"), (posinf, "Inf"), (neginf, "-Inf"))
        found = ", ".join(f"{count} {what}" for count, what in counts if count)
        again = f", call {call}" if call else ""
        super().__init__(f"{found} in {name} at step {step}{again}")
        self.name, self.step, self.call = name, step, call
        self.nan, self.posinf, self.neginf = nan, posinf, neginf

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what it was made from."""
        counts = (self.nan, self.posinf, self.neginf)
        return type(self), (self.name, self.step, self.call, *counts)


_hooks_lock = make_lock()


class Hook:
    """The post-accumulate hook of one parameter, which may be there or not."""

    def __init__(self, parameter: ref[Any], index: int) -> None:
        self.parameter, self.index = parameter, index
        self.handle: Any = None

    def put(self, watched: Watched) -> None:
        """Install the hook if it is missing, unless another thread has removed the watch."""
        parameter = self.parameter()
        with _hooks_lock:  # torch makes the dict of a parameter's hooks with the first of them
            if self.handle is None and parameter is not None and not watched.is_removed:
                hook = watched.core.parameter_hook(self.index)
                self.handle = parameter.register_post_accumulate_grad_hook(hook)

    def remove(self) -> None:
        """See that it is not there.

        The dict of hooks stays, empty: another thread's backward may be reading it.
        """
        with _hooks_lock:
            handle, self.handle = self.handle, None
            if handle is not None:
                handle.remove()


class Watched:
    """A model that is being watched; `tt.watch` returns it, and `remove()` ends it.

    Args:
        recorder: The run to record into.
        model: The model.
        name, inputs, grads, on_nonfinite, allow, optimizer: As for `tt.watch`.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Linear(2, 1)
        >>> with tt.record("runs/removed") as run:
        ...     watched = tt.watch(model)
        ...     watched.remove()
        ...     _ = model(torch.ones(1, 2))
        >>> tt.open("runs/removed").names("activation/*")
        []
    """

    def __init__(
        self,
        recorder: _core.Recorder,
        model: torch.nn.Module,
        *,
        name: str | None = None,
        inputs: bool = False,
        grads: Grads = "parameters",
        on_nonfinite: OnNonFinite = None,
        allow: str | None = None,
        optimizer: Any = None,
    ) -> None:
        """Put a consumer on every module of the model, and hooks on its parameters."""
        _check(model, grads, on_nonfinite, optimizer)
        self.recorder = recorder
        self.on_nonfinite = on_nonfinite
        self.raised: BaseException | None = None  # by on_nonfinite: the program's to see
        self._is_unseen_warned = False
        self._told_step: int | None = None
        self._first_step = recorder.current_step
        self._masked: dict[str, NonFiniteError] = {}  # the first -Inf of what may be a mask
        self.is_removed = False
        self.is_frozen_read = False  # parameters that no optimizer trains
        self.batch_size = 0  # as recorded
        self.is_trained = False  # an optimizer has stepped some of its parameters
        self._hooks: list[Hook] = []
        self.norms: dict[int, list[float]] = {}  # step -> of gradients that lie on devices
        self._replays: dict[int, tuple[int, int]] = {}  # site -> step, calls in replays of a graph
        self.fetched = -1  # the last step of which everything has been read from the devices
        LOSS.works()  # else a note says that it is not seen
        self.steps = Steps.of(recorder)
        self.box = self.steps.box
        self.core = _core.Watch(
            recorder,
            inputs=inputs,
            activation_gradients=grads in ("activations", "all"),
            on_nonfinite=unseen(self._tell, is_traced=False) if on_nonfinite or self.box else None,
            on_device=unseen(self._compute, is_traced=False),
            on_skip=unseen(self.note, is_traced=False),
            on_again=unseen(self.steps.decide, is_traced=False),
            on_loss=unseen(self.box.loss_seen, is_traced=False) if self.box else None,
            allow=allow if allow is not None else getattr(recorder, "allow", None),
            unscale=unseen(self.steps.unscale, is_traced=False),
        )
        self.kind = type(unwrapped(model)).__name__
        parameters = list(tensors_of(walk(model)))
        self.is_named = bool(name)  # by the user
        self.own_prefix = self.prefix = f"{name}:" if name else self._prefix()
        self.paths = {
            path for path, m, is_called in walk(model) if path and is_called and can_run(m)
        }
        self.paths.update(path for path, _, _ in parameters)
        if (whole := self._find_whole()) is not None:
            self.prefix = whole.prefix
        prefix = self.prefix
        for path, module, is_called in walk(model):
            self._add(module, self._name(path), is_called and can_run(module))
        parameters = [(prefix + path, module, key) for path, module, key in parameters]
        self.core.set_parameters(parameters)
        buffers = [
            (prefix + path, module, key)
            for path, module, key in tensors_of(walk(model), buffers_of)
            if buffers_of(module)[key].is_floating_point()
        ]
        self.core.set_buffers(buffers)
        if program.rank_and_size()[1] > 1:
            named = [(self._name(path), module) for path, module, _ in walk(model)]
            tensors = [name for name, _, _ in (*parameters, *buffers)]
            Places.of(recorder).add(model, named, tensors)
            if any(keeps_own_statistics(module) for _, module, _ in buffers):
                recorder.note(OWN_STATISTICS)
        self._model = ref(model)
        self._notes: set[str] = set()  # those that were written
        self.has_gradients = self.core.gradients = grads in ("parameters", "all")
        wrappers = {wrapper_of(module) for module in model.modules()}
        self._is_ddp = "DistributedDataParallel" in wrappers
        self._is_fsdp = "FullyShardedDataParallel" in wrappers  # its parts are plain tensors
        self.names = [name for name, _, _ in parameters]
        self.batch = statistics.Batch(sites=sum(1 for _ in model.modules()) + 2 * len(parameters))
        self._refs: list[ref[Any] | None] = []  # of the parameters
        self.trainable: set[int] = set()  # ids of parameters
        kept = gathered(model)
        for i, (_, module, key) in enumerate(parameters):
            parameter = parameters_of(module)[key]
            parameter = kept.get(id(parameter), parameter)
            self._refs.append(None if parameter is None else ref(parameter))
            if parameter is not None and parameter.requires_grad:
                self.trainable.add(id(parameter))
                if self.has_gradients or not self._hooks:  # the first sees the loss
                    self._hooks.append(Hook(ref(parameter), i))
        self.steps.add(self, optimizer)
        keeps_tokens = getattr(recorder, "keeps_tokens", False)
        self._tokens = TokenLog(recorder, model, prefix) if keeps_tokens else None
        if self.box is not None:
            root = next(module for _, module, is_called in walk(model) if is_called)
            self.box.add(model, prefix, root)
        recorder.watchers.append(self)

    def named_modules(self) -> list[tuple[str, Any]]:
        """Return the modules by the paths that the run has for them."""
        model = self._model()
        return [] if model is None else [(self._name(path), m) for path, m, _ in walk(model)]

    def parameters(self) -> list[Any]:
        """Return its parameters that are still there."""
        known = (one() for one in self._refs if one is not None)
        return [one for one in known if one is not None]

    @classmethod
    def of_nothing(cls) -> Watched:
        """Return what a rank that does not record gets: it has ended already."""
        watched = cls.__new__(cls)
        watched.is_removed = True
        return watched

    def _prefix(self) -> str:
        """Name the model by its class, and by a number too if that is taken; the first has none."""
        others = [w.kind for w in self.recorder.watchers if isinstance(w, Watched)]
        same = others.count(self.kind)
        return f"{self.kind}{same + 1 if same else ''}:" if others else ""

    def _find_whole(self) -> Watched | None:
        """Return the first of the models that are parts of one with this: stages of a pipeline.

        They have one class and, below the root, no name in common.
        """
        others = (w for w in self.recorder.watchers if isinstance(w, Watched) and not w.is_named)
        parts = [] if self.is_named else [w for w in others if w.kind == self.kind]
        is_part = parts and self.paths and all(self.paths.isdisjoint(w.paths) for w in parts)
        return parts[0] if is_part else None

    def _name(self, path: str) -> str:
        """Return the name that the run has for the module at this path."""
        return self.prefix + path if path else self.own_prefix + ROOT

    def _add(self, module: torch.nn.Module, name: str, is_called: bool) -> None:
        """Watch the calls of a module, and record its class, once in a run."""
        if is_called:
            self.core.add(module, name)
        kind = class_of(module).__name__
        if self.steps.classes.get(name) != kind:
            self.steps.classes[name] = kind
            with suppress(ValueError):  # no text that UTF-8 can hold, or very long
                self.recorder.module(name, kind)

    def _tell(
        self, name: str, step: int, call: int, nan: int, posinf: int, neginf: int, is_mask: bool
    ) -> None:
        """Pass it to the black box, and do what on_nonfinite asks, where the tensor was seen."""
        error = NonFiniteError(name, step, call, nan, posinf, neginf)
        kind, _, path = name.partition("/")
        of_class = self.steps.classes.get(module_name(path, self.steps.classes))
        if _core._value_is_masked(name, of_class, nan, posinf, neginf):
            if kind == "activation" and not is_mask:
                self._masked.setdefault(name, error)
            return
        error = self._cause_of(error)
        if self.box is not None:
            self.box.not_finite(error.name, step, error.nan, error.posinf, error.neginf)
        if self.on_nonfinite is None:
            return
        try:
            if self.on_nonfinite == "raise":
                raise error
            if callable(self.on_nonfinite):
                if self._told_step != step:
                    self._told_step = step
                    self.on_nonfinite(error)
            elif self._told_step is None:  # the first says it all
                self._told_step = step
                session.warn(f"tensortap: {error}", run=self.recorder)
        except BaseException as raised:
            self.raised = raised
            raise

    def _cause_of(self, error: NonFiniteError) -> NonFiniteError:
        """Return the -Inf that a module made before it in its step, and never before."""
        is_first = error.step == self._first_step  # nobody knows what is usual
        new = (one for one in self._masked.values() if one.step == error.step and not is_first)
        return next(new, error)

    def note(self, all_of_them: bool = True) -> None:
        """Look at every gradient when it is accumulated, or only notice that they were.

        Whether a DTensor has changed since is not counted: a few elements of each are kept.
        """
        self.core.notes = all_of_them
        self.core.reduced = self._is_reduced()
        needs_all = (all_of_them or self._has_dtensors()) and not self._is_offloaded()
        for i, hook in enumerate(self._hooks):
            if i == 0 or needs_all:
                hook.put(self)
            else:
                hook.remove()

    def _is_reduced(self) -> bool:
        """Return whether gradients are averaged over ranks in place once they are accumulated."""
        if self._is_ddp or program.rank_and_size()[1] == 1:
            return self._is_ddp
        return not self._has_dtensors()  # FSDP did so before

    def _is_offloaded(self) -> bool:
        """Return whether hooks on gradients would make their copies to the CPU block."""
        model = self._model()
        is_offloaded = bool(model is not None and offloads_gradients(model))
        if is_offloaded and self.has_gradients:
            self._say_once(OFFLOADED)
        return is_offloaded

    def _has_dtensors(self) -> bool:
        parameters = (known() for known in self._refs if known is not None)
        return any(map(is_sharded, parameters))

    def _is_sharded(self, parameter: Any) -> bool:
        """Return whether this rank may have only a part of it; a DTensor counts as one."""
        is_split = self._is_fsdp or is_sharded(parameter)
        return is_split and program.rank_and_size()[1] > 1

    def end_step(self) -> None:
        """Record what belongs to the step and has not been recorded yet."""
        self.fetch(waits=self.is_removed)
        self.core.end_step()

    def states(self, held: set[int]) -> list[tuple[str, int]]:
        """Return the name of each parameter, and what the rules of health want to know of it."""
        found = []
        for name, at, known in zip(self.names, self.core.parameter_ids(), self._refs, strict=True):
            parameter = known() if known is not None else None
            if parameter is None or id(parameter) != at:  # it is no longer the model's
                continue
            state = REQUIRES_GRAD if parameter.requires_grad else 0
            state |= IS_OPTIMIZED if at in held else 0
            state |= HAS_GRAD if parameter.grad is not None else 0
            is_part = self.core.pipelined or self._is_sharded(parameter)
            state |= IS_SHARDED if is_part else 0  # in a pipeline, others have other layers
            found.append((name, state))
            for note in self._what_is_kept_elsewhere(parameter):
                self._say_once(note)
        return found

    def _say_once(self, note: str) -> None:
        if note not in self._notes and not self.recorder.closed:
            self._notes.add(note)
            self.recorder.note(note)

    def _what_is_kept_elsewhere(self, parameter: Any) -> Iterator[str]:
        """Yield notes about contents that others keep in their own places."""
        if self._is_fsdp:
            yield FLAT
        if parameter.grad is None and getattr(parameter, "main_grad", None) is not None:
            yield MAIN_GRAD
        # Not numel(): torch.jit.trace would record it.
        if hasattr(parameter, "ds_id") and parameter.untyped_storage().nbytes() == 0:
            yield EMPTY

    def fetch(self, *, waits: bool) -> None:
        """Record what was computed on devices; without *waits* only what has arrived."""
        now = self.recorder.current_step
        statistics.deliver(waits=waits, step=now)
        for result in self.batch.fetch(waits=waits, step=now):
            self._take(result.tag, result)
        self.fetched = now if waits or len(self.batch) == 0 else now - 1

    def _take(self, tag: tuple[Any, ...], result: Result) -> None:
        """Record what a device has computed."""
        if result.step is not None:  # a captured graph was replayed; the tag is that of its capture
            site, _, _, thread, phase, _, *rest = tag
            step = result.step if result.step >= 0 else self.recorder.current_step
            last, calls = self._replays.get(site, (step, 0))
            call = calls if last == step else 0
            self._replays[site] = (step, call + 1)
            tag = (site, step, call, thread, phase, 0, *rest)  # 0: now
        _, step, *_, is_for_norm = tag
        if is_for_norm:
            self.norms.setdefault(step, []).append(_norm(result.stats))
        self.core.add_stats(tag, result.stats, result.cost, result.histogram)

    def _compute(self, tensor: torch.Tensor | int, tag: Any, wants_histogram: bool) -> None:
        """Start the statistics of a tensor on its device, unless a probe has: then a number."""
        if isinstance(tensor, int):
            statistics.call_with(tensor, partial(self._take, tag))
            return
        self.batch.add(tensor, tag, wants_histogram=wants_histogram)
        if len(self.batch) >= statistics.MOST_WAITING:  # no step ever ends: an evaluation
            self.fetch(waits=False)

    def remove(self) -> None:
        """Stop watching; the model is as it was before."""
        if self.is_removed:
            return
        self.is_removed = True
        for hook in self._hooks:
            hook.remove()
        if self._tokens is not None:
            self._tokens.close()
        self._report()
        self.core.off = True
        self.core.remove()
        if self in self.recorder.watchers:
            self.recorder.watchers.remove(self)
        self.steps.drop(self)

    _close = remove

    def _report(self) -> None:
        """Warn of what could not be seen, once."""
        try:
            self.end_step()
            self.steps.record_norms()
        except Exception as error:
            if error is not self.raised:
                self.steps.take_error(error)
        self.warn_of_unseen()
        if not self.recorder.closed:
            if self.core.unseen():
                self.recorder.note(self._name_unseen())
            if self.core.compiled_again:
                self.recorder.note(COMPILED_AGAIN)
            for why, count in self.core.unread.items():
                self.recorder.note(f"{count} tensors could not be read: {why}")
        if self.core.errors:
            session.warn(
                f"tensortap: {self.core.errors} errors while watching, first: {self.core.error!r}",
                run=self.recorder,
            )

    def warn_of_unseen(self) -> None:
        """Warn once of modules that were not seen, where this torch hides those it compiles."""
        why = what_hides_modules() if self.core.unseen() and not self._is_unseen_warned else None
        if why is not None:
            self._is_unseen_warned = True
            text = f"tensortap: {self._name_unseen()}. {why}; {RUN_EAGERLY}"
            session.warn(text, run=self.recorder)

    def _name_unseen(self) -> str:
        unseen = self.core.unseen()
        names = ", ".join(unseen[:MAX_NAMES]) + (", ..." if len(unseen) > MAX_NAMES else "")
        return f"{len(unseen)} modules were not seen (never called, or compiled): {names}"

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def watch(
    model: torch.nn.Module,
    *,
    name: str | None = None,
    inputs: bool = False,
    grads: Grads = "parameters",
    on_nonfinite: OnNonFinite = None,
    allow: str | None = None,
    optimizer: Any = None,
    run: _core.Recorder | None = None,
) -> Watched:
    """Record every module's output, and every parameter and gradient, until the run ends.

    Args:
        model: The model to watch.
        name: Put before the names of its tensors, with a colon. Needed for several models.
        inputs: Record the inputs of each module too.
        grads: Gradients to record: "parameters", "activations" (of every output), "all" or None.
        on_nonfinite: What to do at a NaN or Inf: "warn", "raise" (a NonFiniteError), or a function
            that gets that error. Gradients are checked when the optimizer is about to step. Masks
            filled with -inf are none, nor are names that the run excludes.
        allow: A glob of names that may hold NaN or Inf. Defaults to that of the run.
        optimizer: One or several whose steps count. Defaults to all that update these parameters.
        run: The run to record into. Defaults to the open one.

    Returns:
        The watched model; its `remove()` stops watching.

    Raises:
        RuntimeError: No run is open.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Linear(2, 1)
        >>> with tt.record("runs/watched"):
        ...     _ = tt.watch(model)
        ...     _ = model(torch.ones(1, 2))
        >>> tt.open("runs/watched").names("activation/*")
        ['activation/(root)']
    """
    run = run if run is not None else process.needed_run()
    if getattr(run, "is_idle", False):
        _check(model, grads, on_nonfinite, optimizer)
        return Watched.of_nothing()
    return Watched(
        run,
        model,
        name=name,
        inputs=inputs,
        grads=grads,
        on_nonfinite=on_nonfinite,
        allow=allow,
        optimizer=optimizer,
    )


def _norm(stats: _core.Stats) -> float:
    if stats.nan:
        return math.nan
    return math.inf if stats.posinf or stats.neginf else stats.l2


def _check(model: object, grads: object, on_nonfinite: object, optimizer: object) -> None:
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if grads not in ("parameters", "activations", "all", None):
        raise ValueError(f"grads must be 'parameters', 'activations', 'all' or None, not {grads!r}")
    if on_nonfinite not in ("warn", "raise", None) and not callable(on_nonfinite):
        raise ValueError(
            f"on_nonfinite must be 'warn', 'raise', a function or None, not {on_nonfinite!r}"
        )
    for one in optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]:
        if one is not None and not hasattr(one, "param_groups"):
            raise TypeError(
                f"optimizer must be a torch.optim.Optimizer, a list of them or None, not {one!r}"
            )
