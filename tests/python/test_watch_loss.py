"""What backward() is called on is recorded, with the program's line."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import answer, tensortap
from recorded import batch, mlp, record

import tensortap as tt

torch = pytest.importorskip("torch")
nn = torch.nn
HERE = Path(__file__).name


def line() -> int:
    """Give the line of the caller."""
    return sys._getframe(1).f_lineno


def site_of(run: tt.Run) -> str:
    (name,) = run.names("loss/*")
    return name


def test_the_loss_is_recorded_at_each_step_under_the_programs_line(tmp_path: Path) -> None:
    model, losses = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model):
        for step in range(3):
            loss = model(batch(step)).square().mean()
            at, _ = line(), loss.backward()
            optimizer.step()
            losses.append(loss.item())
    run = tt.open(tmp_path / "run")
    assert site_of(run) == f"loss/{HERE}:{at}"
    steps, values = run.series(site_of(run), "mean")
    assert list(steps) == [0, 1, 2]
    assert [pytest.approx(value) for value in values] == losses


def test_losses_of_accumulated_gradients_are_calls_of_one_step(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(_: object) -> None:
        for step in range(2):
            for part in range(3):
                model(batch(step + part)).mean().backward()
            optimizer.step()

    found = record(tmp_path, model, train)
    points = [p for p in found if p.site.startswith("loss/")]
    assert [(p.step, p.call) for p in points] == [(s, c) for s in range(2) for c in range(3)]


@pytest.mark.parametrize("grads", ["parameters", "activations", None])
def test_a_loss_is_seen_once_however_many_models_and_checkpoints_it_goes_through(
    tmp_path: Path, grads: Any
) -> None:
    from torch.utils.checkpoint import checkpoint

    first, second = mlp(), nn.Linear(2, 1)
    with tt.record(tmp_path / "run", model=first, grads=grads):
        tt.watch(second, grads=grads)
        x = batch(0).requires_grad_()
        for _ in range(2):
            hidden = checkpoint(first, x, use_reentrant=True)
            second(hidden).sum().backward()
    run = tt.open(tmp_path / "run")
    assert len(run.series(site_of(run), "mean")[0]) == 2


def test_all_tensors_given_to_backward_are_recorded(tmp_path: Path) -> None:
    model = mlp()
    with tt.record(tmp_path / "run", model=model):
        other = model(batch(1))
        one = other.sum()
        torch.autograd.backward([one, other], [None, torch.ones_like(other)])
    run = tt.open(tmp_path / "run")
    shapes = [run.stats(site_of(run), 0, call=call).shape for call in (0, 1)]
    assert shapes == [(), (3, 2)]


def test_the_loss_of_a_compiled_model_is_recorded_and_nothing_is_compiled_anew(
    tmp_path: Path,
) -> None:
    from torch._dynamo.utils import counters

    def losses(folder: Path | None) -> tuple[list[float], int]:
        torch._dynamo.reset()
        counters.clear()
        model, out = mlp(), []
        fast = torch.compile(model, backend="aot_eager", fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        run = tt.record(folder, model=fast) if folder else None
        for step in range(3):
            loss = fast(batch(step)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        if run is not None:
            run.close()
        return out, counters["stats"]["unique_graphs"]

    plain, watched = losses(None), losses(tmp_path / "run")
    assert watched == plain
    run = tt.open(tmp_path / "run")
    assert [pytest.approx(v) for v in run.series(site_of(run), "mean")[1]] == plain[0]


class Elsewhere(torch.autograd.Function):
    """Calls a hook in a thread of its own while backward() waits, as torch does for a GPU."""

    hook: Any = None
    parameter: Any = None

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=Elsewhere.hook, args=(Elsewhere.parameter,))
        thread.start()
        thread.join()
        return grad


def test_a_gradient_in_a_thread_of_torchs_own_finds_the_loss_of_the_thread_that_waits(
    tmp_path: Path,
) -> None:
    model = mlp()
    run = tt.record(tmp_path / "run")
    watched = tt.watch(model)
    Elsewhere.hook, Elsewhere.parameter = watched.core.parameter_hook(0), model[0].weight
    loss = Elsewhere.apply(torch.ones((), requires_grad=True))  # reaches no parameter
    at, _ = line(), loss.backward()
    run.close()
    found = tt.open(tmp_path / "run")
    assert site_of(found) == f"loss/{HERE}:{at}"
    assert len(found.series(site_of(found), "mean")[0]) == 1


# ---- what `nan` says of it


def diverge(folder: Path, *, logs: bool = False, **options: Any) -> int:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    at = 0
    with tt.record(folder, model=model, **options) as run:
        for step in range(3):
            loss = (model(batch(step)).abs().mean() * (step != 1)).log()
            if logs:
                run.log("loss", loss)
            optimizer.zero_grad()
            at, _ = line(), loss.backward()
            optimizer.step()
    return at


@pytest.mark.parametrize("logs", [False, True])
def test_nan_names_the_line_of_a_loss_that_no_module_computed(tmp_path: Path, logs: bool) -> None:
    at = diverge(tmp_path / "run", logs=logs)
    found = answer("nan", "run", folder=tmp_path)
    assert (found["site"], found["birth"]) == (f"loss/{HERE}:{at}", "loss")
    assert (found["point"]["step"], found["point"]["neginf"]) == (1, 1)
    first = tt.open(tmp_path / "run").first_nonfinite
    assert first is not None
    assert (first.name, first.birth) == (f"loss/{HERE}:{at}", "loss")
    text = tensortap("nan", "run", folder=tmp_path).stdout
    where = f"born in the loss (backward() at {HERE}:{at}); recorded module outputs were finite"
    assert where in text.splitlines()


def test_a_bad_loss_can_stop_the_program_before_the_optimizer_steps(tmp_path: Path) -> None:
    with pytest.raises(tt.NonFiniteError, match=rf"1 -Inf in loss/{HERE}:\d+ at step 1"):
        diverge(tmp_path / "run", on_nonfinite="raise")


def test_nan_claims_nothing_of_a_loss_that_was_not_recorded(tmp_path: Path) -> None:
    diverge(tmp_path / "run", exclude="loss/*")
    text = tensortap("nan", "run", folder=tmp_path).stdout
    assert "born in the backward pass, or in a loss that was not seen; recorded module" in text
    assert "look next at the gradients of outputs: tensortap run --grads all" in text


def test_nan_says_if_the_loss_was_finite(tmp_path: Path) -> None:
    model = mlp()
    model[0].weight.register_hook(lambda grad: grad * torch.inf)
    with tt.record(tmp_path / "run", model=model):
        model(batch(0)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    text = tensortap("nan", "run", folder=tmp_path).stdout
    assert "born in the backward pass; the loss was finite; recorded module outputs were" in text


def test_nan_says_of_a_parameter_only_since_when(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run", model=model, every=3, only="parameter/*"):
        for step in range(4):
            optimizer.zero_grad()
            (model(batch(step)).sum() * (torch.inf if step == 1 else 1)).backward()
            optimizer.step()
    text = tensortap("nan", "run", folder=tmp_path).stdout
    assert "born by an update after step 0" in text


def test_a_loss_that_a_scaler_scaled_is_recorded_as_it_was_before(tmp_path: Path) -> None:
    model, losses, scales = mlp(), [], []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    with tt.record(tmp_path / "run", model=model):
        for step in range(5):
            loss = model(batch(step)).square().mean()
            losses.append(loss.item())
            scales.append(scaler.get_scale())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    run = tt.open(tmp_path / "run")
    assert scales[-1] > scales[0]
    assert run.series("loss_scale")[1].tolist() == scales
    assert run.series(site_of(run), "mean")[1].tolist() == pytest.approx(losses)


def test_a_product_is_recorded_as_it_is_where_no_scaler_scales(tmp_path: Path) -> None:
    model, losses = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=False)
    with tt.record(tmp_path / "run", model=model):
        for step in range(3):
            loss = model(batch(step)).square().mean() * 3
            losses.append(loss.item())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            optimizer.zero_grad()
    run = tt.open(tmp_path / "run")
    assert run.series(site_of(run), "mean")[1].tolist() == losses
    assert run.names("loss_scale") == []
