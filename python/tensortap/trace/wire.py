"""What travels between ranks: a header, and tensors as raw bytes.

Values are pickled without their tensors and arrays: those are numbered, and go into few
large messages.  Nothing is pickled that has bytes of its own.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch

ALIGN = 64
PACKED = 32 << 20  # bytes of a message that holds several tensors
ALONE = 1 << 20  # a tensor of this size travels from where it is, to where it stays


def pack_header(status: str, text: str, sizes: list[int], head: bytes) -> bytes:
    """Make the few bytes that announce a batch."""
    return pickle.dumps((status, text, sizes, head), protocol=5)


def unpack_header(data: bytes) -> tuple[str, str, list[int], bytes]:
    """Read what pack_header made."""
    header: tuple[str, str, list[int], bytes] = pickle.loads(data)
    return header


def as_bytes(data: bytes) -> torch.Tensor:
    """Return bytes as a tensor that can be sent."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class _Pickler(pickle.Pickler):
    """Numbers the tensors that it meets."""

    def __init__(self, file: Any) -> None:
        self.tensors: list[torch.Tensor] = []
        self.buffers: list[torch.Tensor] = []
        super().__init__(file, protocol=5, buffer_callback=self._out_of_band)

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not torch.Tensor or obj.layout is not torch.strided:
            return None
        if obj.is_quantized or not obj.is_cpu:
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1, str(obj.dtype).removeprefix("torch."), tuple(obj.shape)

    def _out_of_band(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes == 0 or raw.readonly:
            return True  # into the header
        self.buffers.append(torch.frombuffer(raw, dtype=torch.uint8))
        return False


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, tensors: list[torch.Tensor], buffers: list[Any]) -> None:
        self.tensors = tensors
        super().__init__(file, buffers=buffers)

    def persistent_load(self, pid: Any) -> torch.Tensor:
        number, dtype, shape = pid
        raw = self.tensors[number]
        if raw.numel() == 0:
            return torch.empty(shape, dtype=getattr(torch, dtype))
        typed: torch.Tensor = raw.view(getattr(torch, dtype))
        return typed.view(shape)


def encode(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return a value as a head and messages of raw bytes."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    parts = [_raw(t) for t in pickler.tensors] + pickler.buffers
    messages, layout = _packed(parts)
    head = (file.getvalue(), len(pickler.tensors), layout)
    return pickle.dumps(head, protocol=5), messages


def decode(head: bytes, messages: list[torch.Tensor]) -> Any:
    """Put the value together again; each tensor has memory of its own."""
    body, tensor_count, layout = pickle.loads(head)
    parts = []
    for m, start, size in layout:
        is_alone = start == 0 and size == len(messages[m])
        parts.append(messages[m] if is_alone else messages[m][start : start + size].clone())
    buffers = [part.numpy().data for part in parts[tensor_count:]]
    return _Unpickler(io.BytesIO(body), parts[:tensor_count], buffers).load()


def _raw(t: torch.Tensor) -> torch.Tensor:
    flat = t.detach().contiguous().reshape(-1)
    flat = flat.resolve_conj().resolve_neg()
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def _packed(
    parts: list[torch.Tensor],
) -> tuple[list[torch.Tensor], list[tuple[int, int, int]]]:
    """Lay small parts behind each other; give messages, and where each part lies."""
    messages: list[list[torch.Tensor]] = []
    layout: list[tuple[int, int, int]] = []
    open_message, used = -1, 0
    for part in parts:
        size = part.numel()
        if size >= ALONE:
            messages.append([part])
            layout.append((len(messages) - 1, 0, size))
            continue
        if open_message < 0 or used + size > PACKED:
            messages.append([])
            open_message, used = len(messages) - 1, 0
        layout.append((open_message, used, size))
        messages[open_message].append(part)
        used += -(-size // ALIGN) * ALIGN
    return [_joined(one) for one in messages], layout


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    if len(parts) == 1 and parts[0].numel():
        return parts[0]
    sizes = [-(-part.numel() // ALIGN) * ALIGN for part in parts]
    out = torch.empty(max(sum(sizes), 1), dtype=torch.uint8)
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        out[start : start + part.numel()] = part
        start += size
    return out
