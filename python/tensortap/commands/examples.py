"""Write the example programs into a folder: the Python half of `tensortap examples`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensortap

PROGRAMS = Path(tensortap.__file__).parent / "examples"


def main(options: dict[str, str], words: list[str]) -> None:
    """Copy the programs; *words* name the folder, if any."""
    folder = Path(words[0] if words else "examples")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = [copy(program, folder) for program in sorted(PROGRAMS.glob("*.py"))]
    except OSError as error:
        print(f"tensortap: {error.filename}: {error.strerror}", file=sys.stderr)
        raise SystemExit(3) from None
    new = len(kept) - sum(kept)
    print(f"{new} program{'s' * (new != 1)} written to {folder}")
    if any(kept):
        print(f"{sum(kept)} were there already, and were left as they are")


def copy(program: Path, folder: Path) -> bool:
    """Copy one program; return whether a file of its name was there already."""
    try:
        with (folder / program.name).open("xb") as file:
            file.write(program.read_bytes())
    except FileExistsError:
        return True
    return False
