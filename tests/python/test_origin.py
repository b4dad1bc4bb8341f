"""Every answer names the same origin of a NaN, and says no more than was seen.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import tensortap

import tensortap as tt
from tensortap import _core
from tensortap.blackbox import file as box_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

X = torch.linspace(-1.0, 1.0, 12).reshape(4, 3)
CAUSAL = torch.triu(torch.full((4, 4), -torch.inf), 1)


def answer(command: str, folder: Path, *options: str) -> dict[str, Any]:
    done = tensortap(command, "run", *options, folder=folder)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def nan_and_health(folder: Path) -> dict[str, Any]:
    """Return what nan says, after health has said the same."""
    found = answer("nan", folder, "--json")
    (finding,) = [
        one
        for one in answer("health", folder, "--format", "json")["findings"]
        if one["rule"] == "nonfinite"
    ]
    assert finding["sites"] == [found["site"]]
    assert finding["first_step"] == found["point"]["step"]
    return found


class Calls(nn.Module):
    """A module without weights that calls a function."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


class Attention(nn.Module):
    """Attention with an additive mask, in modules of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)
        self.scores = Calls(lambda q, mask: q @ q.transpose(-1, -2) + mask)
        self.softmax = nn.Softmax(-1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q = self.project(x)
        return self.softmax(self.scores(q, mask)) @ q


def train(model: nn.Module, steps: int, *inputs: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()


# ---- masks


def test_a_causal_mask_raises_nothing_and_is_healthy(tmp_path: Path) -> None:
    model = Attention()
    options: dict[str, Any] = {"inputs": True, "grads": "all", "on_nonfinite": "raise"}
    with tt.record(tmp_path / "run", model=model, health="stop", black_box=4, **options):
        train(model, 20, X, CAUSAL)
    assert not (tmp_path / "run" / "blackbox").exists()
    assert tt.health(tmp_path / "run").errors == ()
    assert "hold only -Inf where masks do" in tt.health(tmp_path / "run").left_out
    found = answer("nan", tmp_path, "--json")
    assert (found["found"], found["masked"]) == (
        False,
        4,
    )  # given twice, scores, given to the softmax
    said = tensortap("nan", "run", folder=tmp_path).stdout
    assert "4 sites hold only -Inf where masks do, such as input/" in said


@pytest.mark.parametrize("how", ["exclude", "allow"])
def test_what_was_excluded_or_allowed_raises_nothing(tmp_path: Path, how: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), Calls(lambda x: x / 0), Calls(torch.zeros_like))
    options: dict[str, Any] = {how: "activation/1"}
    with tt.record(tmp_path / "run", model=model, on_nonfinite="raise", **options):
        model(X)
    assert tt.health(tmp_path / "run", allow="activation/1").errors == ()
    tt.assert_healthy(tmp_path / "run", allow="activation/1")
    assert tt.first_nonfinite(tmp_path / "run", allow="activation/1") is None
    if how == "allow":
        assert tensortap("health", "run", folder=tmp_path).returncode == 1
        allowed = tensortap("health", "run", "--allow", "activation/1", folder=tmp_path)
        assert allowed.returncode == 0
        with pytest.raises(tt.UnhealthyError):
            tt.assert_healthy(tmp_path / "run")


def test_minus_inf_of_a_layer_is_no_mask(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(-1))
    with torch.no_grad():
        model[0].bias[0] = -torch.inf
    with tt.record(tmp_path / "run", model=model):
        model(X)
    assert nan_and_health(tmp_path)["site"] == "activation/0"


def test_a_minus_inf_that_becomes_nan_leads_to_its_cause(tmp_path: Path) -> None:
    """The log of zero comes once; a mask is there in every step."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(-1), Calls(torch.log), Calls(lambda x: x * 0))

    def run_five_steps() -> None:
        with tt.record(tmp_path / "run", model=model, on_nonfinite="raise", black_box=4) as run:
            for step in range(5):
                if step == 3:
                    with torch.no_grad():
                        model[0].bias[0] = -1000.0  # it gets a probability of 0
                model(X)
                run.step()

    with pytest.raises(tt.NonFiniteError, match=r"-Inf in activation/2 at step 3") as caught:
        run_five_steps()
    assert caught.value.neginf == 4
    found = nan_and_health(tmp_path)
    assert (found["site"], found["point"]["step"]) == ("activation/2", 3)
    assert fault_of(tmp_path / "run") == "-Inf in activation/2"


def test_a_row_that_is_masked_whole_is_born_in_the_softmax(tmp_path: Path) -> None:
    model = Attention()
    mask = torch.full((4, 4), -torch.inf)
    with tt.record(tmp_path / "run", model=model, inputs=True):
        train(model, 1, X, mask)
    found = nan_and_health(tmp_path)
    assert found["site"] == "activation/softmax"
    assert found["fed_by"][0]["neginf"] == 16  # what it was given


# ---- micro-batches


def test_what_fed_a_nan_is_of_its_own_micro_batch(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Identity(), Calls(torch.sqrt), nn.Linear(1, 1))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.fill_(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with tt.record(tmp_path / "run", model=model):
        for _ in range(3):
            for value in (1.0, 4.0, -9.0):
                model(torch.full((2, 1), value)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    found = nan_and_health(tmp_path)
    assert (found["site"], found["point"]["call"]) == ("activation/2", 2)
    before = [one for one in found["fed_by"] if one["role"] == "before"]
    assert [(one["site"], one["call"], one["min"]) for one in before] == [
        ("activation/1", 2, -9.0),
        ("activation/0", 2, -9.0),
    ]
    assert found["order"] == answer("nan", tmp_path, "--json")["order"]


def test_no_loss_feeds_a_forward_pass(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.root = nn.Linear(1, 1), Calls(torch.sqrt)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.root(self.embed(x))
            return y, y.mean()

    model = Model()
    with torch.no_grad():
        model.embed.weight.fill_(1.0)
        model.embed.bias.fill_(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with tt.record(tmp_path / "run", model=model):
        for value in (1.0, -1.0):
            model(torch.full((2, 1), value))[1].backward()
        optimizer.step()
    found = nan_and_health(tmp_path)
    assert (found["site"], found["point"]["call"]) == ("activation/root", 1)
    before = [one["site"] for one in found["fed_by"] if one["role"] == "before"]
    assert before == ["activation/embed"]


# ---- backward


class HalfRoot(torch.autograd.Function):
    """The identity, with a gradient that is not finite."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * math.nan


class Upside(nn.Module):
    """Registers its layers in another order than it calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first, self.middle = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.breaks = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.middle(self.first(x))
        return self.last(HalfRoot.apply(y) if self.breaks else y)


def fault_of(run: Path) -> str:
    (path,) = sorted(run.glob("blackbox/step*/rank0.safetensors"))
    return str(box_file.read_facts(path)[0]["text"])


@pytest.mark.parametrize("grads", ["parameters", "all"])
def test_a_nan_of_backward_is_named_alike_by_all(tmp_path: Path, grads: Any) -> None:
    def run() -> None:
        torch.manual_seed(0)
        model = Upside()
        tt.watch(model, grads=grads)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(4):
            model.breaks = step == 2
            optimizer.zero_grad()
            model(X).square().mean().backward()
            optimizer.step()
            if step == 2:
                return

    with tt.record(tmp_path / "run", black_box=2):
        run()
    found = nan_and_health(tmp_path)
    wanted = "activation_gradient/middle" if grads == "all" else "gradient/middle.bias"
    assert (found["site"], found["point"]["step"], found["together"]) == (wanted, 2, 0)
    assert fault_of(tmp_path / "run") == f"NaN in {wanted}"
    with tt.replay(tmp_path / "run", ops=False) as replay:
        run()
    assert replay.verdict == "bits"
    assert replay.result["found"] == [(f"NaN in {wanted}", 2)]


def test_gradients_that_were_read_together_claim_no_order(tmp_path: Path) -> None:
    model = Upside()
    model.breaks = True
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.record(tmp_path / "run"):
        model(X).sum().backward()
        tt.watch(model)  # it has seen no backward
        optimizer.step()
    found = nan_and_health(tmp_path)
    assert found["together"] == 4  # all but those of the last layer
    said = tensortap("nan", "run", folder=tmp_path).stdout
    assert "among 4 gradients that were read together" in said


# ---- spikes


def heavy_tail(steps: int, spike: int | None = None) -> list[float]:
    """Return losses whose noise has a heavy tail; *spike*: one is a million times too large."""
    rng = random.Random(7)
    losses = [
        2.0 * math.exp(-step / 8000) + 0.05 * rng.paretovariate(1.6) + 0.1 * rng.random()
        for step in range(steps)
    ]
    if spike is not None:
        losses[spike] *= 1e6
    return losses


@pytest.mark.parametrize("spike", [None, 20_000])
def test_a_spike_is_the_same_for_health_and_the_black_box(
    tmp_path: Path, spike: int | None
) -> None:
    losses = heavy_tail(30_000, spike)
    spikes = _core.Spikes()
    jumped = [step for step, loss in enumerate(losses) if spikes.see(loss, step)]
    with tt.record(tmp_path / "run") as run:
        for loss in losses:
            run.log("loss", loss)
            run.step()
    found = [one for one in tt.health(tmp_path / "run") if one.rule == "loss-spike"]
    assert jumped == ([] if spike is None else [spike])
    assert [one.first_step for one in found] == jumped


def test_health_and_nan_say_the_same_of_what_fed_it(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), Calls(lambda x: x / 0))
    with tt.record(tmp_path / "run", model=model):
        model(X)
    (found,) = tt.health(tmp_path / "run").errors
    (feed,) = found.feeds
    (fed,) = answer("nan", tmp_path, "--json")["fed_by"]
    assert (found.kind, feed.role) == ("origin", "before")
    assert (feed.role, feed.site, feed.step) == (fed["role"], fed["site"], fed["step"])
