"""Queries, keys, values and weights of an attention, head by head.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch

from tensortap import _core

if TYPE_CHECKING:
    from tensortap.monitor.module_monitor import ModuleMonitor

Outputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # entropy, largest logit, sink
PARALLEL = 1 << 26  # multiplications below which threads cost more than they save
ROWS = 128  # of queries at once, where torch computes it


def monitor_scaled_dot_product_attention(
    monitor: ModuleMonitor,
    module: torch.nn.Module | str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    activation: torch.Tensor | None = None,
    is_reference: bool = False,
) -> None:
    """Measure an attention from inside the module that computes it.

    Pass the arguments of `scaled_dot_product_attention`, with tensors of shape
    `(..., heads, length, head_dim)`. Dropout is ignored.

    Args:
        monitor: The monitor.
        module: The module, or its name.
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa: As for torch.
        activation: The result of `scaled_dot_product_attention`.
        is_reference: The module belongs to the reference module.

    Example:
        >>> import torch
        >>> from tensortap.monitor import ModuleMonitor, monitor_scaled_dot_product_attention
        >>> q = torch.ones(1, 1, 2, 4)  # batch, heads, length, head_dim
        >>> monitor_scaled_dot_product_attention(ModuleMonitor(), "attn", q, q, q)
    """
    if isinstance(module, torch.nn.Module) and module in monitor.reference_module_names:
        is_reference = True
    if not (monitor._is_storing_reference() if is_reference else monitor.is_monitoring()):
        return
    name = monitor._name(module, is_reference)
    if query.dim() < 3 or key.dim() < 3:
        raise ValueError(
            "query, key and value must be (..., heads, length, head_dim), not "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    heads = query.size(-3)
    parts = {"query": query, "key": key, "value": value, "activation": activation}
    for head in range(heads):
        for part, tensor in parts.items():
            path = f"{name}.head_{head}.{part}"
            if tensor is None or not (is_reference or monitor._measure.wants(path)):
                continue
            mine = tensor[..., head * tensor.size(-3) // heads, :, :]
            monitor.monitor_activations(path, mine, is_reference)
    if is_reference:
        return
    mask = None if attn_mask is None else attn_mask.detach()
    entropy, logit, sink = _attention(
        query.detach(), key.detach(), mask, is_causal=is_causal, scale=scale
    )
    for head in range(heads):
        monitor._log_own(f"attention_entropy/{name}.head_{head}", entropy[..., head, :])
        monitor._log_own(f"attention_max_logit/{name}.head_{head}", logit[..., head, :], _largest)
        monitor._log_own(f"attention_sink/{name}.head_{head}", sink[..., head, :])


def _largest(values: torch.Tensor) -> torch.Tensor:
    return values.max()


def _attention(
    q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None, **options: Any
) -> Outputs:
    """Compute entropy, largest logit and sink for each (..., head, query)."""
    if k.shape[:-3] != q.shape[:-3]:
        k = k.expand(*q.shape[:-3], *k.shape[-3:])
    if q.device.type != "cpu":
        return by_torch(q, k, mask, **options)
    groups, threads = k.size(-3), torch.get_num_threads()
    if q.numel() * k.size(-2) < PARALLEL:
        threads = 1
    size = q.size(-3) // groups
    is_per_head = mask is not None and mask.dim() >= 3 and mask.size(-3) > 1

    def some(first: int, last: int) -> tuple[torch.Tensor, ...]:
        heads = slice(first * size, last * size)
        part = mask[..., heads, :, :] if mask is not None and is_per_head else mask
        # The program waits in this call: nobody writes to q and k meanwhile.
        found = _core.attention(
            q[..., heads, :, :], k[..., first:last, :, :], mask=part, release_gil=True, **options
        )
        return tuple(map(torch.as_tensor, (found.entropy, found.max_logit, found.sink)))

    edges = sorted({groups * i // threads for i in range(threads + 1)})
    with ThreadPoolExecutor(threads) as pool:
        run = pool.map if len(edges) > 2 else map
        done = list(run(some, edges[:-1], edges[1:]))
    entropy, logit, sink = (torch.cat(parts, dim=-2) for parts in zip(*done, strict=True))
    return entropy, logit, sink


def by_torch(
    q: torch.Tensor,
    k: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Outputs:
    """Compute the same by torch where the tensors lie, a few queries at a time."""
    factor = q.size(-1) ** -0.5 if scale is None else scale
    length, width = q.size(-2), k.size(-2)
    k = k.repeat_interleave(q.size(-3) // k.size(-3), -3).float()
    if mask is not None:
        mask = mask.expand(*mask.shape[:-2], length, width)
    parts: list[Outputs] = []
    with torch.no_grad():
        for first in range(0, length, ROWS):
            last = min(first + ROWS, length)
            logits = q[..., first:last, :].float() @ k.mT * factor
            if is_causal:
                rows = torch.arange(first, last, device=q.device)[:, None]
                hidden = torch.arange(width, device=q.device)[None] > rows
                logits = logits.masked_fill(hidden, -torch.inf)
            if mask is not None:
                seen = mask[..., first:last, :]
                if seen.dtype == torch.bool:
                    logits = logits.masked_fill(~seen, -torch.inf)
                else:
                    logits = logits + seen
            most = logits.amax(-1)
            weights = logits.softmax(-1).nan_to_num(0.0)  # a row that sees no key
            parts.append((torch.special.entr(weights).sum(-1), most, weights[..., 0]))
    entropy, logit, sink = (torch.cat(piece, dim=-1) for piece in zip(*parts, strict=True))
    return entropy, logit, sink
