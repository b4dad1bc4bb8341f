"""A monitor that is closed or dropped leaves its models as they were."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from listened import SLOT, X, mlp

torch = pytest.importorskip("torch")

from monitored import every, measure  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import (  # noqa: E402
    ModuleMonitor,
    MonitorMixin,
    RefinedCoordinateCheck,
)


class Asking(nn.Linear, MonitorMixin):
    """Asks whether it is monitored."""


class Own(ModuleMonitor):
    """Measures in its own way."""

    def monitor_activations(
        self, module: Any, activations: Any, is_reference: bool = False
    ) -> None:
        super().monitor_activations(module, activations, is_reference)


def plain(model: nn.Module) -> Any:
    monitor = every(model)
    monitor.add_activation_metric("mean")
    return monitor


def with_function(model: nn.Module) -> Any:
    monitor = every(model)
    monitor.add_activation_metric("own", lambda x: x.mean())
    return monitor


def of_subclass(model: nn.Module) -> Any:
    monitor = Own(monitor_step_fn=lambda step: True)
    monitor.set_module(model)
    monitor.add_activation_metric("mean")
    return monitor


def with_reference(model: nn.Module) -> Any:
    monitor = every(model)
    monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm())
    monitor.set_reference_module(REFERENCE)
    return monitor


def with_check(model: nn.Module) -> Any:
    monitor = with_reference(model)
    monitor.check = RefinedCoordinateCheck(monitor)
    return monitor


MODEL = nn.Sequential(mlp(), Asking(2, 2))
REFERENCE = copy.deepcopy(MODEL)
KINDS: list[Callable[[nn.Module], Any]] = [
    plain,
    with_function,
    of_subclass,
    with_reference,
    with_check,
]
every_kind = pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)


def run() -> None:
    REFERENCE(X)
    MODEL(X)


def is_alone(model: nn.Module) -> bool:
    return all(
        SLOT not in part.__dict__
        and not part._forward_hooks
        and (not isinstance(part, MonitorMixin) or part.get_module_monitor() is None)
        for part in model.modules()
    )


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@every_kind
def test_a_dropped_monitor_is_released_and_its_models_are_alone(make: Any) -> None:
    monitor = make(MODEL)
    measure(monitor, run)
    weak = weakref.ref(monitor)
    del monitor
    gc.collect()
    assert weak() is None
    assert is_alone(MODEL)
    assert is_alone(REFERENCE)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("make", KINDS[:-1], ids=lambda make: make.__name__)
def test_it_is_released_at_once_without_the_collector(make: Any) -> None:
    monitor = make(MODEL)
    measure(monitor, run)
    weak = weakref.ref(monitor)
    del monitor
    assert weak() is None
    assert is_alone(MODEL)
    assert is_alone(REFERENCE)


@every_kind
def test_a_closed_monitor_leaves_its_models_and_keeps_its_metrics(make: Any) -> None:
    monitor = make(MODEL)
    monitor.begin_step(0)
    run()
    monitor.close()  # ends the step
    found = monitor.get_all_metrics()
    assert found[0]
    assert is_alone(MODEL)
    assert is_alone(REFERENCE)
    run()
    monitor.close()
    assert monitor.get_all_metrics() == found


def test_a_closed_monitor_can_be_given_another_module() -> None:
    monitor = plain(MODEL)
    monitor.close()
    with pytest.raises(ValueError, match="call set_module first"):
        monitor.begin_step(0)
    other = nn.Linear(4, 4)
    monitor.set_module(other)
    assert list(measure(monitor, lambda: other(X))) == ["activation/[root module]/mean"]
    monitor.close()


def test_leaving_the_context_closes_and_the_programs_own_error_goes_on() -> None:
    with plain(MODEL) as monitor:
        measure(monitor, run)
    assert is_alone(MODEL)

    def fail() -> None:
        with plain(MODEL) as monitor:
            monitor.begin_step(0)
            for _ in range(2):
                monitor.log_scalar("failing", 1.0, aggregation_fn=lambda _: 1 / 0)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert is_alone(MODEL)


def test_a_thousand_dropped_monitors_are_released() -> None:
    weak = [weakref.ref(plain(MODEL)) for _ in range(1000)]
    assert all(one() is None for one in weak)
    assert is_alone(MODEL)
