"""A bias whose gradient is rounding moves by rounding; faults beside it are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import tensortap

import tensortap as tt

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

STEPS, LATE = 10, 6


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
        self.plain, self.head = nn.Conv2d(8, 8, 1), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.head(torch.relu(self.plain(x)).mean((2, 3)))


def train(folder: Path, *, fault: str = "", rate: float = 1e-3, rounds: bool = True) -> Path:
    """Record a training; *rounds*: in a memory layout that is summed in another order."""
    torch.manual_seed(1 if fault == "seed" else 0)
    model = Network()
    if rounds:
        model = model.to(memory_format=torch.channels_last)
    is_evaluated = fault in ("evaluation", "momentum")
    kind = torch.optim.SGD if is_evaluated else torch.optim.AdamW
    optimizer = kind(model.parameters(), rate)
    data = torch.Generator().manual_seed(0)
    with tt.record(folder):
        tt.watch(model)
        for step in range(STEPS):
            x = torch.randn(4, 3, 12, 12, generator=data)
            if step == LATE and fault.startswith("bias of "):
                with torch.no_grad():
                    model.get_submodule(fault.removeprefix("bias of ")).bias += 0.1
            if step == LATE and fault == "momentum":
                model.norm2.momentum = 0.5
            if step == LATE and fault == "epsilon":
                model.norm2.eps = 1e-3
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if is_evaluated:
                model.eval()(x)
                model.train()
    return folder


def test_what_rounding_moves_is_noise_and_is_named(tmp_path: Path) -> None:
    a, b = train(tmp_path / "a", rounds=False), train(tmp_path / "b")
    found = tt.diff(a, b)
    assert found.verdict == "noise", found
    drifting = {site.name for site in found.sites if site.is_rounding}
    assert drifting == {"gradient/conv1.bias", "gradient/conv2.bias"}
    # Without the gradients nobody knows that these are rounding.
    assert tt.diff(a, b, only="parameter/*").verdict == "differs"
    said = tensortap("diff", "a", "b", folder=tmp_path).stdout
    assert "conv1.bias move by rounding only: the gradient is zero but for rounding" in said


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        ("bias of conv2", "parameter/conv2.bias"),
        ("bias of plain", "parameter/plain.bias"),
        ("bias of norm2", "parameter/norm2.bias"),
        ("epsilon", "activation/norm2"),
        ("seed", "parameter/conv1.weight"),
    ],
)
def test_a_fault_beside_such_a_bias_is_found(tmp_path: Path, fault: str, first: str) -> None:
    a, b = train(tmp_path / "a", rounds=False), train(tmp_path / "b", fault=fault)
    found = tt.diff(a, b).first
    assert found is not None
    assert (found.name, found.first_step) == (first, 0 if fault == "seed" else LATE)


def test_another_learning_rate_is_found(tmp_path: Path) -> None:
    a, b = train(tmp_path / "a", rounds=False), train(tmp_path / "b", rate=1.1e-3)
    assert tt.diff(a, b).verdict == "differs"
    assert tt.diff(a, b, only="parameter/*").verdict == "differs"  # not the rate itself


def test_another_momentum_of_a_batch_norm_is_found_in_evaluation(tmp_path: Path) -> None:
    a = train(tmp_path / "a", fault="evaluation", rounds=False)
    assert tt.diff(a, train(tmp_path / "b", fault="evaluation")).verdict == "noise"
    found = tt.diff(a, train(tmp_path / "c", fault="momentum")).first
    assert found is not None
    assert (found.name, found.first_step) == ("activation/norm2", LATE)


def record_gate(folder: Path, bias: float, *, is_bf16: bool = True, scale: float = 1.0) -> Path:
    """Record a step in which the sign of *bias* decides on one term of one unit's gradient."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    x = torch.randn(64, 4)
    x[:, 0] = x[:, 0].abs() + 0.1
    x[0, 0] = 0
    y = torch.full((64, 1), 3.0)
    y[0] = 12
    with torch.no_grad():
        model[0].weight[0] = torch.tensor([1.0, 0, 0, 0])
        model[0].bias[0] = bias
    model[0].weight.register_hook(lambda gradient: gradient * scale)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with tt.record(folder):
        tt.watch(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
    return folder


def test_a_rectifier_that_rounding_switches_is_noise_in_bfloat16(tmp_path: Path) -> None:
    on, off = record_gate(tmp_path / "on", 1e-9), record_gate(tmp_path / "off", -1e-9)
    found = tt.diff(on, off)
    assert found.verdict == "noise", found
    (bias,) = (site for site in found.sites if site.name == "gradient/0.bias")
    assert bias.deviation > 2**-7  # averages of few units show it
    wrong = tt.diff(on, record_gate(tmp_path / "wrong", 1e-9, scale=1.4)).first
    assert wrong is not None
    assert wrong.name == "gradient/0.weight"
    single = record_gate(tmp_path / "single", 1e-9, is_bf16=False)
    other = record_gate(tmp_path / "other", -1e-9, is_bf16=False)
    assert tt.diff(single, other).verdict == "differs"  # float32 rounds too little for that


def record_flip(folder: Path, sign: float, name: str, *, late: float = 0) -> Path:
    """Record steps of Adam with a gradient that is rounding in one element of a parameter."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 4))
    parameter = model.get_parameter(name)

    def replace(gradient: Any) -> Any:
        gradient = gradient * (1 + sign * 1e-7)
        gradient.view(-1)[0] = sign * 1e-10
        return gradient

    with torch.no_grad():
        model[0].bias.zero_()
    parameter.register_hook(replace)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with tt.record(folder):
        tt.watch(model)
        for step in range(4):
            x = torch.randn(16, 32)
            if step == 2 and late:
                with torch.no_grad():
                    parameter.view(-1)[0] += late
            # Sums with the weight are small, as behind an attention.
            model(x * 0.05 if name.endswith("bias") else x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return folder


@pytest.mark.parametrize("name", ["0.weight", "0.bias"])
def test_one_element_that_adam_moves_by_rounding_is_noise(tmp_path: Path, name: str) -> None:
    plus, minus = record_flip(tmp_path / "a", 1, name), record_flip(tmp_path / "b", -1, name)
    found = tt.diff(plus, minus)
    assert found.verdict == "noise", found
    assert max(site.deviation for site in found.sites) > 1e-6
    late = tt.diff(plus, record_flip(tmp_path / "c", -1, name, late=0.3)).first
    assert late is not None
    assert (late.name, late.first_step) == (f"parameter/{name}", 2)
