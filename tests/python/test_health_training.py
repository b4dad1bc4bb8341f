"""The rules of health over models that are really trained: modes of their parts, labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tensortap as tt

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


class Model(nn.Module):  # type: ignore[misc, name-defined]
    """A trunk with dropout and batch norm, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 16)
        )
        self.head = nn.Linear(16, 3)

    def forward(self, x: object) -> object:
        return self.head(self.trunk(x).relu())


def train(
    path: Path,
    model: nn.Module,
    *,
    loss: Callable[..., object] = F.cross_entropy,
    labels: Callable[[object], object] = lambda x: (x[:, 0] > 0).long(),
    evaluate: Callable[[nn.Module], object] | None = None,
    steps: int = 40,
    lr: float = 0.05,
) -> list[tt.findings.Finding]:
    torch.manual_seed(0)
    some = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(some, lr)
    with tt.record(path, model=model):
        for step in range(steps):
            x = torch.randn(16, 8)
            optimizer.zero_grad()
            loss(model(x), labels(x)).backward()
            optimizer.step()
            if evaluate is not None and step % 10 == 9:
                with torch.no_grad():
                    evaluate(model)
    return list(tt.health(path))


def test_a_part_that_is_trained_in_evaluation_mode_is_named(tmp_path: Path) -> None:
    """As a pretrained trunk that came in evaluation mode, in a model that is new."""
    model = Model()
    model.trunk.eval()
    [one] = train(tmp_path / "run", model)
    assert (one.rule, one.sites) == ("training-in-eval-mode", ("tensortap/mode/trunk",))
    assert one.sentence == (
        "trunk: in evaluation mode while the model is trained, from step 0 on: it has dropout and "
        "1 batch norm"
    )


def freeze(model: nn.Module) -> None:
    for parameter in model.trunk.parameters():
        parameter.requires_grad = False
    model.trunk.eval()


@pytest.mark.parametrize(
    "change",
    [freeze, lambda model: model.trunk[1].eval(), lambda model: model.trunk[3].eval()],
    ids=["frozen trunk", "frozen norm", "dropout off"],
)
def test_a_mode_that_is_meant_so_is_no_finding(
    tmp_path: Path, change: Callable[[nn.Module], object]
) -> None:
    model = Model()
    change(model)
    assert [one for one in train(tmp_path / "run", model) if "mode" in one.rule] == []


def test_a_part_that_stays_in_training_mode_in_evaluations_is_named(tmp_path: Path) -> None:
    def evaluate(model: nn.Module) -> None:
        model.eval()
        model.trunk.train()
        model(torch.randn(4, 8))
        model.train()

    [one] = train(tmp_path / "run", Model(), evaluate=evaluate)
    assert (one.rule, one.sites) == ("evaluation-in-train-mode", ("tensortap/mode/trunk",))

    def estimate(model: nn.Module) -> None:  # how sure it is, from dropout
        model.eval()
        model.trunk[3].train()
        model(torch.randn(4, 8))
        model.train()

    assert train(tmp_path / "meant", Model(), evaluate=estimate) == []


def test_labels_outside_of_what_the_loss_takes_are_found(tmp_path: Path) -> None:
    def binary(output: object, label: object) -> object:
        return F.binary_cross_entropy_with_logits(output[:, 0], label) / 2

    found = train(
        tmp_path / "binary", Model(), loss=binary, labels=lambda x: (x[:, 0] > 0) * 9.0, steps=15
    )
    assert [one.rule for one in found] == ["labels"], found
    assert "a binary cross entropy, so labels are outside of 0 to 1" in found[0].sentence
    found = train(tmp_path / "nll", Model(), loss=F.nll_loss)  # without log_softmax
    assert [one.rule for one in found if one.severity == "error"] == ["labels"], found
    model = Model()
    with pytest.raises(IndexError, match="out of bounds"):
        train(tmp_path / "class", model, labels=lambda x: torch.full((16,), 3))
    [one] = tt.health(tmp_path / "class")
    assert one.sentence == (
        "a label is no class of the model, and ended the program: Target 3 is out of bounds."
    )


@pytest.mark.parametrize("loss", ["binary", "negated", "cross entropy"])
def test_losses_with_right_labels_are_no_finding(tmp_path: Path, loss: str) -> None:
    functions: dict[str, Callable[..., object]] = {
        "binary": lambda y, t: F.binary_cross_entropy_with_logits(y[:, 0], t.float()),
        "negated": lambda y, t: -0.01 * F.cross_entropy(y, t),  # an adversary's
        "cross entropy": F.cross_entropy,
    }
    found = train(tmp_path / "run", Model(), loss=functions[loss])
    assert [one for one in found if one.rule == "labels"] == []


class Scaled(nn.Module):  # type: ignore[misc, name-defined]
    """A scale of ones, in front of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: object) -> object:
        return self.fc(x.to(self.scale.dtype) * self.scale).float()


def test_updates_that_bfloat16_rounds_away_are_found(tmp_path: Path) -> None:
    """Judged by elements: some of the layer's weights are small enough to change."""
    model = Scaled().bfloat16()
    with torch.no_grad():
        model.fc.weight.fill_(1.0)
        model.fc.weight[0, 0] = 1e-4  # the sum changes at every step
    [one] = train(tmp_path / "run", model, lr=1e-4, steps=80)
    assert one.rule == "weights-unchanged"
    assert one.sites[0] == "parameter/scale"
    assert "bfloat16" in one.sentence
    assert "float32" in one.remedy
    assert train(tmp_path / "float32", Scaled(), lr=1e-4, steps=80) == []
    assert train(tmp_path / "larger", Scaled().bfloat16(), lr=0.3, steps=80) == []


def test_a_module_that_forward_never_calls_is_said_to_be_so(tmp_path: Path) -> None:
    model = Model()
    model.extra = nn.Linear(4, 4)
    [one] = train(tmp_path / "run", model)
    assert (one.rule, one.place) == ("gradient-missing", "extra (2 parameters)")
    assert "forward was not seen to use them" in one.sentence
    assert "detach" not in one.remedy


def test_a_training_without_an_optimizer_is_not_called_healthy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    with tt.record(tmp_path / "run", model=model) as run:
        for _ in range(30):
            x = torch.randn(16, 8)
            F.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
            run.step()
    found = tt.health(tmp_path / "run")
    assert not found.items
    assert found.verdict.endswith("rules had no data: no optimizer")
