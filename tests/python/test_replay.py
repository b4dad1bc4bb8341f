"""A replayed step is the one that failed, to the bit."""

from __future__ import annotations

import random
from collections import UserDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info  # noqa: E402
from trained import train  # noqa: E402

import tensortap as tt  # noqa: E402

KINDS = [
    "mlp",
    "cnn",
    "lstm",
    "transformer",
    "accumulation",
    "scaler",
    "autocast",
    "checkpoint",
    "gan",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_step_is_reproduced_to_the_bit(kind: str, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=3):
        train(kind)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        train(kind, seed=77)  # nothing of this is needed
    assert replay.verdict == "bits", str(replay)
    assert replay.result["equal"] == replay.result["total"] >= 3


# ---- batches of all kinds


class Words(Dataset[Any]):
    """Rows of many types; one of them is bad."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        x = np.full(3, np.inf if i == 17 else i, dtype=np.float32)
        return {"x": x, "text": f"row {i}", "meta": {"ids": [i, i + 1], "none": None}}


class Stream(IterableDataset[Any]):
    """The same rows without numbers, in another order every time."""

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        mine = torch.randperm(24).tolist()
        part = mine if worker is None else mine[worker.id :: worker.num_workers]
        return (Words()[i] for i in part)


class Packed(UserDict[str, Any]):
    """A batch as some libraries make them."""


def collate(rows: list[Any]) -> Any:
    """Return NumPy, strings, nested dicts and an object."""
    return Packed(
        x=np.stack([row["x"] for row in rows]),
        text=[row["text"] for row in rows],
        meta=[row["meta"] for row in rows],
        pair=(np.float64(rows[0]["x"][0]), {"deep": [torch.tensor(1.5)]}),
    )


def train_on(loader: DataLoader[Any], seed: int, steps: int = 30) -> None:
    torch.manual_seed(seed)
    net = torch.nn.Linear(3, 1)
    tt.watch(net)
    optimizer = torch.optim.Adam(net.parameters())
    taken = 0
    while taken < steps:
        for batch in loader:
            x = torch.as_tensor(batch["x"])
            scale = len(batch["text"][0]) * (1.5 if taken < 0 else 1)
            (net(x).mean() * scale).backward()
            optimizer.step()
            optimizer.zero_grad()
            taken += 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("rows", {}),
        ("rows", {"num_workers": 2}),
        ("rows", {"num_workers": 2, "persistent_workers": True}),
        ("stream", {}),
        ("stream", {"num_workers": 2}),
    ],
)
def test_batches_of_all_loaders_come_back(kind: str, options: Any, tmp_path: Path) -> None:
    def loader() -> DataLoader[Any]:
        data = {"dataset": Words(), "shuffle": True} if kind == "rows" else {"dataset": Stream()}
        return DataLoader(batch_size=4, collate_fn=collate, **data, **options)

    with tt.record(tmp_path / "run", black_box=2):
        train_on(loader(), 0)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        train_on(loader(), 1)
    assert replay.verdict == "bits", str(replay)
    (row,) = replay.result["rows"]
    assert ("(row 17 of the dataset)" in row) == (kind == "rows")


def test_data_that_the_program_draws_itself_comes_out_the_same(tmp_path: Path) -> None:
    def loop(seed: int) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(60):
            x, y = torch.randn(5, 4) * random.random(), float(np.random.rand())
            x[0, 0] = torch.inf if y > 0.96 else 0
            (net(x) - y).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=3):
        loop(0)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(1)
    assert replay.verdict == "bits", str(replay)
    assert replay.result["replaced_inputs"] == 0


def test_kept_inputs_are_used_where_the_program_has_others(tmp_path: Path) -> None:
    def loop(run: Any, shift: float) -> None:
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(8):  # depends on the number of the step, which is another in a replay
            x = torch.full((2, 4), torch.nan if i == 5 else float(i + shift))
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=2) as run:
        loop(run, 0)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(replay, 0.5)
    assert replay.verdict == "bits", str(replay)
    assert "were not the kept ones, which were used instead" in str(replay)


def test_batches_by_hand_come_back(tmp_path: Path) -> None:
    def loop(run: Any, shift: float) -> None:
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(8):
            x, y = run.batch((torch.full((2, 4), float(i + shift)), torch.nan if i == 5 else 1.0))
            (net(x).sum() * y).backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=2) as run:
        loop(run, 0)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(replay, 0.5)
    assert replay.verdict == "bits", str(replay)
    assert replay.result["replaced_inputs"] == 0


# ---- other verdicts


def test_a_flipped_bit_is_not_reproduced(tmp_path: Path) -> None:
    def loop(flips: bool) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for i in range(12):
            loss = net(torch.randn(2, 4)).square().sum()
            if flips and i == 7:  # from outside, once: an exponent bit of a weight
                memory = net[0].weight.detach().numpy().view(np.uint32)
                memory[0, 0] |= 0x7F800000
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=3):
        loop(True)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(False)
    assert replay.verdict == "unreproduced", str(replay)
    assert "'i' was 7 then and is " in str(replay)
    assert "tensortap replay --from-start" in str(replay)
    with tt.replay(tmp_path / "run", ops=False, from_start=True) as replay:
        loop(False)
    assert replay.verdict == "transient", str(replay)
    assert "so the fault was transient (hardware or a race), from the program's first" in str(
        replay
    )


def test_a_fault_of_the_loop_comes_again_from_the_start(tmp_path: Path) -> None:
    def loop(seed: int = 0) -> None:
        torch.manual_seed(seed)
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for i in range(12):
            loss = net(torch.randn(2, 4)).square().sum() * (torch.inf if i == 9 else 1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=3):
        loop()
    with tt.replay(tmp_path / "run", ops=False, from_start=True) as replay:
        loop()
    assert replay.verdict == "bits", str(replay)
    assert "from the program's first step on" in str(replay)
    with tt.replay(tmp_path / "run", ops=False, from_start=True) as replay:
        loop(seed=1)  # other weights: the fault is there, and nothing else is the same
    assert replay.verdict == "noise", str(replay)


def test_plain_attributes_of_modules_optimizers_and_schedulers_come_back(tmp_path: Path) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.calls = torch.nn.Linear(4, 1), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.fc(x) * (torch.inf if self.calls == 10 else 1)

    seen = []

    def loop() -> None:
        torch.manual_seed(0)
        net = Counting()
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        optimizer.turns = 0  # type: ignore[attr-defined]
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
        for _ in range(12):
            seen.append((net.calls, optimizer.turns, scheduler.last_epoch))  # type: ignore[attr-defined]
            net(torch.randn(2, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            optimizer.turns += 1  # type: ignore[attr-defined]
            scheduler.step()

    with tt.record(tmp_path / "run", black_box=3):
        loop()
    seen.clear()
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop()
    assert replay.verdict == "bits", str(replay)
    assert seen[-1] == (9, 9, 9)


def test_the_first_difference_is_the_one_that_was_computed_first(tmp_path: Path) -> None:
    def loop(factor: float) -> None:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for i in range(6):
            loss = net(torch.randn(2, 4)).square().sum() * (factor if i == 5 else 1)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    with tt.record(tmp_path / "run", black_box=3):
        loop(float("inf"))
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(2.0)
    assert "the first difference is at step 5: loss/0" in str(replay)


def test_an_exception_comes_again(tmp_path: Path) -> None:
    def loop() -> None:
        net = torch.nn.Embedding(10, 2)
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        torch.manual_seed(0)
        while True:
            ids = torch.randint(0, 11, (2,))
            net(ids).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    with pytest.raises(IndexError), tt.record(tmp_path / "run", black_box=3):
        loop()
    with tt.replay(tmp_path / "run") as replay:
        loop()
    assert replay.verdict == "bits", str(replay)
    assert replay.result["cause"] == "exception"


@pytest.mark.parametrize("how", ["raise", "stop", "own error", "break"])
def test_a_run_that_ends_itself_at_the_fault_is_replayed(how: str, tmp_path: Path) -> None:
    def loop(run: Any) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        tt.watch(net, on_nonfinite="raise" if how == "raise" else None)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for i in range(99):
            x = run.batch(torch.full((2, 4), torch.nan) if i > 5 else torch.randn(2, 4))
            loss = net(x).square().sum()
            if how == "break" and loss.isnan():
                break
            if how == "own error" and loss.isnan():
                raise ValueError("the loss is NaN")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    health = "stop" if how == "stop" else None
    with (
        suppress(tt.NonFiniteError, tt.UnhealthyError, ValueError),
        tt.record(tmp_path / "run", black_box=3, health=health) as run,
    ):
        loop(run)
    with tt.replay(tmp_path / "run") as replay:
        loop(replay)
    assert (replay.verdict, replay.result["step"]) == ("bits", 6), str(replay)
    assert replay.result["cause"] == "not finite"
    assert "first bad value: " in replay.log.__str__()


def test_a_rule_of_health_writes_it_without_a_fault_that_must_come_again(tmp_path: Path) -> None:
    def loop(run: Any) -> None:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 1)
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=5.0)  # diverges
        for _ in range(300):
            x = run.batch(torch.randn(8, 4))
            (net(x) - 1).square().clamp(max=1e30).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    with (
        pytest.raises(tt.UnhealthyError),
        tt.record(tmp_path / "run", black_box=3, health="stop") as run,
    ):
        loop(run)
    with tt.replay(tmp_path / "run") as replay:
        loop(replay)
    assert (replay.verdict, replay.result["cause"]) == ("bits", "health"), str(replay)


def test_another_model_is_not_replayable_and_the_parameters_are_named(tmp_path: Path) -> None:
    def loop(width: int) -> None:
        net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1))
        tt.watch(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for scale in (1.0, 1.0, torch.nan):
            (net(torch.ones(2, 4)).sum() * scale).backward()
            optimizer.step()

    with tt.record(tmp_path / "run", black_box=3):
        loop(3)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(5)
    assert replay.verdict == "unplayable"
    assert "the model is another: 0.weight was float32[3, 4], now it is float32[5, 4]" in str(
        replay
    )


def test_a_program_that_ends_too_early_is_not_replayable(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=3):
        train("mlp")
    with tt.replay(tmp_path / "run", ops=False) as replay:
        train("mlp", steps=1)
    assert replay.verdict == "unplayable"
    assert "the program ended at step" in str(replay)


def test_a_step_before_the_failing_one_can_be_replayed(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=3) as run:
        train("mlp", steps=12, bad=False)
        run.dump()
    with tt.replay(tmp_path / "run", step=8) as replay:
        train("mlp", bad=False)
    assert (replay.verdict, replay.result["step"]) == ("bits", 8)
    with pytest.raises(FileNotFoundError, match="has no step 2 in a black box; it has 6 to"):
        tt.replay(tmp_path / "run", step=2)


def test_the_first_step_of_all_can_be_replayed(tmp_path: Path) -> None:
    def loop(seed: int) -> None:
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
        tt.watch(net)
        optimizer = torch.optim.Adam(net.parameters())
        for x in DataLoader(torch.full((6, 4), 1e38), batch_size=6):
            net(x).square().sum().backward()
            optimizer.step()

    with tt.record(tmp_path / "run", black_box=3):
        loop(0)
    with tt.replay(tmp_path / "run", ops=False) as replay:
        loop(1)
    assert (replay.verdict, replay.result["step"]) == ("bits", 0), str(replay)


def test_a_run_without_a_black_box_says_how_to_have_one(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.log("loss", 1.0)
        with pytest.raises(RuntimeError, match="black_box=8"):
            run.dump()
    with pytest.raises(FileNotFoundError, match="tensortap run --black-box 8"):
        tt.replay(tmp_path / "run")


def test_the_verdict_is_an_answer_that_a_notebook_shows(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run", black_box=3):
        train("mlp")
    replay = tt.replay(tmp_path / "run", ops=False)
    assert replay.answer is None
    assert replay._repr_html_() is None
    with replay:
        train("mlp")
    assert replay.answer is not None
    assert (replay.answer.kind, replay.answer.severity) == ("fault", "error")
    assert replay.answer.first_step == replay.result["step"]
    assert str(replay).splitlines()[0] == replay.answer.sentence
    assert replay.answer.sentence in replay._repr_html_()
