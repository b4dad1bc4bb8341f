"""How a statement computes the key of an item, for line_key.c to compute it again.

`xs[i - 1]`, `cache[layer, "k"]` and `cache[f"k{i}"]` name an item as well as `xs[0]` does.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Any

from tensortap.paths import NO_PATH, PLAIN, Formula

if TYPE_CHECKING:
    from tensortap.stack_item import Item

OPERATORS = ("+", "-", "*", "//", "%")
#: What Python 3.10 calls them.
SIGNS = {
    "BINARY_ADD": "+",
    "BINARY_SUBTRACT": "-",
    "BINARY_MULTIPLY": "*",
    "BINARY_FLOOR_DIVIDE": "//",
    "BINARY_MODULO": "%",
}
LONGEST = 16  # line_key.c has room for no more


def result_of(instruction: dis.Instruction, items: list[Item]) -> Formula | None:
    """Return how an operator computes its result; None: that cannot be told."""
    op = instruction.opname
    if op == "UNARY_NEGATIVE":
        rest = formula(items, "-")
        return rest and ((0,), *rest)
    if op == "FORMAT_SIMPLE" or (op == "FORMAT_VALUE" and not instruction.arg):
        return formula(items, "text")
    sign = SIGNS.get(op, instruction.argrepr if op == "BINARY_OP" else "")
    return formula(items, sign) if sign in OPERATORS else None


def formula(items: list[Item], *last: Any) -> Formula | None:
    """Return how something is computed from *items*; None: that cannot be told."""
    made: list[Any] = []
    for item in items:
        part = item.formula
        if item.const is not None:
            part = ((item.const[0],),) if type(item.const[0]) in PLAIN else None
        elif item.path != NO_PATH:
            part = (item.path,)
        elif item.parts is not None:
            part = formula(list(item.parts), -len(item.parts))
        if part is None:
            return None
        made += part
    return (*made, *last) if len(made) < LONGEST else None
