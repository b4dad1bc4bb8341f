"""Beside torch-module-monitor 0.1.0: the same keys and values for the same program."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch_module_monitor")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tensortap.monitor as ours  # noqa: E402

Program = Callable[[Any], dict[int, dict[str, Any]]]


def both(program: Program) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
    """Run a program with each package, from the same seed."""
    answers = []
    for package in (theirs, ours):
        torch.manual_seed(0)
        answers.append({step: dict(entry) for step, entry in program(package).items()})
    return answers[0], answers[1]


def agree(program: Program, *, apart: tuple[str, ...] = ("-",)) -> dict[int, dict[str, Any]]:
    """Check that both give the same, keys of these beginnings aside."""
    their, our = both(program)
    assert their.keys() == our.keys()
    compared = 0
    for step, expected in their.items():
        mine = {key: value for key, value in our[step].items() if not key.startswith(apart)}
        assert mine.keys() == {key for key in expected if not key.startswith(apart)}
        for key in mine:
            value = expected[key]
            assert math.isclose(mine[key], value, rel_tol=1e-5, abs_tol=1e-6), (step, key)
            compared += 1
    assert compared > 0
    return our


class Net(nn.Module):
    """Embedding, convolution, norm, linear layers, and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8, bias=False)])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        y = self.conv(self.embed(x).mT).mT
        y = self.norm(y)
        for block in self.blocks:
            y = torch.relu(block(y))
        return self.head(y)


def batch() -> Any:
    return torch.randint(0, 11, (3, 5))


def add_all(monitor: Any, aggregation: Any = None) -> None:
    monitor.add_activation_metric("mean", lambda x: x.mean())
    monitor.add_activation_metric("l2", lambda x: x.norm(dim=-1), metric_aggregation_fn=aggregation)
    monitor.add_activation_metric("block", lambda x: x.std(), r"blocks\.")
    monitor.add_parameter_metric("norm", lambda p: p.norm())
    monitor.add_parameter_metric("w", lambda p: p.mean(), r".*weight")
    monitor.add_gradient_metric("norm", lambda g: g.norm())
    monitor.add_gradient_metric("max", lambda g: g.abs().max().item())


def train(monitor: Any, model: Any, *, reference: Any = None, micro: int = 1) -> dict[int, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        monitor.begin_step(step)
        for _ in range(micro):
            x = batch()
            if reference is not None:
                reference(x)
            (model(x).square().mean() * 50).backward()
            monitor.after_micro_batch()
        monitor.monitor_parameters()
        monitor.monitor_gradients(before_clip=True)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        monitor.monitor_gradients()
        monitor.log_scalar("lr", 0.1)
        optimizer.step()
        optimizer.zero_grad()
        monitor.end_step()
    metrics: dict[int, Any] = monitor.get_all_metrics()
    return metrics


@pytest.mark.parametrize("micro", [1, 3])
def test_activations_parameters_and_gradients_before_and_after_clipping(micro: int) -> None:
    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: step % 2 == 0)
        monitor.set_module(model)
        add_all(monitor)
        return train(monitor, model, micro=micro)

    found = agree(program)
    assert list(found) == [0, 2]
    assert len(found[0]) > 40


def test_named_metrics_are_what_their_lambdas_give() -> None:
    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: True)
        monitor.set_module(model)
        formulas: dict[str, Any] = {
            "mean": lambda x: x.mean(),
            "std": lambda x: x.std(),
            "norm": lambda x: x.norm(),
            "absmax": lambda x: x.abs().max(),
        }
        for name, formula in formulas.items():
            metric = name if package is ours else formula
            monitor.add_activation_metric(name, metric)
            monitor.add_parameter_metric(name, metric)
            monitor.add_gradient_metric(name, metric)
        return train(monitor, model)

    agree(program)


def test_differences_to_a_reference() -> None:
    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: True)
        monitor.set_module(model)
        reference = copy.deepcopy(model)
        monitor.set_reference_module(reference)
        monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm(dim=-1))
        monitor.add_activation_difference_metric(
            "max", lambda a, b: (a - b).abs().max(), r"(norm|head)"
        )
        monitor.add_parameter_difference_metric("l2", lambda a, b: (a - b).norm())
        monitor.add_gradient_metric("norm", lambda g: g.norm())  # theirs fails without one
        return train(monitor, model, reference=reference, micro=2)

    found = agree(program)
    assert found[3]["activation_difference/blocks.0/l2"] > 0
    assert found[3]["parameter_difference/embed.weight/l2"] > 0


@pytest.mark.parametrize("aggregation", ["dict", "plain", "number"])
def test_aggregations_of_ones_own(aggregation: str) -> None:
    functions: dict[str, Any] = {
        "dict": lambda x: {"[mean]": x.mean().item(), "[std]": x.std().item()},
        "plain": lambda x: {"": x.max().item(), "/min": x.min().item()},
        "number": lambda x: float(x.median()),
    }

    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: True)
        monitor.set_module(model)
        add_all(monitor, functions[aggregation])
        return train(monitor, model, micro=2)

    agree(program)


def test_scalars_and_tensors_the_program_logs() -> None:
    def program(package: Any) -> dict[int, Any]:
        model = nn.Linear(2, 2)
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: step == 1)
        monitor.set_module(model)
        for step in range(3):
            monitor.begin_step(step)
            monitor.log_scalar("loss", torch.tensor(step + 0.5))
            monitor.log_scalar("loss", 2.0, lambda values: max(values))
            monitor.log_scalar("forced", step, force=True)
            monitor.log_tensor("t", torch.arange(4.0).reshape(2, 2), lambda x: {"[sum]": x.sum()})
            monitor.log_tensor("t", torch.ones(3))
            monitor.monitor_activations("free", torch.ones(2))
            monitor.end_step()
        return {step: dict(entry) for step, entry in monitor.get_all_metrics().items()}

    agree(program)


def test_excluded_modules_and_names_of_ones_own() -> None:
    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(
            monitor_step_fn=lambda step: True,
            excluded_modules_regex=r"<(embed|blocks\.1)",
            format_module_name_fn=lambda name: f"<{name}>",
        )
        monitor.set_module(model)
        add_all(monitor)
        return train(monitor, model)

    agree(program)


# ---- attention


def masks() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    boolean = torch.rand(6, 6, generator=generator) > 0.4
    boolean[:, 0] = True  # no row is wholly masked: there theirs is NaN
    additive = torch.randn(6, 6, generator=generator)
    return {
        "plain": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": boolean},
        "additive": {"attn_mask": additive},
        "scale": {"scale": 0.3, "is_causal": True},
    }


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "additive", "scale"])
@pytest.mark.parametrize("is_reference_set", [False, True])
def test_attention_has_the_same_keys_and_numbers_head_by_head(
    case: str, is_reference_set: bool
) -> None:
    options = masks()[case]

    def program(package: Any) -> dict[int, Any]:
        class Attention(nn.Module, package.MonitorMixin):
            def __init__(self) -> None:
                super().__init__()
                self.set_module_monitor(None)
                self.qkv = nn.Linear(12, 36)

            def forward(self, x: Any) -> Any:
                q, k, v = (
                    part.unflatten(-1, (3, 4)).transpose(-3, -2)
                    for part in self.qkv(x).chunk(3, dim=-1)
                )
                y = F.scaled_dot_product_attention(q, k, v, **options)
                if self.is_monitoring:
                    package.monitor_scaled_dot_product_attention(
                        self.get_module_monitor(),
                        self,
                        q,
                        k,
                        v,
                        activation=y,
                        is_reference=self.is_reference_module,
                        **options,
                    )
                return y.transpose(-3, -2).flatten(-2)

        model = nn.Sequential(Attention())
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: True)
        monitor.set_module(model)
        monitor.add_activation_metric("norm", lambda x: x.norm(dim=-1))
        monitor.add_activation_metric("q", lambda x: x.std(), r".*\.query")
        reference = copy.deepcopy(model)
        x = torch.randn(2, 6, 12)
        if is_reference_set:
            monitor.set_reference_module(reference)
            monitor.add_activation_difference_metric("l2", lambda a, b: (a - b).norm())
        monitor.begin_step(0)
        if is_reference_set:
            reference(x)
        model[0].qkv.weight.data.mul_(1.5)
        model(x)
        monitor.end_step()
        return {0: dict(monitor.get_step_metrics())}

    # Theirs logs the reference's entropy under the same key: a mean over both models.
    apart = ("attention_entropy/",) if is_reference_set else ()
    found = agree(program, apart=("attention_max_logit/", "attention_sink/", *apart))
    assert "attention_entropy/0.head_2" in found[0]
    assert ("activation_difference/0.head_1.key/l2" in found[0]) == is_reference_set


# ---- the refined coordinate check


def test_the_refined_coordinate_check() -> None:
    def program(package: Any) -> dict[int, Any]:
        model = Net()
        monitor = package.ModuleMonitor(monitor_step_fn=lambda step: step != 1)
        monitor.set_module(model)
        reference = copy.deepcopy(model)
        monitor.set_reference_module(reference)
        check = package.RefinedCoordinateCheck(monitor)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for step in range(3):
            monitor.begin_step(step)
            x = batch()
            reference(x)
            model(x).square().mean().backward()
            check.refined_coordinate_check()
            optimizer.step()
            optimizer.zero_grad()
            monitor.end_step()
        return {step: dict(entry) for step, entry in monitor.get_all_metrics().items()}

    found = agree(program)
    assert list(found) == [0, 2]
    for key in (
        "RCC (W_t-W_0)x_t/embed/l2norm",
        "RCC W_0(x_t-x_0)/conv/l2norm",
        "RCC (W_t-W_0)x_t/norm.weight/x_t/l2norm",
        "RCC W_0(x_t-x_0)/norm.weight/x_t-x_0/l2norm",
        "RCC W_0(x_t-x_0)/blocks.1.weight/W_0 x_0/l2norm",
        "RCC (x_t-x_0)/head/l2norm",
    ):
        assert found[2][key] > 0
