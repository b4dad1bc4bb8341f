"""Whether a program or an extension has the protections that its compiler offers.

`readelf` of binutils is asked; a test asks about what is installed, ./dev wheels about each wheel.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def has_guards(objects: Path) -> bool:
    """Return whether the compiled files of a folder check their stacks.

    zig links the function that guards call into the program, where `-s` removes its name.
    """
    paths = map(str, objects.rglob("*.c.o"))
    words = ["readelf", "-W", "-s", *paths]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return text.count("UND __stack_chk_fail") > 100


def missing(path: Path, objects: Path | None = None) -> list[str]:
    """Return the protections that a file, made of these objects, lacks; empty: it has them all."""
    words = ["readelf", "-W", "-h", "-l", "-d", "--dyn-syms", str(path)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    is_program = "INTERP" in text
    is_guarded = "__stack_chk_fail" in text or (objects is not None and has_guards(objects))
    asked = {
        "position-independent code (PIE)": re.search(r"Type:\s+DYN", text),
        "a stack that is not executable": re.search(r"GNU_STACK.* RW ", text),
        "a table of addresses that is read-only (RELRO)": "GNU_RELRO" in text,
        "all addresses resolved at the start (BIND_NOW)": re.search(r"BIND_NOW|Flags:.*NOW", text),
        "guards on the stack (-fstack-protector)": is_guarded,
        "checked calls of the C library (_FORTIFY_SOURCE)": re.search(r" __\w+_chk\b", text),
    }
    if is_program:
        asked["the mark of a PIE"] = re.search(r"FLAGS_1.*PIE", text)
    return [name for name, found in asked.items() if not found]
