"""`nan` and `diff` on real trainings whose trouble is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from commands import answer, tensortap

import tensortap as tt

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402


class Block(nn.Module):
    """A layer with a residual path."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    """Four blocks under a name of the caller's choice."""

    def __init__(self, layers: str = "layers", width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.name = layers
        self.add_module(layers, nn.ModuleList(Block(width) for _ in range(4)))
        self.head = nn.Linear(width, 4)

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for block in getattr(self, self.name):
            x = block(x)
        return self.head(x)


Break = Callable[[nn.Module, int], None]


def train(
    path: Path,
    *,
    steps: int = 6,
    layers: str = "layers",
    order: Callable[[int], int] = lambda step: step,
    autocast: bool = False,
    breaks: Break | None = None,
    scaler: Any = None,
) -> None:
    """Train for a few steps, the same every time but for what is asked for."""
    torch.manual_seed(0)
    model = Net(layers)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with tt.record(path), tt.watch(model):
        for step in range(steps):
            if breaks is not None:
                breaks(model, step)
            x = torch.randn(64, 8, generator=torch.Generator().manual_seed(order(step)))
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
                loss = model(x).float().square().mean()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()


@contextmanager
def output_of(module: nn.Module, change: Callable[[Any], Any]) -> Iterator[None]:
    """Change what a module puts out."""
    handle = module.register_forward_hook(lambda _m, _i, out: change(out))
    try:
        yield
    finally:
        handle.remove()


def hook_from(step: int, path: str, change: Callable[[Any], Any]) -> Break:
    """Change the output of a module from a step on."""

    def breaks(model: nn.Module, now: int) -> None:
        if now == step:
            model.get_submodule(path).register_forward_hook(lambda _m, _i, out: change(out))

    return breaks


def spoil(x: Any) -> Any:
    """Put a NaN where it then spreads from."""
    return x.index_fill(1, torch.tensor([0]), torch.nan)


# ---- nan


def test_show_begins_with_the_site_that_was_not_finite_first(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as recording:
        for step in range(4):
            for site, since in (("late", 3), ("first", 1), ("fine", 9), ("later", 2)):
                bad = torch.nan if step >= since else 1.0
                recording.tensor(site, torch.tensor([bad, float(step)]))
            recording.step()
    shown = tensortap("show", "run", folder=tmp_path).stdout.splitlines()
    [found] = [line for line in shown if line.startswith("error")]
    assert found.startswith("error    nonfinite  first: the first NaN at step 1;")
    assert found.endswith("it reached 3 sites")


@pytest.mark.parametrize("step", [0, 3])
def test_nan_names_the_module_where_it_was_born(tmp_path: Path, step: int) -> None:
    train(tmp_path / "run", breaks=hook_from(step, "layers.2.up", spoil))
    found = answer("nan", "run", folder=tmp_path)
    assert (found["site"], found["point"]["step"]) == ("activation/layers.2.up", step)
    assert found["birth"] == "forward"
    assert found["point"]["nan"] == 64
    assert found["reached"] > 5
    assert tensortap("nan", "run", folder=tmp_path).returncode == 1


class HalfRoot(torch.autograd.Function):
    """Finite forwards, infinite backwards."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / 0


def test_nan_in_a_gradient_only_names_the_last_layer_it_reached_first(tmp_path: Path) -> None:
    train(tmp_path / "run", breaks=hook_from(2, "layers.1.down", HalfRoot.apply))
    found = answer("nan", "run", folder=tmp_path)
    assert found["birth"] == "backward"
    assert found["site"].startswith("gradient/layers.1.down.")
    assert found["point"]["step"] == 2


class Masked(nn.Module):
    """Scores with a causal mask of -inf, as attention has them."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = Mask()
        self.project = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        scores = self.mask(self.project(x) @ x.T)
        return scores.softmax(-1) @ x


class Mask(nn.Module):
    """Fills what must not be seen."""

    def forward(self, scores: Any) -> Any:
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)


def test_masks_that_are_meant_need_no_leave(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(tmp_path / "run"), tt.watch(model):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 8)).square().mean().backward()
            optimizer.step()
    found = answer("nan", "run", folder=tmp_path)
    assert (found["found"], found["masked"], found["masked_example"]) == (
        False,
        1,
        "activation/mask",
    )
    allowed = answer("nan", "run", "--allow", "*mask", folder=tmp_path)
    assert (allowed["found"], allowed["allowed"], allowed["masked"]) == (False, 1, 0)


def test_nan_on_rank_1_only_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        train(tmp_path / "run", breaks=hook_from(2, "layers.0", spoil) if rank else None)
    found = answer("nan", "run", folder=tmp_path)
    assert (found["rank"], found["site"]) == (1, "activation/layers.0")
    assert "rank 1" in tensortap("nan", "run", folder=tmp_path).stdout


def test_nan_after_ten_thousand_good_steps_is_found(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    with tt.record(tmp_path / "run") as run, tt.watch(model):
        for step in range(10_003):
            if step == 10_001:
                model[2].register_forward_hook(lambda _m, _i, out: out * torch.nan)
            model(torch.ones(2, 4))
            run.step()
    found = answer("nan", "run", folder=tmp_path)
    assert (found["site"], found["point"]["step"]) == ("activation/2", 10_001)


def test_nan_in_a_step_that_the_scaler_skipped_is_found_and_called_skipped(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def once(model: nn.Module, step: int) -> None:
        if step == 2:
            handle = model.get_submodule("layers.3.up").register_forward_hook(
                lambda _m, _i, out: (handle.remove(), HalfRoot.apply(out))[1]
            )

    train(tmp_path / "run", breaks=once, scaler=scaler)
    found = answer("nan", "run", folder=tmp_path)
    assert found["site"].startswith("gradient/layers.3.up.")
    assert found["point"]["step"] == 2
    assert found["point"]["skipped"] is True
    assert "skipped" in tensortap("nan", "run", folder=tmp_path).stdout
    weights = tt.open(tmp_path / "run").stats("parameter/layers.3.up.weight")
    assert not any(stats.nan for stats in weights)  # the skip saved them


# ---- diff


def test_the_same_seed_twice_is_identical(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b")
    done = tensortap("diff", "a", "b", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("identical\n")


def test_one_changed_weight_is_where_they_part(tmp_path: Path) -> None:
    def nudge(model: nn.Module, step: int) -> None:
        if step == 0:
            with torch.no_grad():
                model.get_parameter("layers.1.up.weight")[0, 0] += 0.5

    train(tmp_path / "a")
    train(tmp_path / "b", breaks=nudge)
    found = answer("diff", "a", "b", folder=tmp_path)
    assert (found["verdict"], found["first"]) == ("differs", "parameter/layers.1.up.weight")
    first = next(site for site in found["sites"] if site["site"] == found["first"])
    assert first["first_step"] == 0


def test_another_order_of_batches_parts_at_the_first_that_differs(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", order=lambda step: {3: 4, 4: 3}.get(step, step))
    found = answer("diff", "a", "b", folder=tmp_path)
    assert (found["verdict"], found["first"]) == ("differs", "activation/embed")
    first = next(site for site in found["sites"] if site["site"] == found["first"])
    assert first["first_step"] == 3


def test_a_shorter_run_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", steps=4)
    done = tensortap("diff", "a", "b", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("identical\n")
    assert "only in a" in done.stdout


def test_layers_under_another_name_are_paired(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", layers="blocks")
    done = tensortap("diff", "a", "b", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("identical\n")
    assert "'layers' in names of the first matches 'blocks' in the second" in done.stdout


def test_autocast_is_noise(tmp_path: Path) -> None:
    train(tmp_path / "a", steps=1)
    train(tmp_path / "b", steps=1, autocast=True)
    done = tensortap("diff", "a", "b", folder=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0] == "a setting differs: torch/autocast is off against torch.bfloat16 on cpu"
    assert (done.returncode, lines[2]) == (0, "within noise: no more than rounding")


def test_autocast_stays_noise_over_steps(tmp_path: Path) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", autocast=True)
    assert tensortap("diff", "a", "b", folder=tmp_path).returncode == 0


@pytest.mark.parametrize("layer", ["layers.0.down", "layers.2.up", "layers.3.norm", "head"])
def test_a_fault_of_one_percent_is_told_apart_from_autocast(tmp_path: Path, layer: str) -> None:
    train(tmp_path / "a")
    train(tmp_path / "b", autocast=True, breaks=hook_from(0, layer, lambda out: out * 1.01))
    found = answer("diff", "a", "b", folder=tmp_path)
    assert (found["verdict"], found["first"]) == ("differs", f"activation/{layer}")


def test_one_rank_against_two_compares_what_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path / "one")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        train(tmp_path / "two")
    done = tensortap("diff", "one", "two", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("identical in the sites that both have\n")
    assert "only in two" in done.stdout


def test_a_tensor_without_finite_values_has_no_range(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(2):
            run.tensor("activation/mask", torch.full((3,), torch.inf if step else 1.0))
            run.step()
    lines = tensortap("nan", "run", folder=tmp_path, COLUMNS="80").stdout.splitlines()
    assert lines[1] == "born in the forward pass; nothing was recorded before it in this step"
    (row,) = (line for line in lines if line.startswith("here"))
    assert row.split() == ["here", "activation/mask", "1", "f32[3]", "3", "Inf"]


def test_examples_are_written_and_never_overwritten(tmp_path: Path) -> None:
    ours = sorted(path.name for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
    done = tensortap("examples", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "examples").iterdir()) == ours
    (tmp_path / "examples" / ours[0]).write_text("mine")
    (tmp_path / "examples" / ours[1]).unlink()
    assert tensortap("examples", "examples", folder=tmp_path).stdout.startswith("1 program written")
    assert (tmp_path / "examples" / ours[0]).read_text() == "mine"


def test_points_of_other_shapes_have_their_own_in_stats(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for rows in (16, 16, 1):
            run.tensor("x", torch.ones(rows, 4))
            run.step()
    text = tensortap("stats", "run", "x", folder=tmp_path).stdout.splitlines()
    assert text[0] == "x  types differ"
    assert text[1].split()[:3] == ["STEP", "CALL", "TYPE"]
    assert [line.split()[2] for line in text[2:5]] == ["f32[16,4]", "f32[16,4]", "f32[1,4]"]
    text = tensortap("stats", "run", "x", "--step", "0:1", folder=tmp_path).stdout.splitlines()
    assert text[0] == "x  float32[16, 4]"
