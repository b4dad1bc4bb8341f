"""When a step begins and ends, and what is logged in between."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import every, halves, measure, ones  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import ModuleMonitor  # noqa: E402

ROOT = "activation/[root module]"


# ---- the module


def test_a_module_is_set_once_and_is_one() -> None:
    monitor = ModuleMonitor()
    with pytest.raises(ValueError, match="None"):
        monitor.set_module(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, not int"):
        monitor.set_module(3)  # type: ignore[arg-type]
    monitor.set_module(nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"^Module has already been set"):
        monitor.set_module(nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"monitor_step_fn": 5}, TypeError, "monitor_step_fn must be a function, not 5"),
        ({"format_module_name_fn": "x"}, TypeError, "format_module_name_fn .* function, not 'x'"),
        ({"excluded_modules_regex": None}, TypeError, "excluded_modules_regex .* not None"),
        (
            {"excluded_modules_regex": "("},
            re.error,
            r"excluded_modules_regex '\(' is not a regular",
        ),
    ],
)
def test_a_wrong_option_is_named_at_once(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        ModuleMonitor(**options)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((3,), TypeError, "metric_name must be a str, not 3"),
        (("mean", "mean", None), TypeError, "metric_regex must be a regular expression, not None"),
        (("mean", "mean", "("), re.error, r"metric_regex '\(' is not a regular expression"),
        (("mean", "mean", ".*", 5), TypeError, "metric_aggregation_fn must be a function"),
    ],
)
def test_a_wrong_metric_is_named_at_once(
    arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    monitor = ModuleMonitor()
    with pytest.raises(error, match=text):
        monitor.add_activation_metric(*arguments)


def test_a_monitored_step_needs_a_module_and_others_do_not() -> None:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: step == 1)
    assert monitor.begin_step(0) is False
    monitor.end_step()
    with pytest.raises(ValueError, match="set_module"):
        monitor.begin_step(1)
    monitor.set_module(nn.Linear(1, 1))
    assert monitor.begin_step(1) is True


# ---- steps


def test_every_twentieth_step_is_monitored_unless_said_otherwise() -> None:
    monitor = ModuleMonitor()
    assert [step for step in range(45) if monitor.is_step_monitored(step)] == [0, 20, 40]


def test_a_step_is_a_number() -> None:
    _, monitor = halves()
    for wrong in ("a", None, [1]):
        with pytest.raises(TypeError, match="step must be a number, not "):
            monitor.begin_step(wrong)  # type: ignore[arg-type]
    assert monitor.current_step is None
    assert monitor.begin_step(torch.tensor(20))  # type: ignore[arg-type]


def test_steps_go_up() -> None:
    _, monitor = halves()
    monitor.begin_step(5)
    with pytest.raises(ValueError, match="4 is smaller than the current step, 5"):
        monitor.begin_step(4)
    assert monitor.current_step == 5
    assert monitor.is_monitoring()


def test_a_storage_cleared_in_the_middle_leaves_nothing_to_the_next_step() -> None:
    model = nn.Identity()
    monitor = every(model)
    monitor.add_activation_metric("numel")
    monitor.begin_step(0)
    model(torch.ones(2))
    monitor.storage.clear()
    monitor.end_step()
    assert measure(monitor, lambda: model(torch.ones(6)), 1) == {f"{ROOT}/numel": 6}


def test_the_same_step_again_empties_it() -> None:
    model, monitor = halves()
    monitor.begin_step(0)
    model(ones(2))
    monitor.log_scalar("loss", 1.0)
    monitor.begin_step(0)
    assert monitor.get_step_metrics() == {}
    model(ones(4))
    monitor.end_step()
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 2}
    monitor.begin_step(0)
    monitor.end_step()
    assert monitor.get_all_metrics() == {0: {}}


def test_nothing_is_measured_outside_of_a_step() -> None:
    model, monitor = halves()
    model(ones(2))
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    monitor.log_scalar("loss", 1.0)
    monitor.log_tensor("t", ones(1))
    monitor.monitor_activations("x", ones(1))
    assert monitor.get_step_metrics() == {}
    assert monitor.get_all_metrics() == {}
    monitor.begin_step(0)
    monitor.end_step()
    model(ones(2))
    assert monitor.get_step_metrics() == {}


def test_end_step_twice_is_once_and_without_a_beginning_nothing() -> None:
    model, monitor = halves()
    monitor.end_step()
    monitor.begin_step(0)
    model(ones(2))
    monitor.end_step()
    monitor.end_step()
    assert monitor.current_step == 0
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 1}


def test_a_step_that_is_not_monitored_is_empty() -> None:
    model, _ = halves()
    monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 2 == 1)
    monitor.set_module(model)
    monitor.add_activation_metric("mean")
    for step in range(4):
        assert monitor.begin_step(step) == (step % 2 == 1)
        model(ones(step))
        monitor.log_scalar("loss", 1.0)
        monitor.end_step()
        assert bool(monitor.get_step_metrics()) == (step % 2 == 1)
    assert list(monitor.get_all_metrics()) == [1, 3]


def test_before_its_end_a_step_shows_what_there_is_so_far() -> None:
    model, monitor = halves()
    monitor.add_activation_metric("own", lambda x: x.sum())
    monitor.begin_step(0)
    model(ones(2))
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 1, f"{ROOT}/own": 1}
    model(ones(4))
    monitor.log_scalar("loss", 3)
    expected = {f"{ROOT}/mean": 1.5, f"{ROOT}/own": 1.5, "loss": 3}
    assert monitor.get_step_metrics() == expected
    assert monitor.get_all_metrics() == {0: expected}
    monitor.end_step()
    assert monitor.get_step_metrics() == expected


def test_what_was_given_out_does_not_change_the_storage() -> None:
    model, monitor = halves()
    measure(monitor, lambda: model(ones(2)))["x"] = 3.0
    monitor.get_all_metrics()[0]["y"] = 3.0
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 1}


def test_an_exception_in_forward_leaves_the_step_as_far_as_it_came() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Identity()

        def forward(self, x: Any, fails: bool) -> Any:
            y = self.a(x)
            if fails:
                raise KeyError("mine")
            return y

    model = Fails()
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.begin_step(0)
    with pytest.raises(KeyError):
        model(ones(3), True)
    assert monitor.get_step_metrics() == {"activation/a/mean": 3}
    monitor.begin_step(1)  # no end_step in between
    model(ones(5), False)
    monitor.end_step()
    assert monitor.get_all_metrics() == {
        0: {"activation/a/mean": 3},
        1: {"activation/a/mean": 5, f"{ROOT}/mean": 5},
    }


# ---- pauses


def test_no_monitor_pauses_and_nests() -> None:
    model, monitor = halves()
    monitor.begin_step(0)
    with monitor.no_monitor():
        with monitor.no_monitor():
            assert not monitor.is_monitoring()
        assert not monitor.is_monitoring()
        model(ones(100))
        monitor.monitor_parameters()
        monitor.log_scalar("no", 1)
    assert monitor.is_monitoring()
    model(ones(2))
    monitor.end_step()
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 1}


def test_no_monitor_ends_with_an_exception_too() -> None:
    _, monitor = halves()
    monitor.begin_step(0)
    with pytest.raises(KeyError), monitor.no_monitor():
        raise KeyError
    assert monitor.is_monitoring()


def test_no_monitor_before_a_step_does_not_begin_one() -> None:
    _, monitor = halves()
    with monitor.no_monitor():
        pass
    assert not monitor.is_monitoring()


# ---- what the program logs


def test_scalars_are_numbers_or_tensors_of_one_element() -> None:
    _, monitor = halves()
    monitor.begin_step(0)
    monitor.log_scalars({"a": 1, "b": torch.tensor([[2.0]]), "c": True})
    for bad in ("text", None, torch.ones(2), [1.0], 1j):
        with pytest.raises(ValueError, match="bad"):
            monitor.log_scalar("bad", bad)
    monitor.end_step()
    assert monitor.get_step_metrics() == {"a": 1, "b": 2, "c": 1}


def test_a_loss_with_a_graph_is_logged_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    model, monitor = halves()
    monitor.begin_step(0)
    monitor.log_scalar("loss", model(ones(4)).sum())
    monitor.end_step()
    assert monitor.get_step_metrics()["loss"] == 2
    assert not [w for w in recwarn if "requires_grad" in str(w.message)]


def test_forced_scalars_are_logged_and_aggregated_at_every_step() -> None:
    monitor = ModuleMonitor(monitor_step_fn=lambda step: False)
    monitor.set_module(nn.Linear(1, 1))
    monitor.begin_step(7)
    monitor.log_scalar("loss", 1.0, force=True)
    monitor.log_scalars({"loss": 3.0, "lr": 0.1}, force=True)
    monitor.end_step()
    assert monitor.get_step_metrics() == {"loss": 2, "lr": 0.1}
    assert monitor.get_all_metrics() == {7: {"loss": 2, "lr": 0.1}}


def test_a_forced_scalar_before_any_step_is_an_error() -> None:
    with pytest.raises(ValueError, match="begin_step"):
        ModuleMonitor().log_scalar("loss", 1.0, force=True)


def test_log_tensor_takes_tensors_only() -> None:
    _, monitor = halves()
    monitor.begin_step(0)
    with pytest.raises(ValueError, match="bad"):
        monitor.log_tensor("bad", [1.0])


# ---- aggregation


def test_micro_batches_are_joined_before_the_mean() -> None:
    model, monitor = halves()
    monitor.add_activation_metric("own", lambda x: x.flatten())
    monitor.begin_step(0)
    model(torch.tensor([[2.0]]))
    monitor.after_micro_batch()
    model(torch.tensor([[4.0], [4.0], [4.0]]))
    monitor.after_micro_batch()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert found == {f"{ROOT}/mean": 1.5, f"{ROOT}/own": 1.75}


def test_an_aggregation_gets_the_joined_elements_always() -> None:
    got: list[Any] = []

    def aggregate(x: Any) -> dict[str, Any]:
        got.append(x)
        return {"": x.mean(), "[max]": x.max(), "/n": len(x)}

    model, monitor = halves()
    monitor.add_activation_metric("own", lambda x: x, metric_aggregation_fn=aggregate)
    found = measure(monitor, lambda: model(torch.tensor([[2.0], [4.0]])))
    assert got[0].shape == (2,)
    del found[f"{ROOT}/mean"]
    assert found == {f"{ROOT}/own": 1.5, f"{ROOT}/own[max]": 2, f"{ROOT}/own/n": 2}


def test_a_named_metric_takes_an_aggregation_too() -> None:
    model, _ = halves()
    monitor = every(model)
    monitor.add_activation_metric("mean", "mean", ".*", lambda x: x.max())
    monitor.begin_step(0)
    for size in (2, 8, 4):
        model(ones(size))
    monitor.end_step()
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 4}


def test_scalars_are_aggregated_as_a_list_if_there_are_several() -> None:
    got: list[Any] = []
    _, monitor = halves()

    def aggregate(values: Any) -> dict[str, float]:
        got.append(values)
        return {"[sum]": sum(values)}

    monitor.begin_step(0)
    monitor.log_scalar("one", 1.0, aggregate)
    monitor.log_scalar("two", 1.0, aggregate)
    monitor.log_scalar("two", 2, aggregate)
    monitor.end_step()
    assert got == [[1.0, 2.0]]
    assert monitor.get_step_metrics() == {"one": 1, "two[sum]": 3}


def test_an_aggregation_that_fails_names_its_key_and_the_others_stay() -> None:
    model, monitor = halves()
    monitor.add_activation_metric("own", lambda x: x, metric_aggregation_fn=lambda x: x.nothing)
    monitor.begin_step(0)
    model(ones(2))
    with pytest.raises(RuntimeError, match=r"module\]/own") as error:
        monitor.end_step()
    assert isinstance(error.value.__cause__, AttributeError)
    assert monitor.get_step_metrics() == {f"{ROOT}/mean": 1}
    monitor.begin_step(1)


def test_a_module_called_twice_has_the_mean_of_both() -> None:
    model, monitor = halves()
    monitor.add_activation_metric("own", lambda x: x.sum())
    found = measure(monitor, lambda: (model(ones(2)), model(ones(6))))
    assert found == {f"{ROOT}/mean": 2, f"{ROOT}/own": 2}
