"""Make local mirrors of the runs in object stores that a command names, and start it again.

The program itself reads files; it finds the mirrors in $TENSORTAP_MIRRORS.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NoReturn

from tensortap.cloud.mirror import Missed, mirror
from tensortap.cloud.stores import is_url, public_name

WHOLE = ("check", "graph")  # commands that read values
ASKED = ("nan",)  # those that need little of the statistics
VALUES = ("npy", "safetensors", "pt", "hdf5")  # formats that hold them


def fail(text: str) -> NoReturn:
    """Print what went wrong and exit."""
    print(f"tensortap: {text}", file=sys.stderr)
    raise SystemExit(3)


def ask(program: str, words: list[str], folder: Path) -> Missed:
    """Run a command on a mirror, for nobody to see; return what it could not read."""
    with tempfile.NamedTemporaryFile("r") as missed:
        subprocess.run(
            [program, *[str(folder) if is_url(word) else word for word in words]],
            env={**os.environ, "TENSORTAP_MISSED": missed.name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        lines = [line.rstrip("\n").split(" ", 2) for line in missed]
    return [(int(at), int(length), path) for at, length, path in lines]


def main(options: dict[str, str], words: list[str]) -> None:
    """Replace this process by the program, with the same arguments but no passwords."""
    wants_values = options["command"] in WHOLE or (
        options["command"] == "export"
        and any(word.removeprefix("--to=") in VALUES for word in words)
    )
    lines = os.environ.get("TENSORTAP_MIRRORS", "")
    question = None
    if options["command"] in ASKED:
        question = partial(ask, options["program"], [options["command"], *words])
    shown = [public_name(word) for word in words]
    try:
        for word, name in zip(words, shown, strict=True):
            if is_url(word) and "\n" not in word:
                lines += f"{name}\n{mirror(word, whole=wants_values, ask=question)[0]}\n"
    except (OSError, ValueError) as error:
        fail(str(error))
    except ImportError as error:
        fail(f"{error}; a run in an object store needs it in {sys.executable}")
    os.environ["TENSORTAP_MIRRORS"] = lines
    os.environ["TENSORTAP_PYTHON"] = os.environ.get("TENSORTAP_PYTHON") or sys.executable
    os.execv(options["program"], [options["program"], options["command"], *shown])
