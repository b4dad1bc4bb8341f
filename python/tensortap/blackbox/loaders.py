"""Know each batch that a DataLoader returns, and replace it where a step is replayed.

torch has no hook here, so while somebody listens two methods of its iterators are wrapped: the one
that returns batches, and the one that draws the rows of the next batch from the sampler.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tensortap.blackbox.box import Box

_listeners: list[Box] = []
_own: list[Callable[..., Any]] = []  # torch's methods, while they are wrapped
_rows: WeakKeyDictionary[Any, tuple[Any, deque[Any]]] = WeakKeyDictionary()
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def listen(listener: Box) -> None:
    """Call *listener* with every batch from now on."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator

    if not _listeners:
        _own[:] = Iterator.__next__, Iterator._next_index
        Iterator.__next__ = functools.wraps(_own[0])(_next)  # type: ignore[method-assign]
        Iterator._next_index = functools.wraps(_own[1])(_next_index)  # type: ignore[method-assign]
    _listeners.append(listener)


def leave(listener: Box) -> None:
    """Stop calling *listener*; torch is as it was when nobody listens any more."""
    if listener not in _listeners:
        return
    _listeners.remove(listener)
    if not _listeners:
        from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator

        Iterator.__next__, Iterator._next_index = _own  # type: ignore[method-assign]


def _next(self: Any) -> Any:
    batch = _own[0](self)
    if _listeners:
        rows = _rows[self][1].popleft() if self in _rows and _rows[self][1] else None
        for listener in tuple(_listeners):
            batch = listener.batch_drawn(_name(self), batch, rows)
    return batch


def _next_index(self: Any) -> Any:
    """Note the rows: workers are given those of several batches ahead, and return them in order."""
    rows = _own[1](self)
    sampler = self._sampler_iter
    if self not in _rows or _rows[self][0] is not sampler:  # a new epoch of persistent workers
        _rows[self] = sampler, deque()
    _rows[self][1].append(rows if getattr(self, "_in_order", True) else None)
    return rows


def _name(iterator: Any) -> str:
    """Return what tells this loader from the others, in this process and the next."""
    if iterator not in _names:
        dataset = iterator._dataset
        try:
            size = str(len(dataset))
        except Exception:  # an iterable dataset
            size = "?"
        batch = getattr(iterator._index_sampler, "batch_size", 1)
        _names[iterator] = f"{type(dataset).__name__}[{size}] by {batch}"
    return _names[iterator]
