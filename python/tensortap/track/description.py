"""What a value was like when it was seen, and how it differs now.

A line names what changed without a copy of what was there: of a tensor only its shape,
type, device, statistics and digest stay.  With rtol or atol a copy is kept as well.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from enum import IntEnum
from math import isfinite
from typing import Any

from tensortap import _core

Tolerance = tuple[float, float] | None  # rtol, atol

LONGEST_NUMBER = 40


class Kind(IntEnum):
    """What a value is; tensor_kind in python/ext/tensor/torch.h has the same numbers."""

    TENSOR = 1
    ARRAY = 2
    PLAIN = 3  # a number, a text or None: it never changes
    CONTAINER = 4
    OBJECT = 5


class Description:
    """What is known of a value; nothing of it is kept alive, except a plain value."""

    __slots__ = (
        "changed",  # fields of a tensor's line that differ from the description before
        "device",
        "digest",
        "dtype",
        "held",
        "identity",
        "kind",
        "quick",
        "shape",
        "stats",
        "type",
    )

    def __init__(self, value: Any, *, wants_digest: bool = False) -> None:
        """Describe *value*; the digest is for comparison, not for text."""
        self.kind, self.shape, self.dtype, self.device, self.stats, self.digest = (
            _core.track_describe(value, wants_digest)
        )
        self.identity = id(value)
        self.type = type(value).__name__
        self.changed: tuple[str, ...] = ()
        self.held: Any = value if self.kind == Kind.PLAIN else None
        is_container = wants_digest and self.kind == Kind.CONTAINER
        self.quick = _core.track_key(value, quick=True) if is_container else None

    @property
    def has_elements(self) -> bool:
        """Return whether it describes a tensor or an array."""
        return self.kind <= Kind.ARRAY

    def keep_copy(self, value: Any) -> None:
        """Keep the elements, for comparison with a tolerance."""
        try:
            self.held = value.detach().clone() if self.kind == Kind.TENSOR else value.copy()
        except Exception:
            self.held = None  # without a copy every change counts

    def may_be_other(self, value: Any) -> bool:
        """Return whether *value*, which a line may have changed, has to be described again."""
        if id(value) != self.identity:
            return True
        if self.kind == Kind.CONTAINER:
            return self.quick != _core.track_key(value, quick=True)
        return False  # the line source tells of tensors, and an object has no contents here


def differences(
    last: Description | None, now: Description, value: Any, tolerance: Tolerance
) -> list[str] | None:
    """Return what differs, as in ["shape", "dtype"]; None: nothing.  Sets `now.changed`.

    Args:
        last: What was there before; None: nothing, and no word says more.
        now: What is there now.
        value: The value that *now* describes.
        tolerance: Values that are this close to the copy in *last* do not differ.
    """
    if last is None:
        return []
    if last.has_elements and now.has_elements:
        return _tensor_differences(last, now, value, tolerance)
    if last.kind != now.kind or last.type != now.type:
        words = [f"type ({last.type} → {now.type})"]
        if _is_number(last.held) and _is_number(value):
            words.append(_move(last.held, value))
        return words
    if now.kind == Kind.OBJECT:
        is_same = last.identity == now.identity
    else:
        is_same = last.digest == now.digest
    if is_same:
        return None
    return ["contents"] if now.kind == Kind.CONTAINER else [_move(last.held, value)]


def _tensor_differences(
    last: Description, now: Description, value: Any, tolerance: Tolerance
) -> list[str] | None:
    changed = [
        name for name in ("shape", "dtype", "device") if getattr(last, name) != getattr(now, name)
    ]
    now.changed = tuple(changed)
    if last.kind != now.kind:
        is_tensor = now.kind == Kind.TENSOR
        changed.insert(
            "shape" in changed, "type (array → tensor)" if is_tensor else "type (tensor → array)"
        )
    if changed:
        return changed
    if last.digest is not None and now.digest is not None:
        if last.digest == now.digest:
            return None
        if tolerance is not None and last.held is not None:
            return _distance(last.held, value, tolerance)
    elif last.stats is None or now.stats is None or last.stats == now.stats:
        return None  # no values to tell apart
    return [f"values{_moves(last.stats, now.stats)}"]


def _distance(copy: Any, value: Any, tolerance: tuple[float, float]) -> list[str] | None:
    """Return how far a value is from the copy; None: not further than the tolerance."""
    rtol, atol = tolerance
    try:
        result = _core.compare(value, copy, rtol=rtol, atol=atol, equal_nan=True)
    except Exception:
        return []  # they cannot be compared
    if result.allclose:
        return None
    elements = "element" if result.count == 1 else "elements"
    largest = _core.number_text(result.max_abs)
    return [
        f"values ({result.differing} of {result.count} {elements}, largest difference {largest})"
    ]


def finite_count(stats: _core.Stats) -> int:
    """Return how many elements are neither NaN nor Inf."""
    return stats.count - stats.nan - stats.posinf - stats.neginf


def _moves(old: _core.Stats | None, now: _core.Stats | None) -> str:
    """Return " (mean 0.1 → 0.2, max 3 → 4)"; all digits if no number differs in fewer."""
    if old is None or now is None:
        return ""
    fields = [
        ("mean ", old.mean.real, now.mean.real),
        ("min ", old.min, now.min),
        ("max ", old.max, now.max),
        ("NaN ", old.nan, now.nan),
        ("Inf ", old.posinf + old.neginf, now.posinf + now.neginf),
    ]
    if now.count == 1 and finite_count(now) == finite_count(old) == 1:
        fields = [("", old.mean.real, now.mean.real)]
    for exact in (False, True):
        shown = [
            f"{name}{a} → {b}"
            for name, before, after in fields
            if isfinite(before)
            and isfinite(after)  # if nothing was finite, the counts say so
            and (a := _core.number_text(before, exact=exact))
            != (b := _core.number_text(after, exact=exact))
        ]
        if shown:
            return f" ({', '.join(shown)})"
    return ""


def _is_number(value: object) -> bool:
    return type(value) in (int, float, bool, complex)


def _move(last: object, now: object) -> str:
    """Return "value (0.1 → 0.05)" of two numbers, "value" of anything else."""
    if _is_number(last) and _is_number(now):
        try:
            before, after = repr(last), repr(now)
        except ValueError:  # more digits than Python writes
            return "value"
        if len(before) < LONGEST_NUMBER and len(after) < LONGEST_NUMBER:
            return f"value ({before} → {after})"
    return "value"
