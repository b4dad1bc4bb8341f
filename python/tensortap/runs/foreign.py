"""Record arrays that no module of torch computed, so that they become a run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensortap.models.modules import ROOT
from tensortap.runs.record import record
from tensortap.runs.tokens import FORWARD, TOKENS, WEIGHTS, numbers_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def record_arrays(
    path: str | os.PathLike[str],
    forwards: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    weights: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Path:
    """Record the arrays of an engine that has no modules of torch: ONNX Runtime, JAX, llama.cpp.

    Args:
        path: Folder of the run.
        forwards: What each call of the model computed, in order: names of layers and their outputs,
            a row a token. Whole numbers of one or two dimensions are what it was given
            (`input_ids`, `position_ids`, `attention_mask`). A single dict is one call.
        weights: Names of parameters and their values, by which layers are paired with others.
        kinds: What a layer is, such as "LayerNorm".

    Returns:
        The folder, for `tt.diff(path, other, align="tokens")`.

    Raises:
        TypeError: Something is no array.

    Example:
        >>> import numpy as np, tensortap as tt
        >>> x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
        >>> for name in ("runs/onnx", "runs/jax"):
        ...     _ = tt.record_arrays(name, {"input_ids": np.arange(5), "norm": x})
        >>> tt.diff("runs/onnx", "runs/jax", align="tokens").tokens
        5
    """
    calls: list[Any] = [forwards] if hasattr(forwards, "keys") else list(forwards)
    with record(path, keep="stats,tokens") as run:
        for name in dict.fromkeys((ROOT, *(name for call in calls for name in call))):
            run.module(name, (kinds or {}).get(name, ""))
        for name, value in (weights or {}).items():
            numbers = numbers_of(value)
            if numbers is not None:
                run.tensor(WEIGHTS + name, _int64(numbers), keep="value")
        for i, call in enumerate(calls):
            if i > 0:
                run.step()
            run.log(TOKENS + FORWARD, i)
            for name, value in call.items():
                if _is_given(value):
                    run.tensor(TOKENS + name, value, keep="value")
            for name, value in call.items():
                if not _is_given(value):
                    run.tensor(f"activation/{name}", value)
    return run.path


def _int64(numbers: Any) -> Any:
    import numpy as np

    return np.frombuffer(numbers, np.int64)


def _is_given(value: Any) -> bool:
    """Return whether an array holds whole numbers, as ids and masks do."""
    kind = str(getattr(value, "dtype", "")).rpartition(".")[2]
    return kind.startswith(("int", "uint", "bool")) and len(value.shape) in (1, 2)
