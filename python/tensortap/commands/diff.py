"""Compare two implementations of a model: the Python half of `tensortap diff --align tokens`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import tensortap
from tensortap import _core
from tensortap.display.lines import wrapped

if TYPE_CHECKING:
    from tensortap.implementations.comparison import Comparison

SCHEMA = 1  # of the answer as JSON: docs/schemas/implementations.json


def main(options: dict[str, str], words: list[str]) -> None:
    """Compare; *options* were checked by cli/commands/diff.c, *words* name the runs."""
    try:
        code = compare(options, *words)
    except (OSError, ValueError, ImportError) as error:
        print(f"tensortap: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, ValueError) else 3) from None
    raise SystemExit(code)


def compare(options: dict[str, str], a: str, b: str) -> int:
    """Print the answer; return the exit code."""
    from tensortap.implementations.recorded import compare_runs, compare_weights

    with tensortap.Run(a) as left, tensortap.Run(b) as right:
        if "weights" in options:
            weights = compare_weights(left, right, (a, b))
            if "json" in options:
                print(json.dumps(weights.as_dict()))
            else:
                show(weights.text)
            return 0 if weights.is_equal else 1
        found = compare_runs(left, right, map=options.get("map"), names=(a, b))
    if "write-map" in options:
        found.to_map(options["write-map"])
    if "json" in options:
        print(json.dumps(as_dict(found)))
    else:
        show(found.text)
    return {"differs": 1, "nothing to compare": 2}.get(found.verdict, 0)


def show(text: str) -> None:
    """Print a text, its lines as long as the terminal is wide."""
    for line in text.splitlines():
        print(wrapped(_core._escape(line)))


def as_dict(found: Comparison) -> dict[str, object]:
    """Return the answer for JSON."""
    return {"schema": SCHEMA, **asdict(found)}
