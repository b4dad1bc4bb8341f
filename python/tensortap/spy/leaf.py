"""The tensors that `spy_save` gets, in forms that can be written.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.compiled.functorch import outside, unwrap

if TYPE_CHECKING:
    import torch

DEEPEST = 100  # a container may contain itself


def leaves(name: str, tensor: Any, depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Return (name, tensor) of each tensor in a container: position, key or field is appended."""
    parts = _core.children(dict(tensor) if isinstance(tensor, Mapping) else tensor)
    if parts is None:
        return () if tensor is None else ((name, tensor),)
    if depth == DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep; does it contain itself? ({name:.60})")
    return [leaf for key, value in parts for leaf in leaves(f"{name}.{key}", value, depth + 1)]


def readable(t: Any, format: str) -> Iterator[tuple[Any, str | None]]:
    """Yield the values as tensors that C can read, with the dtype's name if C does not know it."""
    import torch

    with _outside():
        values = plain(t)
        if values.layout != torch.strided or values.is_quantized or values.is_nested:
            return
        values = values.cpu()
        yield values, None
        wider = {"torch.complex32": torch.complex64, "torch.float8_e8m0fnu": torch.float32}
        if format == "npy" and str(t.dtype) in wider:  # NumPy has no such type
            yield values.to(wider[str(t.dtype)]), None
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        if t.element_size() in whole:
            same_size = values.contiguous().view(whole[t.element_size()])
            yield same_size, str(t.dtype).removeprefix("torch.")


def saved_by_torch(path: str, tensor: Any) -> bytes:
    """Return the file that torch writes for a sparse, quantized or nested tensor."""
    import torch

    file = io.BytesIO()
    try:
        torch.save(tensor.detach().cpu(), file)
    except RuntimeError as error:
        raise TypeError(f"{path}: torch cannot save it: {error}") from error
    return file.getvalue()


@contextmanager
def _outside() -> Iterator[None]:
    """Leave autograd, vmap and torch.func.grad inside the block."""
    import torch

    with torch.no_grad(), outside():
        yield


def plain(t: Any) -> Any:
    """Return a tensor without autograd, vmap (with the batch dimension in front) and mkldnn.

    Of a DTensor, return the local part: gathering it would need the other ranks.  Wait for the
    result of a collective that is under way: its memory is not filled before.
    """
    if not hasattr(t, "detach"):
        return t
    with _outside():
        if type(t).__name__ == "DTensor":
            t = t.to_local()
        if type(t).__name__ == "AsyncCollectiveTensor":
            t = t.wait()
        t = unwrap(t)
        return t.to_dense() if t.is_mkldnn else t.detach()


def row_norms(t: Any) -> torch.Tensor:
    """Compute the L2 norm of each row of the first dimension, in float32 (float64 of doubles)."""
    import torch

    try:
        with _outside():
            t = plain(t) if isinstance(t, torch.Tensor) else torch.as_tensor(t)
            t = t.flatten(1) if t.dim() > 1 else t.reshape(-1, 1)
            wide = torch.float64 if t.dtype in (torch.float64, torch.complex128) else torch.float32
            t = t.abs() if t.dtype.is_complex else t
            if t.shape[1] == 0:
                return torch.zeros(t.shape[0], dtype=wide, device=t.device)
            # In float64: float32 cannot hold the squares of 1e30 and 1e-30.
            norms: torch.Tensor = torch.linalg.vector_norm(t.to(torch.float64), dim=1).to(wide)
            return norms
    except (RuntimeError, TypeError):
        _core.stats(t)  # raises an error that says why
        raise


def stats_json(t: Any) -> bytes:
    """Return the statistics of a tensor as JSON."""
    numbers = _core.stats(plain(t)).as_dict()
    return json.dumps({key: _jsonable(value) for key, value in numbers.items()}).encode()


def _jsonable(value: Any) -> Any:
    """Return NaN, Infinity and complex numbers, which JSON does not have, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, complex) else value
