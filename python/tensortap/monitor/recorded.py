"""What a monitor puts into the run that is open.

Numbers go there as they are logged.  A metric by name of a DTensor is that of this rank's part, so
the run gets the statistics of the part and where it belongs instead: readers join those of all
ranks.  Nothing communicates.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensortap.monitor import names
from tensortap.runs import process
from tensortap.runs.places import Places

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor
    from tensortap.runs.record import Recording


class Recorded:
    """What one monitor has put into the run that is open."""

    def __init__(self) -> None:
        self._parts: set[str] = set()  # keys of this step whose numbers are those of a part
        self._run: ref[Recording] | None = None  # the one that parts were put into ...
        self._is_watched = False  # ... which has them already: it watches the model

    def numbers(self, step: int, metrics: dict[str, float], undefined: set[str]) -> None:
        """Put the numbers of a step into the run, but those of parts.

        A NaN among the *undefined* is left out: in a run it would say that a tensor held NaN.
        """
        run, parts, self._parts = _open_run(), self._parts, set()
        if run is None:
            return
        metrics = {
            key: value
            for key, value in metrics.items()
            if key not in parts and not (key in undefined and value != value)
        }
        if metrics:
            with _at_step(run, step):
                run.log(metrics)

    def part(self, monitor: ModuleMonitor, site: str, keys: list[str], tensor: Any) -> str | None:
        """Put what this rank has of a tensor into the run.

        Args:
            monitor: The monitor that measures it.
            site: Under which name.
            keys: The metrics of it, which are not put into the run.
            tensor: A DTensor.

        Returns:
            The path of the run; None: none is open.
        """
        run = _open_run()
        if run is None or monitor.current_step is None:
            return None
        if self._run is None or self._run() is not run:
            self._run = ref(run)
            self._is_watched = _is_watched(run, monitor.module)
            if not self._is_watched and monitor.module is not None:
                self._add_places(run, monitor)
        self._parts.update(keys)
        if not self._is_watched:
            # A collective that still fills it: the monitor says so.
            with _at_step(run, monitor.current_step), contextlib.suppress(TypeError, ValueError):
                run.tensor(site, tensor)
        return str(run.path)

    @staticmethod
    def _add_places(run: Recording, monitor: ModuleMonitor) -> None:
        model = monitor.module
        assert model is not None
        parameters = names.parameters(model, monitor.format_module_name_fn)
        modules = [(name, module) for module, name in monitor.module_names.items()]
        Places.of(run).add(model, modules, [name for _, name, _ in parameters])


def _open_run() -> Recording | None:
    run = process.open_run()
    return None if run is None or run.closed else run


def _is_watched(run: Recording, model: Any) -> bool:
    from tensortap.runs.watch import Watched

    watched = (one for one in run.watchers if isinstance(one, Watched))
    return any(module is model for one in watched for _, module in one.named_modules())


@contextlib.contextmanager
def _at_step(run: Recording, step: int) -> Iterator[None]:
    """Let a run be at a step, unless it counts steps by its optimizers: ours are the same then."""
    if any(not isinstance(one, Places) for one in run.watchers):
        yield
        return
    before, run.current_step = run.current_step, step
    try:
        yield
    finally:
        run.current_step = max(before, step)
