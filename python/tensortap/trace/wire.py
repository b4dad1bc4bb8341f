"""What travels between ranks: pickled values, with the bytes of their tensors beside them.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch

ALONE = 1 << 20  # bytes of a tensor that is sent as it is; smaller ones share a message


class _Pickler(pickle.Pickler):
    """Leaves the bytes of tensors out, as pickle does with those of NumPy arrays."""

    def reducer_override(self, t: Any) -> Any:
        is_plain = type(t) is torch.Tensor and t.layout is torch.strided and t.is_cpu
        if not is_plain or t.is_quantized or not t.numel():
            return NotImplemented
        flat = t.detach().contiguous().reshape(-1).resolve_conj().resolve_neg()
        raw = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
        return _tensor, (raw, str(t.dtype).removeprefix("torch."), tuple(t.shape))


def _tensor(raw: Any, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    typed: torch.Tensor = torch.frombuffer(raw, dtype=torch.uint8).view(getattr(torch, dtype))
    return typed.view(shape)


def encode(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return a value as a head and messages of raw bytes."""
    parts: list[torch.Tensor] = []

    def is_in_head(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes == 0 or raw.readonly:
            return True
        parts.append(torch.frombuffer(raw, dtype=torch.uint8))
        return False

    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=is_in_head).dump(value)
    small = [part for part in parts if len(part) < ALONE]
    messages = [torch.cat(small)] if small else []
    layout: list[tuple[int, int, int]] = []  # of each part: message, first byte, size
    used = 0
    for part in parts:
        if len(part) < ALONE:
            layout.append((0, used, len(part)))
            used += len(part)
        else:
            layout.append((len(messages), 0, len(part)))
            messages.append(part)
    return pickle.dumps((file.getvalue(), layout), protocol=5), messages


def decode(head: bytes, messages: list[torch.Tensor]) -> Any:
    """Return the value that was encoded; each tensor has its own memory."""
    body, layout = pickle.loads(head)
    parts = []
    for message, start, size in layout:
        part = messages[message]
        is_whole = size == len(part)
        parts.append(part if is_whole else part[start : start + size].clone())
    return pickle.loads(body, buffers=[part.numpy().data for part in parts])
