"""Which tensors a metric is for, and under which key it is logged."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import Gives, close, every, measure  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import (  # noqa: E402
    HooksManager,
    ModuleMonitor,
    MonitorMixin,
    default_format_module_name_fn,
)


def test_regexes_match_from_the_start_of_the_name() -> None:
    model = nn.ModuleDict({"fc": nn.Linear(2, 2), "my_fc": nn.Linear(2, 2)})
    monitor = every(model)
    monitor.add_activation_metric("mean", "mean", "fc")
    monitor.add_parameter_metric("mean", "mean", r"fc\.weight")
    monitor.add_parameter_metric("own", lambda p: p.mean(), r"my_fc\.b")
    monitor.begin_step(0)
    for part in model.values():
        part(torch.ones(1, 2))
    monitor.monitor_parameters()
    monitor.end_step()
    assert monitor.get_step_metrics().keys() == {
        "activation/fc/mean",
        "parameter/fc.weight/mean",
        "parameter/my_fc.bias/own",
    }


def test_a_regex_that_does_not_compile_fails_at_once() -> None:
    monitor = ModuleMonitor()
    with pytest.raises(re.error):
        monitor.add_activation_metric("mean", "mean", "(")
    with pytest.raises(re.error):
        ModuleMonitor(excluded_modules_regex="(")
    monitor.add_activation_metric("mean", "mean")  # the failed one left nothing


@pytest.mark.parametrize(
    "kind",
    ["activation", "activation_difference", "parameter", "parameter_difference", "gradient"],
)
def test_a_name_is_used_once_for_each_kind(kind: str) -> None:
    add = getattr(ModuleMonitor(), f"add_{kind}_metric")
    add("mean", lambda *x: 0.0)
    with pytest.raises(ValueError, match="mean"):
        add("mean", lambda *x: 0.0)


def test_an_unknown_name_says_which_are_known() -> None:
    with pytest.raises(ValueError, match=r"'median'.*absmax"):
        ModuleMonitor().add_activation_metric("median")
    with pytest.raises(TypeError, match="metric_fn"):
        ModuleMonitor().add_activation_metric("mean", 3)  # type: ignore[arg-type]


def test_excluded_modules_have_no_activations_but_their_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    monitor = every(model, excluded_modules_regex="0")
    monitor.add_activation_metric("mean")
    monitor.add_parameter_metric("mean")
    monitor.begin_step(0)
    model(torch.ones(1, 2))
    monitor.monitor_activations("0", torch.ones(2))
    monitor.monitor_activations(model[0], torch.ones(2))
    monitor.monitor_activations("other", torch.ones(2))
    monitor.monitor_parameters()
    monitor.end_step()
    assert monitor.get_step_metrics().keys() == {
        *("activation/1/mean", "activation/[root module]/mean", "activation/other/mean"),
        *(f"parameter/{i}.{part}/mean" for i in (0, 1) for part in ("weight", "bias")),
    }


def test_nested_outputs_have_the_index_or_key_in_their_name() -> None:
    one = torch.ones(2)
    model = Gives((one, {"a": 2 * one, "b": [3 * one, None]}))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.add_activation_metric("own", lambda x: x.mean())
    found = measure(monitor, model)
    for name in ("mean", "own"):
        assert found[f"activation/[root module].0/{name}"] == 1
        assert found[f"activation/[root module].1.a/{name}"] == 2
        assert found[f"activation/[root module].1.b.0/{name}"] == 3
    assert len(found) == 6


def test_modules_and_parameters_added_later_are_measured_from_the_next_step() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.add_parameter_metric("mean")

    def run() -> None:
        model(torch.ones(1, 2))
        monitor.monitor_parameters()

    before = measure(monitor, run)
    model.append(nn.Linear(2, 2, bias=False))
    after = measure(monitor, run, 1)
    assert after.keys() - before.keys() == {"activation/1/mean", "parameter/1.weight/mean"}
    model[0].weight = nn.Parameter(torch.full((2, 2), 7.0))
    assert measure(monitor, run, 2)["parameter/0.weight/mean"] == 7


def test_a_metric_added_within_a_step_is_there_from_then_on() -> None:
    model = nn.Linear(2, 2)
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.begin_step(0)
    first = float(model(torch.ones(1, 2)).mean())
    monitor.add_activation_metric("max")
    y = model(torch.full((1, 2), 2.0))
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert close(found["activation/[root module]/mean"], (first + float(y.mean())) / 2)
    assert close(found["activation/[root module]/max"], float(y.max()))


def test_monitor_activations_takes_a_module_or_a_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.begin_step(0)
    monitor.monitor_activations(model[0], torch.full((2,), 3.0))
    monitor.monitor_activations("free", torch.full((2,), 4.0))
    with pytest.raises(ValueError, match="Linear is not a part of the monitored module"):
        monitor.monitor_activations(nn.Linear(1, 1), torch.ones(2))
    monitor.end_step()
    assert monitor.get_step_metrics() == {"activation/0/mean": 3, "activation/free/mean": 4}


def test_monitor_activations_names_the_parts_of_what_it_is_given() -> None:
    monitor = every(nn.Sequential(nn.Linear(2, 2)))
    monitor.add_activation_metric("mean")
    monitor.begin_step(0)
    monitor.monitor_activations("free", (torch.ones(2), {"key": torch.full((2,), 2.0)}))
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert found == {"activation/free.0/mean": 1, "activation/free.1.key/mean": 2}


@pytest.mark.parametrize(
    ("raw", "formatted"),
    [
        ("", "[root module]"),
        ("_orig_mod", "[root module]"),
        ("_forward_module", "[root module]"),
        ("_fsdp_wrapped_module", "[root module]"),
        ("_forward_module._orig_mod.layers.0.fc", "layers.0.fc"),
        ("layers._fsdp_wrapped_module.0", "layers.0"),
        ("module.fc", "module.fc"),
    ],
)
def test_names_lose_what_wrappers_add(raw: str, formatted: str) -> None:
    assert default_format_module_name_fn(raw) == formatted


def test_a_function_of_ones_own_formats_the_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor = every(model, format_module_name_fn=lambda name: f"<{name}>")
    monitor.add_activation_metric("mean", "mean", "<0")
    monitor.add_parameter_metric("mean", "mean", r"0\.w")
    monitor.begin_step(0)
    model(torch.ones(1, 2))
    monitor.monitor_parameters()
    monitor.end_step()
    assert monitor.get_step_metrics().keys() == {
        "activation/<0>/mean",
        "parameter/<0.weight>/mean",
    }
    assert monitor.module_names[model[0]] == "<0>"


def test_a_module_attribute_of_that_name_keeps_it_where_the_root_is_no_ddp() -> None:
    class Wraps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.module(x)

    model = Wraps()
    monitor = every(model)
    monitor.add_activation_metric("mean")
    found = measure(monitor, lambda: model(torch.ones(1, 2)))
    assert found.keys() == {"activation/module/mean", "activation/[root module]/mean"}


# ---- modules that know their monitor


class Own(nn.Module, MonitorMixin):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        if self.is_monitoring:
            self.get_module_monitor().log_tensor("custom/mine", y * 2)
        return y


def test_a_mixin_without_a_monitor_is_not_monitoring() -> None:
    module = Own()
    assert not module.is_monitoring
    assert module.get_module_monitor() is None
    module(torch.ones(1, 2))


def test_a_mixin_logs_what_it_likes() -> None:
    model = nn.Sequential(Own())
    monitor = every(model)
    y: list[Any] = []
    found = measure(monitor, lambda: y.append(model(torch.ones(1, 2))))
    assert model[0].get_module_monitor() is monitor
    assert found.keys() == {"custom/mine"}
    assert close(found["custom/mine"], 2 * float(y[0].mean()))
    assert not model[0].is_monitoring


def test_an_excluded_mixin_is_told_nothing() -> None:
    model = nn.Sequential(Own())
    every(model, excluded_modules_regex="0")
    assert model[0].get_module_monitor() is None


def test_a_copy_of_a_monitored_module_is_nobodys() -> None:
    import copy
    import pickle

    model = nn.Sequential(Own())
    monitor = every(model)
    monitor.add_activation_metric("mean")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other[0].get_module_monitor() is None
        monitor.begin_step(0)
        other(torch.ones(1, 2))
        assert monitor.get_step_metrics() == {}
    assert not any(key.startswith("_held") for key in model.state_dict())


# ---- hooks


def test_a_hooks_manager_holds_one_hook_for_each_module() -> None:
    module, calls = nn.Linear(2, 2), []
    hooks = HooksManager()
    hooks.register_forward_hook(module, lambda *_: calls.append("first"))
    hooks.register_forward_hook(module, lambda *_: calls.append("second"))
    assert len(hooks) == 1
    assert list(hooks.hooks) == [module]
    module(torch.ones(1, 2))
    assert calls == ["second"]
    hooks.remove_hook(module)
    hooks.remove_hook(module)
    assert len(hooks) == 0
    module(torch.ones(1, 2))
    assert calls == ["second"]


def test_a_hooks_manager_takes_its_hooks_off_at_the_end_of_a_block() -> None:
    module, calls = nn.Linear(2, 2), []
    with HooksManager() as hooks:
        hooks.register_forward_hook(module, lambda *_: calls.append(1))
        module(torch.ones(1, 2))
    module(torch.ones(1, 2))
    assert calls == [1]
    assert not module._forward_hooks


def test_taking_the_activation_hooks_off_ends_the_monitoring_of_modules() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    assert len(monitor.activation_hooks) == 2
    monitor.activation_hooks.remove_all_hooks()
    assert measure(monitor, lambda: model(torch.ones(1, 2))) == {}
    assert "_compiled_call_impl" not in model.__dict__


def test_the_classes_are_attributes_of_tensortap_without_importing_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tensortap as tt\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'ModuleMonitor' in dir(tt) and 'monitor' in dir(tt)\n"
        "from tensortap import ModuleMonitor, MonitorMixin, RefinedCoordinateCheck\n"
        "assert tt.monitor.ModuleMonitor is ModuleMonitor\n"
        "print('fine')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_everything_can_be_imported_without_the_libraries_of_trainers() -> None:
    code = """if True:
        import sys
        for name in ("lightning", "pytorch_lightning", "transformers"):
            sys.modules[name] = None
        from tensortap.monitor import *
        print(ModuleMonitor.__name__)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "ModuleMonitor\n", done.stderr
