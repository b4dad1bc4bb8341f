"""A run that is closed in the middle of an event: by code that the event itself runs.

Another thread could do the same at any instant at which torch lets go of the GIL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensortap as tt


@pytest.mark.parametrize("keep", ["stats", "stats|value"])
def test_a_tensor_whose_memory_is_lent_by_code_that_closes_is_left_out(
    tmp_path: Path, keep: str
) -> None:
    class Closes:
        def __dlpack__(self, **options: Any) -> Any:
            run.close()
            return np.zeros(3).__dlpack__(**options)

    run = tt.record(tmp_path / "run")
    run.tensor("x", Closes(), keep=keep)
    assert len(tt.open(tmp_path / "run").series("x")[0]) == 0


def test_a_name_whose_hash_closes_is_told_that_the_run_is_closed(tmp_path: Path) -> None:
    class Closes(str):
        __slots__ = ()

        def __hash__(self) -> int:
            run.close()
            return super().__hash__()

    run = tt.record(tmp_path / "run")
    with pytest.raises(ValueError, match="this run is closed"):
        run.log(Closes("x"), 1.0)


@pytest.mark.parametrize("keep", ["stats", "stats|value"])
def test_an_output_whose_lazy_bit_is_resolved_by_code_that_closes_is_left_out(
    tmp_path: Path, keep: str
) -> None:
    torch = pytest.importorskip("torch")
    modes = pytest.importorskip("torch.utils._python_dispatch")

    class Closes(modes.TorchDispatchMode):  # type: ignore[name-defined,misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.ops.aten.clone.default:
                run.close()
            return func(*args, **(kwargs or {}))

    class Conjugated(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x.conj()

    model, x = Conjugated(), torch.tensor([1 + 2j])
    run = tt.record(tmp_path / "run", model=model, keep=keep)
    with Closes():
        y = model(x)
    assert run.closed
    assert y.resolve_conj().tolist() == [1 - 2j]
    assert len(tt.open(tmp_path / "run").steps) == 0
