"""Planted faults: tt.ops names the operator, the line and the module of each."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

import tensortap as tt
from tensortap.operators import OperatorLog

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint


class Fault(NamedTuple):
    """A program with a fault, and what is true of it; the line is marked `# fault`."""

    program: Callable[[], OperatorLog]
    operator: str
    module: str | None
    phase: str
    kind: str
    marked: Callable[..., object]  # the function that the marked line is in


FAULTS: dict[str, Fault] = {}


def fault(
    operator: str,
    module: str | None = None,
    phase: str = "forward",
    kind: str = "created",
    marked: Callable[..., object] | None = None,
) -> Callable[[Callable[[], OperatorLog]], Callable[[], OperatorLog]]:
    """Add a program to the list."""

    def add(program: Callable[[], OperatorLog]) -> Callable[[], OperatorLog]:
        FAULTS[program.__name__] = Fault(program, operator, module, phase, kind, marked or program)
        return program

    return add


class Scaled(nn.Module):
    """A layer that calls a function on what it computes."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], width: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.fc(x))  # fault


class Net(nn.Module):
    """Layers one after the other, the faulty one last but one."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Scaled(torch.tanh), Scaled(function), Scaled(torch.tanh)])
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # fault


def trained(model: nn.Module, x: torch.Tensor | None = None) -> OperatorLog:
    """Log one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4) if x is None else x
    with tt.ops() as log:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    return log


@fault("aten::log", "layers.1")
def log_of_zero() -> OperatorLog:
    return trained(Net(lambda x: x.relu().log()))  # fault


@fault("aten::div", "layers.1")
def division_by_zero() -> OperatorLog:
    return trained(Net(lambda x: x / (x - x)))  # fault


@fault("aten::div", "layers.1", "backward")
def division_by_zero_in_backward_only() -> OperatorLog:
    return trained(Net(lambda x: (x * 0).sqrt()))  # fault


@fault("aten::sqrt", "layers.1", marked=Scaled.forward)
def root_of_a_negative_number() -> OperatorLog:
    return trained(Net(torch.sqrt))


@fault("aten::exp", "layers.1")
def overflow_in_half_precision() -> OperatorLog:
    return trained(Net(lambda x: (x + 20).half().exp().float()))  # fault


@fault("aten::mul", "layers.1")
def zero_times_infinity() -> OperatorLog:
    def masked(x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((4, 4), float("-inf")).triu(1)
        return x @ (mask * 0)  # fault

    return trained(Net(masked))


@fault("aten::sub", "layers.1")
def infinity_minus_infinity() -> OperatorLog:
    def centred(x: torch.Tensor) -> torch.Tensor:
        y = x.masked_fill(x > 0, float("-inf"))
        return y - y.amin(-1, keepdim=True)  # fault

    return trained(Net(centred))


@fault("aten::_softmax", "layers.1")
def softmax_of_a_masked_row() -> OperatorLog:
    def attend(x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0], 4)
        mask[3] = float("-inf")
        return (x + mask).softmax(-1)  # fault

    return trained(Net(attend))


@fault("aten::addmm", "layers.0.fc", kind="given", marked=Scaled.forward)
def nan_in_one_row_of_a_batch() -> OperatorLog:
    x = torch.randn(8, 4)
    x[5, 2] = float("nan")
    return trained(Net(torch.tanh), x)


@fault("aten::addcdiv_", None, "optimizer")
def adam_without_epsilon() -> OperatorLog:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), eps=0.0)
    with tt.ops() as log:
        (model(torch.zeros(2, 4)) * 1.0).sum().backward()
        optimizer.step()  # fault
    return log


@fault("aten::_foreach_addcdiv_", None, "optimizer")
def foreach_adam_without_epsilon() -> OperatorLog:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), eps=0.0, foreach=True)
    with tt.ops() as log:
        (model(torch.zeros(2, 4)) * 1.0).sum().backward()
        optimizer.step()  # fault
    return log


@fault("aten::_to_copy", None, "backward")
def loss_scale_overflow() -> OperatorLog:
    model = nn.Linear(4, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.ops() as log:
        loss = (model(torch.ones(2, 4)) * 0 + 3).mean().half()
        scaler.scale(loss).backward()  # fault
        scaler.step(optimizer)
        scaler.update()
    return log


@fault("aten::fill_" if torch.__version__ >= (2, 15) else "aten::copy_", None)
def write_through_data() -> OperatorLog:
    model = Net(torch.tanh)
    with tt.ops() as log:
        model.head.weight.data[0, 1] = float("nan")  # fault
        model(torch.randn(2, 4)).sum().backward()
    return log


@fault("aten::addmm", "head", kind="appeared", marked=Net.forward)
def write_behind_the_dispatcher() -> OperatorLog:
    model = Net(torch.tanh)
    x = torch.randn(2, 4)
    with tt.ops() as log:
        model(x)
        ctypes.memset(model.head.weight.data_ptr(), 0xFF, 4)  # NaN
        model(x).sum().backward()
    return log


@fault("aten::log", None)
def loss_outside_of_any_module() -> OperatorLog:
    model = nn.Linear(4, 3)
    with tt.ops() as log:
        p = model(torch.ones(2, 4)).softmax(-1) * torch.tensor([0.0, 1.0, 1.0])
        loss = -p.log()[:, 0].mean()  # fault
        loss.backward()
    return log


@fault("aten::div", "layers.1", "backward")
def nan_behind_where() -> OperatorLog:
    def guarded(x: torch.Tensor) -> torch.Tensor:
        y = x * (x > 0)
        root = y.sqrt()  # fault
        return torch.where(y > 0, root, 0.0)

    return trained(Net(guarded))


@fault("aten::addmm", "layers.1.fc", marked=Scaled.forward)
def overflow_of_a_product() -> OperatorLog:
    model = Net(lambda x: x * 1).half()
    with torch.no_grad():
        model.layers[1].fc.weight.fill_(60000.0)  # every input is positive
        model.layers[0].fc.weight.fill_(1.0)
    return trained(model, torch.ones(8, 4).half() * 9)


@fault("aten::div", "layers.1", "backward")
def own_function_with_a_bad_gradient() -> OperatorLog:
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x)
            return x.norm() * x.new_ones(x.shape)

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            (x,) = ctx.saved_tensors
            return g * x / (x - x).norm()  # fault

    return trained(Net(Norm.apply))


@fault("aten::div", "layers.1", "backward")
def fault_in_a_checkpoint() -> OperatorLog:
    def flat(x: torch.Tensor) -> torch.Tensor:
        return (x * 0).sqrt()  # fault

    return trained(Net(lambda x: checkpoint(flat, x, use_reentrant=False)))


@fault("aten::native_layer_norm", "layers.1")
def layer_norm_of_a_constant_without_epsilon() -> OperatorLog:
    return trained(Net(lambda x: F.layer_norm(x * 0, (4,), eps=0.0)))  # fault


@fault("aten::div", None)
def gradient_divided_by_its_norm() -> OperatorLog:
    model = nn.Linear(4, 1)
    with tt.ops() as log:
        (model(torch.ones(2, 4)) * 0).sum().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            torch.div(parameter.grad, parameter.grad.norm(), out=parameter.grad)  # fault
    return log


@fault("aten::reciprocal", "layers.1")
def complex_reciprocal_of_zero() -> OperatorLog:
    return trained(Net(lambda x: torch.complex(x * 0, x * 0).reciprocal().real))  # fault


def line_of(one: Fault) -> int:
    """Return the number of the line that is marked."""
    lines, first = inspect.getsourcelines(one.marked)
    return next(first + i for i, line in enumerate(lines) if "# fault" in line)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str) -> None:
    torch.manual_seed(0)
    if "torch._dynamo.utils" in sys.modules:  # another test compiled something
        sys.modules["torch._dynamo.utils"].counters.clear()
    one = FAULTS[name]
    found = one.program().first_bad
    assert found is not None
    assert (found.kind, found.operator.name) == (one.kind, one.operator)
    assert (found.phase, found.module) == (one.phase, one.module)
    assert (found.operator.file, found.operator.number) == (__file__, line_of(one))
    assert found.certain == (one.kind in ("created", "given"))
    if name == "nan_in_one_row_of_a_batch":
        assert found.tensor.first_rows == (5,)
