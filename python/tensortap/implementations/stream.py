"""Which token is which in a recorded run: its ids and positions, forward by forward.

The key of a token is a hash of its sequence up to it, and its place there.  An engine mixes
requests, cuts prompts into chunks and then goes on one token at a time, and its ids do not say
which sequence a chunk belongs to.  So a chunk continues the open sequence of the right length whose
next key the other run has.  A wrong guess matches nothing: it loses tokens, never mixes them up.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap.implementations.tokens import IDS, POSITIONS, Key, begin, extend

if TYPE_CHECKING:
    from collections.abc import Container

    Numbers = np.ndarray[Any, np.dtype[Any]]

BOUNDS = ("cu_seq_lens_q", "cu_seq_lens", "cu_seqlens")


@dataclass(eq=False)
class Sequence:
    """A sequence that may go on: the hash of its tokens, and how many these are."""

    state: int
    length: int
    filed: int = -1  # under this length in Tracker._open


@dataclass
class Given:
    """What one forward was given, a row for each row of the batch.

    Attributes:
        ids: Of each row its token ids.
        positions: Likewise; None: not known.
        mask: Likewise, which tokens are no padding; None: all.
        bounds: Where sequences begin among all tokens.
    """

    ids: list[list[int]]
    positions: list[list[int]] | None
    mask: list[list[bool]] | None
    bounds: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        """How many tokens these are, padding too."""
        return sum(map(len, self.ids))


def given_by(arguments: dict[str, Numbers]) -> Given | None:
    """Read the arguments of a forward; None: there are no ids among them."""
    arguments = {name: x for name, x in arguments.items() if x.ndim in (1, 2)}
    ids = next((arguments[name] for name in IDS if name in arguments), None)
    if ids is None and len(arguments) == 1:
        ids = next(iter(arguments.values()))
    if ids is None or ids.size == 0:
        return None
    rows = ids.reshape(-1, ids.shape[-1])
    mask = arguments.get("attention_mask")
    is_plain = mask is not None and mask.ndim == 2 and len(mask) == len(rows)
    positions = next((arguments[name] for name in POSITIONS if name in arguments), None)
    if positions is not None and positions.shape[-1] == rows.shape[1]:
        positions = np.broadcast_to(positions.reshape(-1, rows.shape[1]), rows.shape)
    elif mask is not None and is_plain and mask.shape[1] > rows.shape[1]:  # a cache is before it
        positions = (np.cumsum(mask != 0, 1) - 1)[:, -rows.shape[1] :]
    else:
        positions = None
    if mask is not None and is_plain:
        mask = mask[:, -rows.shape[1] :] != 0
    bounds = next((arguments[name] for name in BOUNDS if name in arguments), None)
    return Given(
        rows.tolist(),
        None if positions is None else positions.tolist(),
        mask.tolist() if mask is not None and is_plain else None,
        frozenset(() if bounds is None else bounds.reshape(-1).tolist()),
    )


@dataclass
class Tracker:
    """Follows the sequences of a run through its forwards.

    Attributes:
        known: Keys that the other run has; empty: not known yet.
        ambiguous: Chunks that could have continued several sequences.
        shifted: Sequences whose positions begin elsewhere than at 0.
        is_cached: Some forward went on with a sequence, as only a causal model can.
    """

    known: Container[Key] = frozenset()
    ambiguous: int = 0
    shifted: int = 0
    is_cached: bool = False
    _open: dict[int, list[Sequence]] = field(default_factory=dict)  # by length

    def forward(self, given: Given) -> list[Key | None]:
        """Return the key of each token, None of padding."""
        keys: list[Key | None] = []
        now: list[Sequence] = []
        for r, ids in enumerate(given.ids):
            at = given.positions[r] if given.positions is not None else None
            seen = given.mask[r] if given.mask is not None else None
            keys += self._row(ids, at, seen, given.bounds, len(keys), now)
        for one in now:
            if one.filed >= 0:
                self._open[one.filed].remove(one)
            one.filed = one.length
            self._open.setdefault(one.length, []).append(one)
        return keys

    def _row(
        self,
        ids: list[int],
        positions: list[int] | None,
        mask: list[bool] | None,
        bounds: frozenset[int],
        offset: int,
        now: list[Sequence],
    ) -> list[Key | None]:
        keys: list[Key | None] = []
        current: Sequence | None = None
        before = -1  # the position of the token before
        for t, token in enumerate(ids):
            if mask is not None and not mask[t]:
                keys.append(None)
                continue
            place = positions[t] if positions is not None else None
            is_next = place is None or place == before + 1
            goes_on = current is not None and is_next and offset + t not in bounds
            if goes_on and place and self.known and current is not None:
                # Two requests may be at neighbouring positions by chance.
                goes_on = self._is_known(current, token) or not self._candidates(place, token)
            if not goes_on or current is None:
                current = self._find(place, token)
                now.append(current)
            current.state = extend(current.state, token)
            keys.append((current.state, current.length))
            current.length += 1
            before = place if place is not None else before + 1
        return keys

    def _is_known(self, sequence: Sequence, token: int) -> bool:
        return (extend(sequence.state, token), sequence.length) in self.known

    def _candidates(self, place: int, token: int) -> list[Sequence]:
        """Return the open sequences of this length whose next key the other run has."""
        fits = [s for s in self._open.get(place, ()) if s.length == place]  # else it went on now
        return [s for s in fits if self._is_known(s, token)] if self.known else fits

    def _find(self, place: int | None, token: int) -> Sequence:
        """Return the sequence that a token goes on with, or a new one."""
        if not place:  # the first, or positions are not known
            return Sequence(begin(), 0)
        fits = [s for s in self._open.get(place, ()) if s.length == place]
        found = self._candidates(place, token) or fits
        if not found:  # its beginning was not seen, or it does not begin at 0
            self.shifted += 1
            return Sequence(begin(), 0)
        self.is_cached = True
        self.ambiguous += len({s.state for s in found}) > 1
        return found[0]
