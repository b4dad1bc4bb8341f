"""Print the page of recipes: the Python half of `tensortap skill`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from pathlib import Path

import tensortap

PAGE = Path(tensortap.__file__).parent / "skills" / "tensortap" / "SKILL.md"


def main(options: dict[str, str], words: list[str]) -> None:
    """Print it."""
    print(PAGE.read_text(), end="")
