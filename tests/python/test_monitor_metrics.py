"""Metrics by name and by function are what torch says they are."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from monitored import FORMULAS, Gives, close, every, measure  # noqa: E402
from torch import nn  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_named_metric_is_the_formula_of_its_name(name: str, dtype: Any) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.LayerNorm(33)).to(dtype)
    model[0].weight.data[0, 0] = 0
    monitor = every(model)
    monitor.add_activation_metric(name)
    monitor.add_parameter_metric(name, name)
    monitor.add_gradient_metric("its", name)
    seen: dict[str, Any] = {}
    for key, module in model.named_modules():
        module.register_forward_hook(
            lambda m, i, o, key=key: seen.__setitem__(key or "[root module]", o.detach().clone())
        )
    monitor.begin_step(0)
    model(torch.randn(5, 7, dtype=dtype)).float().square().sum().backward()
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    monitor.end_step()
    found = monitor.get_step_metrics()
    expected = {f"activation/{key}/{name}": value for key, value in seen.items()}
    for key, p in model.named_parameters():
        expected[f"parameter/{key}/{name}"] = p.detach()
        expected[f"gradient/{key}/its"] = p.grad
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        exact, size = float(FORMULAS[name](tensor.double())), float(tensor.double().abs().mean())
        assert close(found[key], exact) or abs(found[key] - exact) < 1e-6 * size, key


@pytest.mark.parametrize("name", FORMULAS)
def test_named_metrics_of_nan_and_inf_are_those_of_torch(name: str) -> None:
    x = torch.tensor([1.0, torch.nan, 3.0, 0.0, -torch.inf])
    monitor = every(Gives(x))
    monitor.add_activation_metric(name)
    found = measure(monitor, monitor.module)
    assert close(found[f"activation/[root module]/{name}"], float(FORMULAS[name](x)))


@pytest.mark.parametrize("name", ["mean", "min", "norm", "std", "zeros", "numel"])
def test_an_empty_tensor_has_metrics_too(name: str) -> None:
    monitor = every(Gives(torch.empty(0, 3)))
    monitor.add_activation_metric(name)
    value = measure(monitor, monitor.module)[f"activation/[root module]/{name}"]
    assert value == 0 if name in ("norm", "numel") else value != value


@pytest.mark.parametrize("shape", [(3, 4), (8, 64), (257,), (64, 2049)])
@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1e-20, 1e-17, 1.0, 1e30])
def test_values_of_any_size_keep_their_digits(shape: tuple[int, ...], scale: float) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape, dtype=torch.float64) * scale).float()
    monitor = every(Gives(x))
    names = ("mean", "std", "norm", "l1", "absmax", "min")
    for name in names:
        monitor.add_activation_metric(name)
    found = measure(monitor, monitor.module)
    size = float(x.double().abs().mean())
    for name in names:
        exact = float(FORMULAS[name](x.double()))
        given = found[f"activation/[root module]/{name}"]
        assert abs(given - exact) <= 1e-5 * abs(exact) + 1e-6 * size, name


@pytest.mark.parametrize("late", [1e-10, 5.0, 3e38, torch.inf, torch.nan])
def test_tiny_values_before_a_large_one_spoil_nothing(late: float) -> None:
    x = torch.full((2048,), 1e-40)
    x[2000] = late
    monitor = every(Gives(x))
    names = ("max", "norm", "mean", "nan", "inf")
    for name in names:
        monitor.add_activation_metric(name)
    found = measure(monitor, monitor.module)
    for name in names:
        exact = float(FORMULAS[name](x.double()))
        given = found[f"activation/[root module]/{name}"]
        assert given == exact or abs(given - exact) <= 1e-6 * abs(exact) or exact != exact


def test_integers_bools_and_complex_numbers_are_measured() -> None:
    model = Gives(
        {
            "i": torch.tensor([1, -5, 3]),
            "b": torch.tensor([True, False]),
            "z": torch.tensor([3 + 4j, 0]),
        }
    )
    monitor = every(model)
    monitor.add_activation_metric("absmax")
    monitor.add_activation_metric("mean")
    found = measure(monitor, model)
    assert found["activation/[root module].i/absmax"] == 5
    assert found["activation/[root module].b/mean"] == 0.5
    assert found["activation/[root module].z/absmax"] == 5
    assert found["activation/[root module].z/mean"] == 2.5


def test_hist_gives_quantiles_within_a_bin_and_its_bins() -> None:
    torch.manual_seed(0)
    x = torch.randn(50_000)
    monitor = every(Gives(x))
    monitor.add_activation_metric("hist")
    found = measure(monitor, monitor.module)
    for end, q in (("q05", 0.05), ("q25", 0.25), ("q75", 0.75), ("q95", 0.95)):
        exact = float(torch.quantile(x, q))
        assert abs(found[f"activation/[root module]/hist/{end}"] - exact) < 0.25 * abs(exact)
    assert abs(found["activation/[root module]/hist/q50"]) < 0.02
    bins = monitor.histograms()["activation/[root module]/hist"]
    assert sum(count for _, _, count in bins) == 50_000
    for low, high, count in bins:
        if low > 0:
            assert count == int(((x >= low) & (x < high)).sum())


def test_all_values_are_plain_floats() -> None:
    monitor = every(nn.Linear(3, 3))
    monitor.add_activation_metric("mean")
    monitor.add_activation_metric("own", lambda x: x.norm(dim=-1))
    monitor.add_parameter_metric("count", lambda p: p.numel())
    monitor.begin_step(0)
    monitor.module(torch.ones(2, 3))
    monitor.monitor_parameters()
    monitor.log_scalar("loss", torch.tensor([0.5]))
    monitor.log_scalar("n", 3)
    monitor.end_step()
    for metrics in (monitor.get_step_metrics(), monitor.get_all_metrics()[0]):
        assert type(metrics) is dict
        assert {type(value) for value in metrics.values()} == {float}
    assert monitor.get_step_metrics()["loss"] == 0.5


# ---- what a function gets


def test_a_function_gets_a_detached_tensor_of_that_instant() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.a(x).mul_(0)

    kept: list[Any] = []
    model = Late()
    monitor = every(model)
    monitor.add_activation_metric("own", lambda x: kept.append(x) or x.abs().sum(), "a$")
    monitor.add_activation_metric("l1", "l1", "a$")
    x = torch.randn(2, 4)
    found = measure(monitor, lambda: model(x))
    exact = float(model.a(x).detach().abs().sum())
    assert close(found["activation/a/own"], exact)
    assert close(found["activation/a/l1"], exact)
    assert not kept[0].requires_grad
    assert torch.equal(kept[0], model.a(x).detach())


def test_a_function_that_writes_into_its_argument_does_not_reach_the_program() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    x = torch.randn(2, 4)
    expected = model(x)
    monitor = every(model)
    monitor.add_activation_metric("own", lambda x: x.zero_().sum())
    monitor.begin_step(0)
    assert torch.equal(model(x), expected)


def test_functions_of_one_tensor_share_one_copy() -> None:
    got: list[Any] = []
    model = nn.Linear(4, 4)
    monitor = every(model)
    monitor.add_activation_metric("a", lambda x: got.append(x) or x.sum())
    monitor.add_activation_metric("b", lambda x: got.append(x) or x.sum())
    measure(monitor, lambda: model(torch.ones(1, 4)))
    assert got[0] is got[1]


def test_a_parameter_metric_gets_the_parameter_itself() -> None:
    model = nn.Linear(4, 4)
    got: list[Any] = []
    monitor = every(model)
    monitor.add_parameter_metric("grad", lambda p: got.append(p) or p.grad.norm())
    monitor.begin_step(0)
    model(torch.randn(3, 4)).sum().backward()
    monitor.monitor_parameters()
    monitor.end_step()
    assert got[0] is model.weight
    exact = float(model.weight.grad.norm())
    assert close(monitor.get_step_metrics()["parameter/weight/grad"], exact)


def test_results_are_those_of_the_instant_though_they_lie_in_the_programs_memory() -> None:
    model = nn.Linear(4, 4)
    monitor = every(model)
    monitor.add_activation_metric("all", lambda x: x)
    monitor.add_gradient_metric("first", lambda g: g[0])
    monitor.add_parameter_metric("first", lambda p: p[0])
    monitor.add_parameter_metric("all", lambda p: p)
    monitor.begin_step(0)
    y = model(torch.randn(3, 4))
    y.sum().backward()
    expected = {
        "activation/[root module]/all": float(y.detach().mean()),
        "gradient/weight/first": float(model.weight.grad[0].mean()),
        "parameter/weight/first": float(model.weight[0].mean()),
        "parameter/weight/all": float(model.weight.mean()),
    }
    monitor.monitor_gradients()
    monitor.monitor_parameters()
    monitor.log_tensor("mine", y)
    expected["mine"] = float(y.detach().mean())
    for tensor in (y.data, model.weight.data, model.bias.data, model.weight.grad, model.bias.grad):
        tensor.zero_()
    monitor.end_step()
    found = monitor.get_step_metrics()
    assert all(close(found[key], value) for key, value in expected.items())


def test_metrics_run_without_a_graph() -> None:
    model = nn.Linear(4, 4)
    enabled: list[bool] = []
    monitor = every(model)

    def note(x: Any) -> Any:
        enabled.append(torch.is_grad_enabled())
        return x.sum()

    monitor.add_activation_metric("own", note)
    monitor.add_parameter_metric("own", note)
    monitor.add_gradient_metric("own", note)
    monitor.begin_step(0)
    model(torch.ones(2, 4)).sum().backward()
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    assert enabled == [False] * 5
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("result", [1.5, True, 2, torch.tensor(2.5), torch.tensor([[3.0]])])
def test_a_function_may_return_a_number_or_a_tensor(result: Any) -> None:
    model = nn.Linear(2, 2)
    monitor = every(model)
    monitor.add_activation_metric("own", lambda x: result)
    found = measure(monitor, lambda: model(torch.ones(1, 2)))
    assert found == {"activation/[root module]/own": float(result)}


def test_a_metric_that_returns_nan_is_nan() -> None:
    model = nn.Linear(2, 2)
    monitor = every(model)
    monitor.add_activation_metric("own", lambda x: float("nan"))
    value = measure(monitor, lambda: model(torch.ones(1, 2)))["activation/[root module]/own"]
    assert value != value


@pytest.mark.parametrize("result", ["text", None, [1.0], {"a": 1.0}, 1j])
def test_a_metric_that_returns_no_number_is_an_error_that_names_it(result: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    monitor = every(model)
    monitor.add_activation_metric("odd", lambda x: result)
    monitor.begin_step(0)
    with pytest.raises(RuntimeError, match=r"'odd'.*module 0.*\(1, 3\)") as error:
        model(torch.ones(1, 2))
    assert error.value.__cause__ is not None


def test_a_metric_that_returns_a_complex_number_is_an_error_when_the_step_ends() -> None:
    model = nn.Linear(2, 3)
    monitor = every(model)
    monitor.add_activation_metric("odd", lambda x: torch.tensor(1j))
    monitor.begin_step(0)
    model(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"root module\]/odd is complex"):
        monitor.end_step()


@pytest.mark.parametrize("kind", ["activation", "parameter", "gradient"])
def test_a_metric_that_raises_names_itself_its_place_and_shape(kind: str) -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    monitor = every(model)

    def fails(x: Any) -> Any:
        raise KeyError("mine")

    getattr(monitor, f"add_{kind}_metric")("bad", fails)
    monitor.begin_step(0)

    def run() -> None:
        model(torch.ones(1, 2)).sum().backward()
        monitor.monitor_parameters()
        monitor.monitor_gradients()

    where = r"0[^\n]*\(1, 3\)" if kind == "activation" else r"0.weight[^\n]*\(3, 2\)"
    with pytest.raises(RuntimeError, match=f"'bad'[^\n]*{where}") as error:
        run()
    assert isinstance(error.value.__cause__, KeyError)
