"""Make local mirrors of the runs in object stores that a command names, and start it again.

The program itself reads files; it finds the mirrors in $TENSORTAP_MIRRORS.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tensortap.cloud.mirror import StoreError, mirror
from tensortap.cloud.stores import is_url

WHOLE = ("check", "graph")  # commands that read values
VALUES = ("npy", "safetensors", "pt", "hdf5")  # formats that hold them


def fail(text: str) -> NoReturn:
    """Print what went wrong and exit."""
    print(f"tensortap: {text}", file=sys.stderr)
    raise SystemExit(3)


def main(options: dict[str, str], words: list[str]) -> None:
    """Replace this process by the program, with the same arguments."""
    wants_values = options["command"] in WHOLE or (
        options["command"] == "export"
        and any(word.removeprefix("--to=") in VALUES for word in words)
    )
    lines = os.environ.get("TENSORTAP_MIRRORS", "")
    try:
        for word in words:
            if is_url(word) and "\n" not in word:
                lines += f"{word}\n{mirror(word, whole=wants_values)[0]}\n"
    except (FileNotFoundError, StoreError, ValueError) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{error}; a run in an object store needs it in {sys.executable}")
    os.environ["TENSORTAP_MIRRORS"] = lines
    os.environ["TENSORTAP_PYTHON"] = os.environ.get("TENSORTAP_PYTHON") or sys.executable
    os.execv(options["program"], [options["program"], options["command"], *words])
