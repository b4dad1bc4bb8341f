"""ModelTracer: keeps the variables of a model that paths lead to.

    with ModelTracer(model, ["forward", "layers.*.forward.attn"]) as tracer:
        train()

What runs while the model runs is in C (`_core.PathTracer`); this file is called with a
value that must be kept, and at the end of an iteration after which ranks gather.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

import numpy as np
import torch

from tensortap import _core
from tensortap.compiled.hooks import unseen
from tensortap.compiled.module_call import what_hides_modules
from tensortap.display import session
from tensortap.files.locks import make_lock
from tensortap.models.modules import RUN_EAGERLY, is_in_graph
from tensortap.runs import process
from tensortap.trace import callbacks
from tensortap.trace.gather import Batch, Exchange, join_batches, place
from tensortap.trace.kept_copy import CannotKeepError, copy_value
from tensortap.trace.path_matcher import PathMatcher, is_hidden, self_of
from tensortap.trace.results import GlobalVariableResult, LocalVariableResult, TraceResults
from tensortap.trace.variable import KEEPS, Keep, Variable, checked_count

MODE_NUMBERS = {None: 0, "train": 1, "eval": 2}  # as trace_mode in trace/engine.h
MOST_NAMES = 10  # in a warning


class ModelTracer:
    """Trace variables of a model by path, while it is entered as a context manager.

    The options apply to paths; a `Variable` has its own.

    Args:
        model: The model.
        variables: Paths such as "layers.*.forward.attn", a `Variable`, or a list of these.
        trace_interval: Trace every n-th forward.
        gathering_interval: Gather every n-th traced forward.
        pre_save_callbacks: Called with each value before it is kept.
        pre_gather_callbacks: Called with the results of this rank before they are gathered.
        post_gather_callbacks: Called on rank 0 with the gathered results.
        post_trace_callbacks: Called on rank 0 when tracing ends.
        eval_only: Trace only in evaluation.
        train_only: Trace only in training.
        keep: Which values to keep: "changed", "content" (compares contents) or "always".
        gather: Gather on rank 0; if False, each rank keeps its own results.

    Example:
        >>> import torch
        >>> from tensortap.trace import ModelTracer
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1))
        >>> with ModelTracer(model, "0") as tracer:
        ...     _ = model(torch.ones(1, 2))
        >>> tracer.results["0"].values[0].shape
        torch.Size([1, 1])
    """

    model: torch.nn.Module  # without its wrappers

    def __init__(
        self,
        model: torch.nn.Module,
        variables: str | Variable | Iterable[str | Variable],
        trace_interval: int = 1,
        gathering_interval: int = 1,
        pre_save_callbacks: Any = (),
        pre_gather_callbacks: Any = (),
        post_gather_callbacks: Any = (),
        post_trace_callbacks: Any = (),
        eval_only: bool = False,
        train_only: bool = False,
        *,
        keep: Keep = "changed",
        gather: bool = True,
    ) -> None:
        """Check the options; tracing begins when it is entered."""
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
        if eval_only and train_only:
            raise ValueError("eval_only and train_only exclude each other: set one, or none")
        if not isinstance(variables, Iterable | Variable):
            raise TypeError(
                f"variables must be paths like 'layers.*' or Variables, not {variables!r}"
            )
        self.variables: list[Any] = (
            [variables] if isinstance(variables, str | Variable) else list(variables)
        )
        self._groups = [one for one in self.variables if isinstance(one, Variable)]
        paths = [one for one in self.variables if not isinstance(one, Variable)]
        lists = (
            pre_save_callbacks,
            pre_gather_callbacks,
            post_gather_callbacks,
            post_trace_callbacks,
        )
        if paths or not self._groups:
            every = checked_count("gathering_interval", gathering_interval)
            group = Variable(paths, trace_interval, every, *lists, keep=keep)
            group.mode = "eval" if eval_only else "train" if train_only else None
            group._with_lists = True
            self._groups.append(group)
        elif (trace_interval, gathering_interval, keep) != (1, 1, "changed") or any(lists):
            raise ValueError(
                "intervals, keep and callbacks of the tracer are for paths; "
                "give each Variable its own"
            )
        self._given = model
        self.model = PathMatcher(model).root
        self.is_gathering = bool(gather)
        self.rank, self._world = place()
        self._engine: _core.PathTracer | None = None
        self._counts = (0, 0, 0)
        self._gathering = make_lock()  # one thread at a time

    # ---- what users ask for

    @property
    def results(self) -> TraceResults:
        """Return what was gathered, by name; empty on ranks other than 0."""
        if len(self._groups) == 1:
            return self._groups[0].results
        merged = TraceResults()
        for group in self._groups:
            for name, result in group.results.items():
                is_shared = sum(name in other.results for other in self._groups) > 1
                merged.add(name, result.copy() if is_shared else result)
        return merged

    @property
    def current_iteration(self) -> int:
        """Count the forward calls so far."""
        return self._iterations()[0]

    @property
    def current_training_iteration(self) -> int:
        """Count those in training mode."""
        return self._iterations()[1]

    @property
    def current_evaluation_iteration(self) -> int:
        """Count those in evaluation mode."""
        return self._iterations()[2]

    def _iterations(self) -> tuple[int, int, int]:
        if self._engine is not None:
            engine = self._engine
            self._counts = (engine.iteration, engine.training, engine.evaluation)
        return self._counts

    # ---- begin and end

    def __enter__(self) -> Self:
        if self._engine is not None:
            raise RuntimeError("this tracer is open already; make another one to nest them")
        self.rank, self._world = place()
        for group in self._groups:
            group._reset()
        self._copies: dict[Any, Any] = {}  # of the iteration
        self._is_run_warned = False
        self._unkept: dict[str, tuple[str, int]] = {}  # name -> why not, how often
        matcher = PathMatcher(self._given)
        for number, group in enumerate(self._groups):
            for path in group.paths:
                matcher.add(path, number)
        self._matcher = matcher
        engine = _core.PathTracer(
            unseen(self._keep, is_traced=False),
            unseen(self._gather, is_traced=False),
            self._lists,
            self._copies,
            [
                (
                    MODE_NUMBERS[group.mode],
                    KEEPS.index(group.keep),
                    group.trace_interval,
                    group.gather_interval,
                    not group.pre_save_callbacks,
                )
                for group in self._groups
            ],
            len(matcher.paths),
            matcher.is_wide,
        )
        try:
            for one in matcher.listened.values():
                engine.add_module(one.module, one.name, one.is_root, list(one.targets))
            for (code, module), spots in matcher.places.items():
                engine.add_method(code, module, *self_of(code), is_hidden(code), list(spots))
            self._exchange = (
                Exchange(self.rank, self._world) if self.is_gathering and self._world > 1 else None
            )
            self._engine = engine
            engine.start(self.model.training)
        except BaseException:
            engine.stop()
            self._engine = None
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        engine = self._engine
        if engine is None:
            return
        engine.stop()
        self._iterations()
        self._engine = None
        self._copies.clear()
        if error is None:
            self._finish()
            self._warn(engine)
            return
        try:  # what was traced is kept, as far as no other rank is needed for it
            if self._exchange is not None:
                self._exchange.leave(error)
            else:
                self._finish()
        except Exception as second:
            session.warn(f"tensortap: while ending the trace: {second}")

    def _finish(self) -> None:
        every = list(range(len(self._groups)))
        jobs: list[Callable[[], None]] = [partial(self._gather, every, is_final=True)]
        if self.rank == 0 or self._exchange is None:
            jobs.append(self._post_trace)
        _run_all(jobs)

    # ---- while the model runs

    def _keep(self, number: int, name: str, value: Any, iteration: int, is_forced: bool) -> None:
        """Keep a value that is not the last one of its name."""
        group = self._groups[number]
        if self._engine is None:  # another thread has ended the trace meanwhile
            return
        try:
            shared = None if group.pre_save_callbacks else self._copies
            copied = copy_value(value, shared, is_forced=is_forced)
        except CannotKeepError as error:
            why, times = self._unkept.get(name, (str(error), 0))
            self._unkept[name] = (why, times + 1)
            return
        copied = callbacks.pre_save(group.pre_save_callbacks, name, copied, iteration)
        local = group._local_of(name)
        local.iterations.append(iteration)
        local.values.append(copied)
        self._record(name, copied)

    def _record(self, name: str, value: Any) -> None:
        """Write a value to the open run, if there is one: tensors whole, numbers as points."""
        run, site = process.open_run(), f"trace/{name}"
        if run is None:
            return
        try:
            if isinstance(value, (torch.Tensor, np.ndarray)):
                run.tensor(site, value, keep="stats|value")
            elif isinstance(value, (bool, int, float, np.generic)):
                run.log(site, float(value))
        except Exception as error:
            if not self._is_run_warned:
                self._is_run_warned = True
                session.warn(f"tensortap: {name} is not in the run: {error}")

    def _lists(self, number: int, name: str) -> tuple[list[int], list[Any]]:
        """Return the lists that values of this name are appended to until the next gather."""
        local = self._groups[number]._local_of(name)
        return local.iterations, local.values

    def _gather(self, numbers: list[int], is_final: bool = False) -> None:
        """Collect what these groups have, from all ranks."""
        with self._gathering:
            if self._engine is not None:
                self._engine.forget_lists()
            elif not is_final:  # another thread has ended the trace: it takes in the rest
                return
            self._exchange_all(numbers, is_final)

    def _exchange_all(self, numbers: list[int], is_final: bool) -> None:
        local: list[Batch] = []
        for number in numbers:
            for name, result in self._groups[number]._take().items():
                self._call("pre_gather", number, name, result)
                local.append((number, name, result))
        if self._exchange is None:
            self._add([(self.rank, local)])
            return
        for batches in self._exchange.run(local, is_final):
            self._add(batches)

    def _add(self, batches: list[tuple[int, list[Batch]]]) -> None:
        """Add what ranks have sent to the results."""

        def add(number: int, name: str, result: GlobalVariableResult) -> None:
            self._call("post_gather", number, name, result)
            self._groups[number].results.add(name, result.copy())  # a callback may hold its lists

        _run_all(partial(add, *key, result) for key, result in join_batches(batches).items())

    def _post_trace(self) -> None:
        _run_all(
            partial(self._call, "post_trace", number, name, result)
            for number, group in enumerate(self._groups)
            for name, result in group.results.items()
        )

    def _call(
        self, kind: str, number: int, name: str, result: GlobalVariableResult | LocalVariableResult
    ) -> None:
        """Call the callbacks of one kind with a result."""
        group = self._groups[number]
        callbacks.run(kind, getattr(group, f"{kind}_callbacks"), name, result, group._with_lists)

    # ---- what was not seen

    def _compiled_part(self) -> str | None:
        """Return the name of a module that torch.compile runs; None if there is none."""
        if self._matcher.compiled:
            return self._matcher.compiled[0]
        return next((name for name, m in self.model.named_modules() if is_in_graph(m)), None)

    def _warn(self, engine: _core.PathTracer) -> None:
        if self.rank != 0 and self._exchange is not None:
            return
        matched = engine.matched
        seen = [name for group in self._groups for name in group.results]
        missing = [path for path, ok in zip(self._matcher.paths, matched, strict=True) if not ok]
        for path in dict.fromkeys(missing):
            near = self._matcher.near(path, seen)
            hint = f"; near it: {', '.join(near)}" if near else ""
            name = self._compiled_part()
            if name is not None:
                what = f"module {name!r}" if name else "the model"
                why = what_hides_modules() or (
                    "of what torch.compile runs as one graph only the outputs of modules are seen"
                )
                hint += f" ({what} is compiled: {why}; {RUN_EAGERLY})"
            session.warn(f"path {path!r} matched nothing{hint}")
        if self._unkept:
            listed = [
                f"{name} ({why}{f'; {times} times' if times > 1 else ''})"
                for name, (why, times) in list(self._unkept.items())[:MOST_NAMES]
            ]
            session.warn(f"not kept, as they cannot be copied: {', '.join(listed)}")
        if engine.errors:
            session.warn(
                f"tensortap: {engine.errors} errors while tracing, first: {engine.error!r}"
            )


def _run_all(jobs: Iterable[Callable[[], None]]) -> None:
    """Call all of these, and raise the first error afterwards."""
    first: Exception | None = None
    for job in jobs:
        try:
            job()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
