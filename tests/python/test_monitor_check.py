"""The refined coordinate check: every term by its formula, and nothing changed by it."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import change, close, every, pair  # noqa: E402
from torch import nn  # noqa: E402

from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck, l2_norm  # noqa: E402


class Norms(nn.Module):
    """Modules of every kind the check treats in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.norm = nn.LayerNorm(6)
        self.bare = nn.LayerNorm(6, bias=False)
        self.box = nn.Sequential(nn.Linear(6, 5), nn.Tanh())
        self.out = nn.Linear(5, 4, bias=False)

    def forward(self, x: Any) -> Any:
        return self.out(self.box(self.bare(self.norm(self.embed(x)))))


def checked(model: nn.Module, x: Any, **options: Any) -> tuple[Any, Any, dict[str, float]]:
    torch.manual_seed(0)
    monitor, reference = pair(model, **options)
    change(model)
    check = RefinedCoordinateCheck(monitor)
    monitor.begin_step(0)
    with monitor.no_monitor():
        reference(x)
    model(x)
    check.refined_coordinate_check()
    monitor.end_step()
    return reference, check, monitor.get_step_metrics()


def test_the_check_needs_a_module_and_a_reference() -> None:
    monitor = ModuleMonitor()
    with pytest.raises(ValueError, match=r"^Set the module to monitor"):
        RefinedCoordinateCheck(monitor)
    monitor.set_module(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"^Set the reference module"):
        RefinedCoordinateCheck(monitor)


@pytest.mark.parametrize("cpu_offload", [False, True])
def test_every_term_is_that_of_its_formula(cpu_offload: bool) -> None:
    model = Norms()
    x = torch.randint(0, 7, (2, 3))
    reference, check, found = checked(model, x, cpu_offload=cpu_offload)
    assert check.module is model
    assert check.reference_module is reference
    expected: dict[str, float] = {}

    def put(key: str, value: Any) -> None:
        expected[f"RCC {key}/l2norm"] = float(value.norm(dim=-1).mean())

    of_box = x, x
    with torch.no_grad():
        xt = x0 = x
        for name in ("embed", "norm", "bare", "box.0", "box.1", "box", "out"):
            w, w0 = model.get_submodule(name), reference.get_submodule(name)
            if name == "box.0":
                of_box = xt, x0
            if name == "box":
                xt, x0 = of_box  # that of its first part
            a, b, c = w(xt), w0(xt), w0(x0)
            put(f"(W_t-W_0)x_t/{name}", a - b)
            if name != "embed":
                put(f"W_0(x_t-x_0)/{name}", b - c)
                put(f"x_t/{name}", xt)
                put(f"(x_t-x_0)/{name}", xt - x0)
            if isinstance(w, (nn.Linear, nn.LayerNorm)):
                bias = 0 if w.bias is None else w.bias
                bias0 = 0 if w0.bias is None else w0.bias
                put(f"(W_t-W_0)x_t/{name}.weight", (a - bias) - (b - bias0))
                put(f"W_0(x_t-x_0)/{name}.weight", b - c)
                put(f"(W_t-W_0)x_t/{name}.weight/W_t x_t", a - bias)
                put(f"W_0(x_t-x_0)/{name}.weight/W_0 x_0", c - bias0)
            if isinstance(w, nn.LayerNorm):
                nt, n0 = (nn.functional.layer_norm(v, (6,), eps=w.eps) for v in (xt, x0))
                put(f"(W_t-W_0)x_t/{name}.weight/x_t", nt)
                put(f"W_0(x_t-x_0)/{name}.weight/x_t-x_0", nt - n0)
            xt, x0 = a, c
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert close(found[key], value), key


def test_the_two_parts_of_a_linear_layers_change_add_up() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    monitor, reference = pair(model)
    change(model)
    held: dict[str, Any] = {}
    check = RefinedCoordinateCheck(monitor)
    log = monitor._log_own
    norms: dict[str, Any] = {}
    monitor._log_own = lambda key, tensor, *rest: (norms.__setitem__(key, tensor), log(key, tensor))
    x = torch.randn(3, 6)
    monitor.begin_step(0)
    held["0"] = (reference(x), model(x))
    check.refined_coordinate_check()
    with torch.no_grad():
        xt, x0 = model[0](x), reference[0](x)
        own = (model[1].weight - reference[1].weight) @ xt.mT
        drift = reference[1].weight @ (xt - x0).mT
        total = model[1].weight @ xt.mT - reference[1].weight @ x0.mT
        assert torch.allclose(own + drift, total, atol=1e-5)
        assert torch.allclose(norms["RCC (W_t-W_0)x_t/1.weight/l2norm"], own.norm(dim=0), atol=1e-5)
        assert torch.allclose(
            norms["RCC W_0(x_t-x_0)/1.weight/l2norm"], drift.norm(dim=0), atol=1e-5
        )


def test_l2_norm_is_over_the_last_dimension() -> None:
    assert l2_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist() == [5, 1]


def test_outside_of_a_monitored_step_the_check_does_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor, _ = pair(model)
    check = RefinedCoordinateCheck(monitor)
    check.refined_coordinate_check()
    monitor.begin_step(0)
    with monitor.no_monitor():
        check.refined_coordinate_check()
    assert monitor.get_step_metrics() == {}


def test_the_check_needs_a_new_forward_pass_of_both() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    monitor, reference = pair(model)
    check = RefinedCoordinateCheck(monitor)
    monitor.begin_step(0)
    with pytest.raises(ValueError, match="forward pass of the monitored"):
        check.refined_coordinate_check()
    model(torch.ones(1, 2))
    with pytest.raises(ValueError, match="forward pass of the reference"):
        check.refined_coordinate_check()
    reference(torch.ones(1, 2))
    check.refined_coordinate_check()
    with pytest.raises(ValueError, match="forward pass"):
        check.refined_coordinate_check()


def test_keyword_arguments_and_other_outputs_are_handled() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: Any, *, scale: float = 1.0, shift: Any = None) -> Any:
            return self.fc(x) * scale + shift

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Scaled()
            self.rnn = nn.GRU(2, 2)  # returns two

        def forward(self, x: Any) -> Any:
            return self.rnn(self.a(x, scale=3.0, shift=x))[0]

    model = Model()
    x = torch.randn(3, 4, 2)
    reference, _, found = checked(model, x)
    with torch.no_grad():
        exact = (model.a(x, scale=3.0, shift=x) - reference.a(x, scale=3.0, shift=x)).norm(dim=-1)
    assert close(found["RCC (W_t-W_0)x_t/a/l2norm"], float(exact.mean()))
    assert not any("rnn" in key for key in found)


def test_inputs_are_those_of_the_instant() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.act = nn.ReLU(inplace=True)
            self.out = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.act(self.fc(x)))

    model = InPlace()
    x = torch.randn(5, 3)
    _, _, found = checked(model, x)
    exact = float(model.fc(x).norm(dim=-1).mean().detach())
    assert close(found["RCC x_t/act/l2norm"], exact)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.fc(self.fc(x))


def test_a_module_called_twice_is_checked_twice() -> None:
    model = Shared()
    x = torch.randn(5, 3)
    reference, _, found = checked(model, x)
    with torch.no_grad():
        a = model.fc(x)
        exact = sum((model.fc(v) - reference.fc(v)).norm(dim=-1).mean() for v in (x, a)) / 2
    assert close(found["RCC (W_t-W_0)x_t/fc/l2norm"], float(exact))


def test_each_module_runs_once_more_and_no_oftener() -> None:
    model = Norms()
    monitor, reference = pair(model)
    counts: dict[str, int] = {}
    for name, module in reference.named_modules():
        module.register_forward_pre_hook(
            lambda m, a, name=name: counts.__setitem__(name, counts.get(name, 0) + 1)
        )
    x = torch.randint(0, 7, (2, 3))
    check = RefinedCoordinateCheck(monitor)
    monitor.begin_step(0)
    reference(x)
    model(x)
    counts.clear()
    check.refined_coordinate_check()
    # The parts of `box` run once by themselves and once inside of it.
    assert counts == {"embed": 1, "norm": 1, "bare": 1, "box": 1, "box.0": 2, "box.1": 2, "out": 1}


def test_the_check_changes_nothing_of_the_program() -> None:
    def model() -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.4), nn.Sequential(nn.Linear(6, 3))
        )

    def run(checks: bool) -> list[Any]:
        torch.manual_seed(3)
        net = model()
        reference = copy.deepcopy(net)
        monitor = every(net)
        check = None
        if checks:
            monitor.set_reference_module(reference)
            check = RefinedCoordinateCheck(monitor)
        optimizer = torch.optim.Adam(net.parameters())
        out = []
        for step in range(3):
            monitor.begin_step(step)
            x = torch.randn(8, 6)
            reference(x)
            y = net(x)
            if check is not None:
                check.refined_coordinate_check()
            y.square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.end_step()
            out += [y.detach().clone(), torch.rand(3)]
        out += [t.clone() for m in (net, reference) for t in m.state_dict().values()]
        return out

    assert all(torch.equal(a, b) for a, b in zip(run(False), run(True), strict=True))


def test_the_check_keeps_nothing_afterwards() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    monitor, reference = pair(model)
    check = RefinedCoordinateCheck(monitor)
    x = torch.randn(100, 64)
    monitor.begin_step(0)
    reference(x)
    model(x)
    assert held(100 * 64) > 0
    check.refined_coordinate_check()
    monitor.end_step()
    del x
    assert held(100 * 64) == 0


def held(count: int) -> int:
    gc.collect()
    tensors = (o for o in gc.get_objects() if type(o) in (torch.Tensor, nn.Parameter))
    return sum(tensor.numel() == count for tensor in tensors)
