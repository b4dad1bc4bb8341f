"""Check who includes whom, and the other rules of docs/ARCHITECTURE.md about files.

    python3 tests/layers.py                            the sources
    python3 tests/layers.py --library libtensortap.a   the built core too

Needs the standard library alone, so that it runs before anything is installed.
Prints one line a violation; exits 1 if there is any.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Folder of the core -> the folders whose headers it may include, besides its own.
BELOW = {
    "base": set(),
    "tensor": {"base"},
    "summary": {"base", "tensor"},
    "site": {"base"},
    "store": {"base", "tensor", "summary", "site"},
    "record": {"base", "tensor", "summary", "site", "store"},
    "format": {"base", "tensor"},
    "report": {"base", "tensor", "summary", "site", "store", "format"},
}

# A header of somebody else (a pattern) -> the only places (patterns) that may include it.
GUARDED = {
    r"zstd.*\.h|zdict\.h": r"core/store/",
    r"xxhash\.h|xxh3\.h": r"core/(summary|store)/",
    r"libdeflate\.h": r"core/format/",
    r"Python\.h|structmember\.h|frameobject\.h|(internal/|cpython/)?pycore_.*": r"python/ext/",
    r"cpuid\.h": r"core/base/cpu\.c$",
    r"([a-z0-9]+intrin|arm_(neon|sve|acle))\.h": r"core/(summary|tensor)/\w+_kernel\.[ch]$",
}

# Objects of the core that may change after start: (source file, name).
MUTABLE = {
    ("summary/kernels.c", "chosen"),  # the kernel table, set once
    ("base/worker.c", "registry"),  # pthread_atfork passes no argument
}

VAGUE = {"util", "utils", "common", "misc", "internal", "internals", "helper", "helpers"}
SKIPPED = re.compile(r"^(\..*|build.*|__pycache__|runs|corpus|golden)$")
INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)$", re.MULTILINE)
NAMED = re.compile(r'^(?:<([^>]+)>|"([^"]+)")')


def files(root: Path) -> Iterator[Path]:
    """Yield every file of the repository, relative to *root*, without what is built."""
    for folder, names, leaves in os.walk(root):
        names[:] = sorted(name for name in names if not SKIPPED.match(name))
        for leaf in sorted(leaves):
            yield (Path(folder) / leaf).relative_to(root)


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, what follows #include) of a C file."""
    text = path.read_text(encoding="utf-8")
    for found in INCLUDE.finditer(text):
        yield text.count("\n", 0, found.start(1)) + 1, found[1].strip()


def check_own_header(root: Path, path: Path, name: str) -> str | None:
    """Say what is wrong with `#include "name"` in *path*; None: nothing."""
    if name == "tensortap.h":
        return None
    if path.parts[0] != "core":  # cli and the extension
        if "/" not in name and (root / path.parent / name).exists():
            return None
        return f'"{name}" is not for this folder: only tensortap.h and its own headers are'
    folder, target = path.parts[1], name.split("/")[0]
    if "/" not in name or not (root / "core" / name).exists():
        return f'"{name}" is not a header of the core; write "folder/file.h"'
    if target != folder and target not in BELOW.get(folder, set()):
        return f'"{name}": {folder} may not use {target}'
    return None


def check_includes(root: Path) -> Iterator[str]:
    """Yield every include that a layer rule forbids."""
    for path in files(root):
        place = path.as_posix()
        if path.suffix not in {".c", ".h"} or not place.startswith(
            ("core/", "cli/", "python/ext/")
        ):
            continue
        if path.parts[0] == "core" and path.parts[1] not in BELOW:
            yield f"{place}: core has no folder of this name; add it to BELOW in tests/layers.py"
        for line, what in includes(root / path):
            found = NAMED.match(what)
            if found is None:
                yield f"{place}:{line}: name the header itself, not {what}"
                continue
            name = found[1] or found[2]
            for pattern, allowed in GUARDED.items():
                if re.fullmatch(pattern, name) and not re.match(allowed, place):
                    yield f"{place}:{line}: {name} may only be included in {allowed}"
            wrong = check_own_header(root, path, name) if found[2] else None
            if wrong is not None and not any(re.fullmatch(p, name) for p in GUARDED):
                yield f"{place}:{line}: {wrong}"


def check_files(root: Path) -> Iterator[str]:
    """Yield files and folders whose name does not say what they hold."""
    for path in files(root):
        words = {word for part in path.parts for word in re.split(r"[_.\-]", part.lower())}
        if words & VAGUE:
            yield f"{path.as_posix()}: name it after what it holds, not '{min(words & VAGUE)}'"


def check_symbols(listing: str) -> Iterator[str]:
    """Yield Python symbols and unlisted mutable objects in the output of `nm -f sysv`."""
    member = "?"
    for line in listing.splitlines():
        found = re.match(r"Symbols from .*\[(?:.*/)?([a-z]+)_(\w+\.c)\.o\]", line)
        if found:
            member = f"{found[1]}/{found[2]}"
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 7:
            continue
        name, section = cells[0], cells[6]
        if re.match(r"_?Py[A-Z_]", name):
            yield f"{member}: uses {name}; only python/ext may know Python"
        is_mutable = re.match(r"\.(data|bss|tdata|tbss)|\*COM\*", section)
        if not is_mutable or section.startswith(".data.rel.ro") or cells[3] == "SECTION":
            continue
        plain = re.sub(r"\.\d+$", "", name)  # a static of a function gets a number
        if (member, plain) not in MUTABLE:
            yield f"{member}: {plain} is a mutable global ({section}); the core has none"


def main() -> int:
    """Print every violation; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--library", help="the built libtensortap.a, for a look with nm")
    options = parser.parse_args()
    wrong = [*check_includes(options.root), *check_files(options.root)]
    if options.library:
        nm = ["nm", "-f", "sysv", options.library]
        listing = subprocess.run(nm, check=True, capture_output=True, text=True).stdout
        if "tt_version" not in listing:
            wrong.append(f"{options.library}: not the core: there is no tt_version in it")
        wrong.extend(check_symbols(listing))
    print("\n".join(wrong) or "layers: all rules hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
