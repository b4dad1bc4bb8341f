"""A monitored training computes the same bits, in every way people train."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import close, every, measure  # noqa: E402
from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from versions import needs_probes  # noqa: E402

from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck  # noqa: E402


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        y = self.drop(self.norm(self.embed(x).mT).mT)
        return self.head(self.rnn(y)[0])


def add_metrics(monitor: Any) -> None:
    for name in ("mean", "std", "hist"):
        monitor.add_activation_metric(name)
    monitor.add_activation_metric("own", lambda x: x.zero_().sum())
    monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm())
    monitor.add_parameter_metric("norm")
    monitor.add_parameter_metric("own", lambda p: p.norm())
    monitor.add_parameter_difference_metric("l2", lambda a, b: (a - b).norm())
    monitor.add_gradient_metric("norm")
    monitor.add_gradient_metric("own", lambda g: g.norm())


def train(is_monitored: bool, amp: bool = False) -> list[Any]:
    """Train with dropout, batch norm, accumulation and clipping; give all that came of it."""
    torch.manual_seed(0)
    model = Net()
    reference = copy.deepcopy(model)
    monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 2 == 0)
    monitor.set_module(model)
    check = None
    if is_monitored:
        monitor.set_reference_module(reference)
        add_metrics(monitor)
        check = RefinedCoordinateCheck(monitor)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    out: list[Any] = []
    for step in range(5):
        if is_monitored:
            monitor.begin_step(step)
        for _ in range(2):
            x = torch.randint(0, 10, (4, 5))
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
                with monitor.no_monitor(), torch.no_grad():
                    reference(x)
                loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
            if check is not None:
                check.refined_coordinate_check()
            (loss / 2).backward()
            monitor.after_micro_batch()
        if is_monitored:
            monitor.monitor_gradients(before_clip=True)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if is_monitored:
            monitor.monitor_parameters()
            monitor.monitor_gradients()
        optimizer.step()
        optimizer.zero_grad()
        if is_monitored:
            monitor.end_step()
            assert (len(monitor.get_step_metrics()) > 40) == (step % 2 == 0)
        out += [loss.detach(), torch.rand(2)]
    return [*out, *model.state_dict().values(), *reference.state_dict().values()]


@pytest.mark.parametrize("amp", [False, True])
def test_training_gives_the_same_bits_with_and_without(amp: bool) -> None:
    for a, b in zip(train(False, amp), train(True, amp), strict=True):
        assert torch.equal(a, b)


def test_under_autocast_activations_are_what_the_program_saw() -> None:
    model = nn.Linear(8, 8)
    monitor = every(model)
    monitor.add_activation_metric("norm")
    monitor.add_activation_metric("own", lambda x: x.float().norm())
    x = torch.randn(4, 8)
    monitor.begin_step(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
    monitor.end_step()
    assert y.dtype == torch.bfloat16
    exact = float(y.detach().double().norm())
    assert close(monitor.get_step_metrics()["activation/[root module]/norm"], exact)
    assert close(monitor.get_step_metrics()["activation/[root module]/own"], exact)


def test_a_grad_scaler_leaves_what_is_measured_after_unscaling() -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    monitor = every(model)
    monitor.add_gradient_metric("norm")
    x = torch.randn(4, 8)
    monitor.begin_step(0)
    scaler.scale(model(x).square().mean()).backward()
    scaler.unscale_(optimizer)
    monitor.monitor_gradients()
    scaler.step(optimizer)
    scaler.update()
    monitor.end_step()
    found = monitor.get_step_metrics()["gradient/weight/norm"]
    exact = float(model.weight.grad.norm())
    assert close(found, exact)
    assert exact < 1  # and not 1024 times as much


def test_accumulated_gradients_are_measured_as_they_are_before_the_step() -> None:
    model = nn.Linear(4, 4)
    monitor = every(model)
    monitor.add_gradient_metric("norm")
    monitor.add_activation_metric("absmax", "absmax", ".*", lambda x: x.max())
    torch.manual_seed(0)
    batches = [torch.randn(2, 4) for _ in range(3)]
    monitor.begin_step(0)
    for x in batches:
        model(x).square().sum().backward()
        monitor.after_micro_batch()
    monitor.monitor_gradients()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert close(found["gradient/weight/norm"], float(model.weight.grad.norm()))
    exact = max(float(model(x).detach().abs().max()) for x in batches)
    assert close(found["activation/[root module]/absmax"], exact)


def test_tied_parameters_are_measured_once_under_their_first_name() -> None:
    model = Net()
    monitor = every(model)
    monitor.add_parameter_metric("norm")
    found = measure(monitor, monitor.monitor_parameters)
    assert "parameter/embed.weight/norm" in found
    assert "parameter/head.weight/norm" not in found
    assert {key.split("/")[1] for key in found} == {name for name, _ in model.named_parameters()}


def test_a_module_under_two_names_is_measured_under_its_first() -> None:
    shared = nn.Linear(3, 3)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    monitor = every(model)
    monitor.add_activation_metric("mean")
    found = measure(monitor, lambda: model(torch.ones(1, 3)))
    assert found.keys() == {f"activation/{name}/mean" for name in ("0", "1", "[root module]")}


def test_frozen_parameters_are_measured_but_their_gradients_are_not() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    monitor = every(model)
    monitor.add_parameter_metric("norm")
    monitor.add_gradient_metric("norm")
    monitor.begin_step(0)
    model(torch.ones(1, 2)).sum().backward()
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert "parameter/0.weight/norm" in found
    assert {key for key in found if key.startswith("gradient")} == {
        "gradient/1.weight/norm",
        "gradient/1.bias/norm",
    }


def test_inference_mode_and_lazy_modules_are_fine() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.add_activation_metric("own", lambda x: x.mean())
    monitor.add_parameter_metric("norm")
    monitor.begin_step(0)
    with torch.inference_mode():
        y = model(torch.ones(2, 5))
    monitor.monitor_parameters()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert close(found["activation/1/own"], float(y.mean()))
    assert close(found["activation/1/mean"], float(y.mean()))
    assert close(found["parameter/0.weight/norm"], float(model[0].weight.detach().norm()))


def test_a_user_hook_that_changes_the_output_is_seen() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda m, i, o: torch.full_like(o, 9.0))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    found = measure(monitor, lambda: model(torch.ones(1, 2)))
    assert found == {"activation/[root module]/mean": 9}


def test_a_model_and_its_monitor_go_when_nobody_holds_them() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor = every(model)
    add_metrics(monitor)
    monitor.set_reference_module(copy.deepcopy(model))
    RefinedCoordinateCheck(monitor)
    monitor.begin_step(0)
    model(torch.ones(1, 2))
    monitor.end_step()
    gone = [weakref.ref(model), weakref.ref(monitor)]
    del model, monitor
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_steps_do_not_gather_memory() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    monitor = every(model)
    add_metrics(monitor)
    for step in range(3):
        measure(monitor, lambda: model(torch.ones(2, 4)), step)
    gc.collect()
    before = len(gc.get_objects())
    for step in range(3, 40):
        measure(monitor, lambda: model(torch.ones(2, 4)), step)
        monitor.storage.clear()
    gc.collect()
    assert len(gc.get_objects()) - before < 30


def test_a_monitor_beside_a_monitor_measures_the_same() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    first, second = every(model), every(model)
    for monitor in (first, second):
        monitor.add_activation_metric("mean")
        monitor.begin_step(0)
    model(torch.ones(2, 4))
    assert first.get_step_metrics() == second.get_step_metrics() != {}
    first.activation_hooks.remove_all_hooks()
    second.begin_step(1)
    model(torch.ones(2, 4))
    assert len(second.get_step_metrics()) == 3


# ---- torch.compile


@needs_probes
def test_under_torch_compile_it_measures_all_modules(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(model, backend="eager")
    monitor = every(compiled)
    monitor.add_activation_metric("mean")
    monitor.add_parameter_metric("norm")
    x = torch.ones(2, 4)
    monitor.begin_step(0)
    y = compiled(x)
    monitor.monitor_parameters()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert torch.equal(y, model(x))
    assert close(found["activation/[root module]/mean"], float(y.mean().detach()))
    assert "parameter/0.weight/norm" in found
    assert close(found["activation/0/mean"], float(model[0](x).mean().detach()))
    assert close(found["activation/1/mean"], found["activation/[root module]/mean"])
    assert not [text for text in caplog.messages if "torch.compile" in text]


def test_module_compile_is_told_as_well_or_all_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model.compile(backend="eager")
    model(torch.ones(2, 4))  # compiled before anybody looked
    monitor = every(model)
    monitor.add_activation_metric("mean")
    found = measure(monitor, lambda: model(torch.ones(2, 4)))
    told = [text for text in caplog.messages if "torch.compile" in text]
    assert "activation/[root module]/mean" in found
    assert bool(told) == (len(found) < 3)


def test_a_module_that_simply_did_not_run_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    monitor = every(model)
    monitor.add_activation_metric("mean")
    measure(monitor, lambda: model["a"](torch.ones(1, 2)))
    assert caplog.messages == []


# ---- several processes


def monitor_on_a_rank(rank, world):
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
    monitor = every(model)
    monitor.add_activation_metric("mean")
    monitor.add_parameter_metric("norm")
    monitor.add_gradient_metric("norm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(2):
        monitor.begin_step(step)
        model(torch.randn(3, 4)).square().sum().backward()
        monitor.monitor_parameters()
        monitor.monitor_gradients()
        optimizer.step()
        optimizer.zero_grad()
        monitor.end_step()
    return monitor.get_all_metrics()


def test_under_ddp_names_are_those_of_the_model_and_gradients_are_reduced() -> None:
    a, b = (metrics[1] for metrics in said(run_ranks(2, monitor_on_a_rank)))
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    assert a.keys() == {
        *(f"activation/{name}/mean" for name in ("0", "1", "2", "[root module]")),
        *(f"{kind}/{name}/norm" for kind in ("parameter", "gradient") for name in names),
    }
    for key in a:
        assert (a[key] == b[key]) == (not key.startswith("activation"))
