"""Walk the table of steps in docs/ARCHITECTURE.md: after each event, which step is it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from commands import tensortap  # noqa: E402
from recorded import batch, mlp  # noqa: E402

import tensortap as tt  # noqa: E402


class Program:
    """A training that does what it is told, one word at a time."""

    def __init__(self, run: tt.Recording, model: Any, optimizers: str) -> None:
        self.run, self.model, self.at = run, model, model
        halves = {"a": model[0], "b": model[2]} if len(optimizers) > 1 else {"a": model}
        self.optimizers = {
            name: torch.optim.SGD(halves[name].parameters(), 0.01) for name in optimizers
        }
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        self.output: Any = None

    def do(self, word: str) -> None:
        if word == "forward":
            self.output = self.at(batch(0))
        elif word == "preview":  # an evaluation that forgot model.eval()
            with torch.no_grad():
                self.at(batch(0))
        elif word == "evaluate":
            self.model.eval()
            self.at(batch(0))
            self.model.train()
        elif word == "backward":
            self.output.sum().backward()
        elif word == "overflow":  # a step that GradScaler skips
            self.scaler.scale(self.output.sum() * torch.inf).backward()
            self.scaler.step(self.optimizers["a"])
            self.scaler.update()
            self.model.zero_grad()
        elif word == "scaled":
            self.scaler.scale(self.output.sum()).backward()
            self.scaler.step(self.optimizers["a"])
            self.scaler.update()
            self.model.zero_grad()
        elif word == "compile":
            self.at = torch.compile(self.model, backend="eager")
        elif word == "step()":
            self.run.step()
        else:
            self.optimizers[word].step()
            self.model.zero_grad()


# optimizers, words, and after each word the step of what the program logs then
ROWS: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "an optimizer": (
        "a",
        [("forward", 0), ("backward", 0), ("a", 0), ("forward", 1), ("backward", 1), ("a", 1)],
    ),
    "accumulation": (
        "a",
        [*(2 * [("forward", 0), ("backward", 0)]), ("a", 0), ("forward", 1), ("forward", 1)],
    ),
    "evaluation between": (
        "a",
        [("forward", 0), ("backward", 0), ("a", 0), ("evaluate", 0), ("forward", 1)],
    ),
    "evaluation in training mode": (
        "a",
        [
            *(("forward", 0), ("backward", 0), ("a", 0), ("preview", 0), ("preview", 0)),
            *(("forward", 1), ("preview", 1), ("backward", 1), ("a", 1), ("preview", 1)),
        ],
    ),
    "rollouts": (
        "a",
        [
            *(("preview", 0), ("forward", 0), ("backward", 0), ("a", 0)),
            *(("preview", 1), ("forward", 1), ("backward", 1), ("a", 1)),
        ],
    ),
    "two optimizers": (
        "ab",
        [
            *(("forward", 0), ("backward", 0), ("a", 0), ("b", 0)),
            *(("forward", 1), ("backward", 1), ("a", 1), ("forward", 1), ("b", 1), ("forward", 2)),
        ],
    ),
    "one of two steps twice": (
        "ab",
        [("forward", 0), ("backward", 0), ("a", 0), ("b", 0), ("a", 1), ("b", 1), ("forward", 2)],
    ),
    "an optimizer without a forward": ("a", [("a", 0), ("a", 1), ("forward", 2), ("a", 2)]),
    "a preview, then an optimizer": (
        "a",
        [("forward", 0), ("backward", 0), ("a", 0), ("preview", 0), ("a", 1), ("forward", 2)],
    ),
    "a step that GradScaler skips": (
        "a",
        [
            *(("forward", 0), ("scaled", 0), ("forward", 1), ("overflow", 1)),
            *(("forward", 2), ("scaled", 2), ("forward", 3)),
        ],
    ),
    "no optimizer": ("", [("forward", 0), ("forward", 1), ("preview", 2), ("evaluate", 2)]),
    "by hand": (
        "a",
        [
            *(("forward", 0), ("backward", 0), ("a", 0), ("step()", 1)),
            *(("preview", 1), ("forward", 1), ("a", 1), ("forward", 1), ("step()", 2)),
        ],
    ),
    "compiled": (
        "a",
        [
            *(("compile", 0), ("forward", 0), ("backward", 0), ("a", 0)),
            *(("preview", 0), ("forward", 1), ("backward", 1), ("a", 1)),
        ],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_event_leaves_the_run_in_the_step_of_the_table(tmp_path: Path, row: str) -> None:
    optimizers, words = ROWS[row]
    model = mlp()
    with tt.record(tmp_path / "run", model=model) as run:
        program = Program(run, model, optimizers)
        for i, (word, _) in enumerate(words):
            program.do(word)
            run.log(f"after/{i}", i)
    read = tt.open(tmp_path / "run")
    found = [(word, int(read.series(f"after/{i}")[0][0])) for i, (word, _) in enumerate(words)]
    assert found == words


def test_tensors_of_an_evaluation_in_training_mode_come_after_the_update(tmp_path: Path) -> None:
    model = mlp()
    with tt.record(tmp_path / "run", model=model) as run:
        program = Program(run, model, "a")
        for word in ("forward", "backward", "a", "preview", "forward", "backward", "a"):
            program.do(word)
    assert tt.open(tmp_path / "run").series("activation/0")[0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("is_last", [True, False])
def test_a_last_step_of_forwards_alone_is_noted(tmp_path: Path, is_last: bool) -> None:
    model = mlp()
    with tt.record(tmp_path / "run", model=model) as run:
        program = Program(run, model, "a")
        for word in ("forward", "backward", "a", *(["forward"] if is_last else [])):
            program.do(word)
    notes = [one.text for one in tt.open(tmp_path / "run").notes]
    noted = "step 1, the last, has no step of an optimizer"
    assert notes == ([noted] if is_last else [])
    shown = tensortap("show", "run", folder=tmp_path).stdout
    assert (f"{noted}: it has forwards only" in shown) == is_last
