"""Replay a step of a black box in this process: `with tt.replay("runs/today") as replay: train()`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensortap
from tensortap.answers.finding import Finding
from tensortap.blackbox import box, file
from tensortap.blackbox.replayer import ReplayEndedError, Replayer
from tensortap.blackbox.verdict import conclude
from tensortap.runs.program import rank_and_size
from tensortap.runs.record import Recording, record

if TYPE_CHECKING:
    import torch


class Replay:
    """A replay; `tt.replay` returns it.

    Args:
        player: What gives back the kept steps.
        options: Of `tt.record`: the model and the optimizer.
        name: The run, as commands name it.

    Attributes:
        verdict: "bits" (reproduced to the bit), "noise" (within noise), "unreproduced",
            "transient" (with *from_start*: not reproduced, though everything before it was the
            same) or "unplayable"; None before the block has ended.
        answer: The verdict as a `tt.Finding` of the kind "fault"; None before that.
        result: Everything that is known, as `tensortap replay --json` prints it.
        log: The operators of the step, as of `tt.ops`; None without *ops*.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def step(run):
        ...     model(run.batch(torch.ones(2))).sum().backward()
        ...     optimizer.step()
        >>> with tt.record("runs/asked", model=model, black_box=8) as run:
        ...     step(run)
        ...     _ = run.dump()
        >>> with tt.replay("runs/asked", model=model) as replay:
        ...     step(replay)
        >>> replay.verdict
        'bits'
    """

    def __init__(self, player: Replayer, options: dict[str, Any], name: str) -> None:
        self._player, self._options, self._name = player, options, name
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._run: Recording | None = None

    @property
    def result(self) -> dict[str, Any]:
        """Everything that is known."""
        return self._player.result or {}

    @property
    def answer(self) -> Finding | None:
        """The verdict as an answer."""
        return conclude(self.result, self._name) if self.result else None

    @property
    def verdict(self) -> str | None:
        """The verdict in one word."""
        return self.result.get("verdict")

    @property
    def log(self) -> Any:
        """The operators of the step."""
        return self._player.log

    def batch(self, batch: Any) -> Any:
        """Return the kept batch, as `batch` of the recorded run kept it."""
        return self._open_run().batch(batch)

    def step(self) -> None:
        """End the step, as `step` of the recorded run did."""
        self._open_run().step()

    def _open_run(self) -> Recording:
        if self._run is None:
            raise RuntimeError("the replay has not begun; use it as: with tt.replay(run) as replay")
        return self._run

    def __enter__(self) -> Replay:
        self._folder = tempfile.TemporaryDirectory(prefix="tensortap-replay-")
        self._player.home = os.path.join(self._folder.name, "run")
        box.waiting.append(self._player.box)
        self._run = record(black_box=1, **self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: object) -> bool:
        run, folder = self._open_run(), self._folder
        assert folder is not None
        is_end = isinstance(error, ReplayEndedError)
        try:
            if not is_end:
                self._player.box.program_ended(error)
        except ReplayEndedError:
            is_end = error is None or self._player.result != {}
        finally:
            run.close()
            folder.cleanup()
        return is_end

    def __str__(self) -> str:
        return "\n".join(self.answer.lines) if self.answer is not None else "not replayed yet"

    def _repr_html_(self) -> str | None:
        return self.answer._repr_html_() if self.answer is not None else None


def replay(
    run: str | os.PathLike[str],
    *,
    step: int | None = None,
    ops: bool | None = None,
    model: torch.nn.Module | None = None,
    optimizer: Any = None,
    from_start: bool = False,
) -> Replay:
    """Replay a step that a black box kept: run the training again in the block.

    The program builds its own model, optimizer and loader, and runs one step of its own. Then all
    state is set to that of the snapshot, the loader returns the kept batches, and the steps run up
    to the failing one. There the block ends.

    Args:
        run: Folder of the run that was recorded with *black_box*.
        step: The step to end with. Defaults to the one that failed.
        ops: Find the operator that made the first NaN or Inf. Defaults to True after one.
        model, optimizer: As for `tt.record`; or call `tt.watch` in the block.
        from_start: Do not set the state of the snapshot, only the random generators of the first
            step; run up to the failing step, and compare on the way. For a fault that depends on
            what no snapshot has, such as a counter of the loop.

    Returns:
        The replay, to be used as a context manager.

    Raises:
        FileNotFoundError: The run has no black box, or none with this step.
        ValueError: The black box is damaged.

    Example:
        >>> import torch, tensortap as tt
        >>> def train():
        ...     model = torch.nn.Linear(2, 1)
        ...     tt.watch(model)
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     for x in ([1.0, 1.0], [2.0, 1.0], [3.0, float("inf")]):
        ...         model(torch.tensor(x)).sum().backward()
        ...         optimizer.step()
        >>> with tt.record("runs/failed", black_box=8):
        ...     train()
        >>> with tt.replay("runs/failed", ops=False) as replay:
        ...     train()
        >>> replay.verdict
        'bits'
    """
    paths = find(Path(run), step)
    rank = rank_and_size()[0]
    if rank >= len(paths):
        raise FileNotFoundError(f"{run} has no black box of rank {rank}")
    facts, tensors = file.read(paths[rank])
    operators = None
    if ops or (ops is None and facts["cause"] == "not finite"):
        operators = tensortap.ops
    player = Replayer(
        facts,
        tensors,
        "",
        step=step,
        operators=operators,
        from_start=from_start,
        then=lambda _: None,
    )
    return Replay(player, {"model": model, "optimizer": optimizer}, os.fspath(run))


def find(run: Path, step: int | None) -> list[Path]:
    """Return the files of the black box to replay, one for each rank.

    Raises:
        FileNotFoundError: There is none, or none with this step.
    """
    if not run.exists():
        raise FileNotFoundError(f"there is no run at {run}")
    found = file.dumps(run)
    if not found:
        raise FileNotFoundError(
            f"{run} has no black box: it was not asked for, or nothing went wrong; "
            "to have one: tensortap run --black-box 8 train.py"
        )
    if step is None:
        return next(iter(found.values()))
    kept: list[str] = []
    for at, paths in found.items():
        facts = file.read_facts(paths[0])[0]
        if facts["snapshot"]["step"] <= step <= at:
            return paths
        kept.append(f"{facts['snapshot']['step']} to {at}")
    raise FileNotFoundError(f"{run} has no step {step} in a black box; it has {', '.join(kept)}")
