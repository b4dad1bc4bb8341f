"""Whether a program or an extension has the protections that its compiler offers.

`readelf` of binutils is asked; a test asks about what is installed, ./dev wheels about each wheel.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

#: x86-64: an instruction with the address %fs:0x28, where the C library keeps the guard.
GUARD = re.compile(rb"\x64[\x48-\x4f][\x2b\x33\x3b\x8b].\x25\x28\x00\x00\x00", re.DOTALL)


def reads_guard(path: Path) -> bool:
    """Return whether the code itself shows guards: zig links the function that they call."""
    return len(GUARD.findall(path.read_bytes())) > 10


def missing(path: Path) -> list[str]:
    """Return the protections that the file lacks; empty: it has them all."""
    words = ["readelf", "-W", "-h", "-l", "-d", "--dyn-syms", str(path)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    is_program = "INTERP" in text
    asked = {
        "position-independent code (PIE)": re.search(r"Type:\s+DYN", text),
        "a stack that is not executable": re.search(r"GNU_STACK.* RW ", text),
        "a table of addresses that is read-only (RELRO)": "GNU_RELRO" in text,
        "all addresses resolved at the start (BIND_NOW)": re.search(r"BIND_NOW|Flags:.*NOW", text),
        "guards on the stack (-fstack-protector)": "__stack_chk" in text or reads_guard(path),
        "checked calls of the C library (_FORTIFY_SOURCE)": re.search(r" __\w+_chk\b", text),
    }
    if is_program:
        asked["the mark of a PIE"] = re.search(r"FLAGS_1.*PIE", text)
    return [name for name, found in asked.items() if not found]
