"""Each rank records what it traced into its own file of one run; nobody waits for anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from ranks import run_ranks, said  # noqa: E402
from trace_models import C, Small  # noqa: E402

import tensortap as tt  # noqa: E402


def records(rank, world, folder):
    model = Small()
    with tt.record(folder) as run, tt.ModelTracer(model, ["forward.x"], gather=False):
        for i in range(3):
            model(torch.full((2, C), float(100 * rank + i)))
            run.step()


def test_every_rank_records_into_its_own_file(tmp_path: Path) -> None:
    said(run_ranks(2, records, str(tmp_path / "run")))
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["rank0.tap", "rank1.tap"]
    run = tt.open(tmp_path / "run")
    for rank in range(2):
        tensors = [run.tensor("trace/forward.x", step, rank=rank) for step in range(3)]
        assert [float(x[0, 0]) for x in tensors] == [100 * rank, 100 * rank + 1, 100 * rank + 2]
    assert run.check()
