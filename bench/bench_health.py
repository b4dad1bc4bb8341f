"""The rules of health: on ten million points, and during the training of a small transformer.

SPDX-License-Identifier: Apache-2.0
"""

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import bench_command as command
import harness

STEPS, TURNS = 60, 5


def model_of():
    """Return a transformer of four layers."""
    from torch import nn

    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(128, 16))


def train(path: Path, health: bool) -> tuple[float, float, float]:
    """Return seconds of a step, of the rules in it, and how many events it has."""
    import torch

    import tensortap as tt

    torch.manual_seed(0)
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    steps = []
    with tt.record(path, model=model) as run:
        if health:
            run.watch_health(None)
        for _ in range(STEPS):
            start = time.perf_counter()
            optimizer.zero_grad()
            model(torch.randn(16, 64, 128)).square().mean().backward()
            optimizer.step()
            steps.append(time.perf_counter() - start)
        asked = [time.perf_counter()]
        for _ in range(20 if health else 0):
            run.new_findings()
            asked.append(time.perf_counter())
        events = run.counts["events"] / STEPS
    taken = [after - before for before, after in pairwise(asked)]
    return median(steps), median(taken) if taken else 0.0, events


def cost_of_event(path: Path, health: bool) -> float:
    """Return the seconds that recording one number takes."""
    import tensortap as tt

    count = 100_000
    with tt.record(path) as run:
        if health:
            run.watch_health(None)
        run.log("loss", 1.0)
        start = time.perf_counter()
        for _ in range(count):
            run.log("loss", 1.0)
        return (time.perf_counter() - start) / count


def main() -> None:
    """Measure the bars of the rules."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # First: the memory of a child counts from that of this process, and torch is large.
        command.make(folder / "large", 10_000)
        [health] = command.compare([command.PROGRAM, "health", folder / "large"])
        harness.row("tensortap health, 10 million points", health.wall, 1, unit="s", at_most=True)
        harness.row("tensortap health, its memory", health.memory, 128, unit="MB", at_most=True)
        from tensortap.answers.guard import EVERY

        step, find, events = train(folder / "run", True)
        pairs = [
            (cost_of_event(folder / f"a{i}", True), cost_of_event(folder / f"b{i}", False))
            for i in range(TURNS)
        ]
        see = max(median(a - b for a, b in pairs), 0.0)
        share = (events * see + find / EVERY) / step
        harness.row(
            "live rules, 4-layer transformer: of the step, on top of recording",
            share * 100,
            0.3,
            unit="%",
            at_most=True,
        )


if __name__ == "__main__":
    main()
