"""Name the places that a code object reads and writes.

A path is a local slot, a global, a name of a class body or module, or an
attribute or item of another path.  The table of a code object numbers them, so
that the extension can look one up without comparing strings.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from types import CodeType
from typing import Any

# The numbers are known to lines/table.h.
LOCAL, GLOBAL, NAME, ATTRIBUTE, ITEM, ITEM_BY, OPAQUE = range(7)

#: kind, slot or base or -1, detail (a name, a constant key, the number of a key's path, or a
#: formula), text, is it an attribute that describes a tensor
Path = tuple[int, int, Any, str, bool]

NO_PATH = -1
CO_OPTIMIZED = 1  # of co_flags: the code of a function

#: How a key is computed, operands first: the number of a path, (constant,), the sign of an
#: operator, "text" for the text of what is there, -n for a tuple of the last n.
Formula = tuple[Any, ...]

#: Types of keys, and of the parts of tuples, that lines/path.c knows too.
PLAIN = (int, str, bool, type(None), float, bytes)

#: Attributes that describe a tensor and are not computed from its elements.
ABOUT = {
    *("device", "dim", "dtype", "element_size", "get_device", "is_complex", "is_contiguous"),
    *("is_cuda", "is_floating_point", "is_leaf", "itemsize", "layout", "names", "nbytes", "ndim"),
    *("ndimension", "nelement", "numel", "requires_grad", "shape", "size", "storage_offset"),
    *("stride", "strides"),
}


class Paths:
    """The paths of one code object, each with a number."""

    def __init__(self, code: CodeType) -> None:
        """Start with no path; *code* gives the slots of its locals."""
        self.rows: list[Path] = []
        self._number: dict[tuple[object, ...], int] = {}
        cells = [*code.co_cellvars, *code.co_freevars]
        # An argument that is a cell has one slot.
        names = [*code.co_varnames, *(name for name in cells if name not in code.co_varnames)]
        self._is_function = bool(code.co_flags & CO_OPTIMIZED)
        # Others have slots only for what comes from outside, or belongs to a comprehension.
        own = names if self._is_function else code.co_freevars
        self._slots = {name: i for i, name in enumerate(names) if name in own}

    def _add(self, kind: int, base: int, detail: Any, text: str) -> int:
        key = (kind, base, type(detail), detail)
        if key not in self._number:
            self._number[key] = len(self.rows)
            is_about = kind == ATTRIBUTE and detail in ABOUT
            self.rows.append((kind, base, detail, text, is_about))
        return self._number[key]

    def variable(self, name: str) -> int:
        """Return the path of a variable: a local, a global, or a name of a module or class."""
        slot = self._slots.get(name)
        if slot is not None:
            return self._add(LOCAL, slot, name, name)
        return self._add(GLOBAL if self._is_function else NAME, -1, name, name)

    def attribute(self, base: int, name: str) -> int:
        """Return the path of base.name."""
        return self._add(ATTRIBUTE, base, name, f"{self.rows[base][3]}.{name}")

    def item(self, base: int, key: object) -> int:
        """Return the path of base[key] for a constant key."""
        if not all(type(part) in PLAIN for part in (key if type(key) is tuple else (key,))):
            return self.opaque(base)
        return self._add(ITEM, base, key, f"{self.rows[base][3]}[{key!r}]")

    def item_by(self, base: int, key: int) -> int:
        """Return the path of base[key] for a key that is a path itself."""
        return self._add(ITEM_BY, base, key, f"{self.rows[base][3]}[{self.rows[key][3]}]")

    def item_of(self, base: int, key: Formula) -> int:
        """Return the path of base[key] for a key that is computed."""
        return self._add(ITEM_BY, base, key, f"{self.rows[base][3]}[...]")

    def opaque(self, base: int) -> int:
        """Return the path of an item that cannot be named: of a tensor, the tensor."""
        return self._add(OPAQUE, base, None, self.rows[base][3])

    def base(self, path: int) -> int:
        """Return the path before the last attribute or item, or NO_PATH."""
        return self.rows[path][1] if self.rows[path][0] >= ATTRIBUTE else NO_PATH
