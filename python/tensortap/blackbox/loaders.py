"""Know each batch that a DataLoader returns, and replace it where a step is replayed.

torch has no hook here, so while somebody listens two methods of its iterators are wrapped: the one
that returns batches, and the one that draws the rows of the next batch from the sampler.  This is
the only file that uses private parts of those iterators.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tensortap.private.capability import Capability, find

if TYPE_CHECKING:
    from tensortap.blackbox.box import Box

_listeners: list[Box] = []
_own: list[Callable[..., Any]] = []  # torch's methods, while they are wrapped
_rows: WeakKeyDictionary[Any, tuple[Any, deque[Any]]] = WeakKeyDictionary()
_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

BATCHES = Capability(
    "keep the batches of DataLoaders in the black box",
    "batches of DataLoaders are not in the black box, and a replay reads the data again",
)


def listen(listener: Box) -> None:
    """Call *listener* with every batch from now on."""
    if not _listeners:
        _wrap()
    _listeners.append(listener)


@BATCHES.guards(otherwise=None)
def _wrap() -> None:
    from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator

    _own[:] = [find(Iterator, name, FunctionType) for name in ("__next__", "_next_index")]
    wrapped: Any = Iterator
    wrapped.__next__ = functools.wraps(_own[0])(_next)
    wrapped._next_index = functools.wraps(_own[1])(_next_index)


def leave(listener: Box) -> None:
    """Stop calling *listener*; torch is as it was when nobody listens any more."""
    if listener not in _listeners:
        return
    _listeners.remove(listener)
    if not _listeners and _own:
        from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator

        wrapped: Any = Iterator
        wrapped.__next__, wrapped._next_index = _own


def _next(self: Any, *args: Any, **kwargs: Any) -> Any:
    batch = _own[0](self, *args, **kwargs)
    if _listeners:
        loader, rows = _name(self), _take_rows(self)
        for listener in tuple(_listeners) if loader else ():
            batch = listener.batch_drawn(loader, batch, rows)
    return batch


def _next_index(self: Any, *args: Any, **kwargs: Any) -> Any:
    rows = _own[1](self, *args, **kwargs)
    _note_rows(self, rows)
    return rows


@BATCHES.guards(otherwise=None)
def _note_rows(iterator: Any, rows: Any) -> None:
    """Note the rows: workers are given those of several batches ahead, and return them in order."""
    sampler = iterator._sampler_iter
    if iterator not in _rows or _rows[iterator][0] is not sampler:  # persistent workers: next epoch
        _rows[iterator] = sampler, deque()
    _rows[iterator][1].append(rows if getattr(iterator, "_in_order", True) else None)


@BATCHES.guards(otherwise=None)
def _take_rows(iterator: Any) -> Any:
    """Return the rows of the batch that was just returned; None: they are not known."""
    return _rows[iterator][1].popleft() if iterator in _rows and _rows[iterator][1] else None


@BATCHES.guards(otherwise="")
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
