"""Which row of a tensor is which token, whatever the layout: padded, packed, in chunks.

The key of a token is a hash of its whole sequence, and its position.  If the two inputs share no
sequence, it is a hash of the tokens up to it, which is all that a causal model knows.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

Key = tuple[int, int]
_PRIME = (1 << 61) - 1
IDS = ("input_ids", "ids", "idx", "tokens")
POSITIONS = ("position_ids", "positions")


@dataclass
class Tokens:
    """The tokens of one forward.

    Attributes:
        beginnings: Of each row, in order: a hash of the tokens up to it, and its position; None:
            padding.
        sequences: The same with a hash of the whole sequence.
    """

    beginnings: list[Key | None]
    sequences: list[Key | None]

    def __len__(self) -> int:
        return len(self.beginnings)


def begin() -> int:
    """Return the hash of an empty sequence."""
    return 1


def extend(state: int, token: int) -> int:
    """Return the hash of a sequence with one more token."""
    return (state * 1000003 + int(token) + 7) % _PRIME


def tokens_of(arguments: dict[str, Any]) -> Tokens | None:
    """Return the tokens that a model is given by these arguments, or None if there are no ids."""
    ids = _find(arguments, IDS)
    if ids is None:
        plain = [x for x in arguments.values() if _is_ids(x)]
        ids = plain[0] if len(plain) == 1 else None
    if ids is None or not _is_ids(ids):
        return None
    shape = tuple(ids.shape)
    rows = ids.reshape(-1, shape[-1]).tolist()
    positions = _find(arguments, POSITIONS)
    given = None if positions is None else positions.expand(shape).reshape(-1, shape[-1]).tolist()
    mask = _find(arguments, ("attention_mask",))
    is_plain = mask is not None and tuple(mask.shape) == shape
    seen = mask.reshape(-1, shape[-1]).tolist() if mask is not None and is_plain else None
    keys: list[Key | None] = []
    for r, row in enumerate(rows):
        keys += _keys_of(
            row, None if given is None else given[r], None if seen is None else seen[r]
        )
    return Tokens(keys, whole_keys(keys))


def _find(arguments: dict[str, Any], names: tuple[str, ...]) -> torch.Tensor | None:
    return next((arguments[n] for n in names if arguments.get(n) is not None), None)


def _is_ids(x: Any) -> bool:
    import torch

    return (
        isinstance(x, torch.Tensor)
        and x.dtype in (torch.int32, torch.int64)
        and x.ndim in (1, 2)
        and x.shape[-1] > 0
    )


def _keys_of(
    row: list[int], positions: list[int] | None, mask: list[Any] | None
) -> list[Key | None]:
    keys: list[Key | None] = []
    state, at = begin(), 0
    for t, token in enumerate(row):
        if mask is not None and not mask[t]:
            keys.append(None)
            continue
        if positions is not None and positions[t] == 0:  # of several sequences in one row
            state, at = begin(), 0
        state = extend(state, token)
        keys.append((state, at))
        at += 1
    return keys


def whole_keys(keys: list[Key | None]) -> list[Key | None]:
    """Return the keys with the hash of the last token of each sequence."""
    whole: list[Key | None] = [None] * len(keys)
    last: Key | None = None
    for i in reversed(range(len(keys))):
        key = keys[i]
        if key is not None:
            last = key if last is None else last
            whole[i] = last[0], key[1]
            last = None if key[1] == 0 else last  # a sequence begins here
    return whole


def shared(a: Tokens, b: Tokens) -> tuple[list[int], list[int]]:
    """Return the rows of the tokens that both have, in the order of *a*."""
    rows = _shared(a.sequences, b.sequences)
    return rows if rows[0] else _shared(a.beginnings, b.beginnings)


def _shared(a: list[Key | None], b: list[Key | None]) -> tuple[list[int], list[int]]:
    place: dict[tuple[Key, int], int] = {}
    for i, key in enumerate(_counted(b)):
        if key is not None:
            place[key] = i
    found = [
        (i, place[key]) for i, key in enumerate(_counted(a)) if key is not None and key in place
    ]
    return [i for i, _ in found], [j for _, j in found]


def _counted(keys: list[Key | None]) -> Iterator[tuple[Key, int] | None]:
    """Yield each key with how often it came before: equal sequences are paired in order."""
    seen: dict[Key, int] = {}
    for key in keys:
        if key is None:
            yield None
        else:
            seen[key] = seen.get(key, -1) + 1
            yield key, seen[key]
