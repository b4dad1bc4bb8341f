"""Draw the folders of the code and which uses which: docs/pictures/rooms.svg.

    python docs/make_rooms.py            draw it again
    python docs/make_rooms.py --check    exit 1 if it would show other arrows now

Reads the includes and calls of C files, and the imports and public names of Python files.
Needs pygraphviz to draw; the check needs the standard library alone.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"
sys.path.insert(0, str(ROOT / "tests"))
import layers  # noqa: E402

COLORS = {
    "python/tensortap": "#e3f0e3",
    "python/ext": "#e4ebf5",
    "cli": "#f3e6ee",
    "core": "#f6ecdc",
}
FONT = 'fontname="Helvetica,Arial,DejaVu Sans,sans-serif"'
FOLDERS = {
    *(f"core/{folder}" for folder in layers.BELOW),
    *(f"cli/{folder}" for folder in layers.CLI_BELOW),
    *(f"python/ext/{folder}" for folder in layers.EXT_BELOW),
    *(f"python/tensortap/{package}" for package in layers.PACKAGES),
}
Edges = set[tuple[str, str]]


def room_of(path: Path) -> str:
    """Return the folder of a file; what lies deeper in the core is a part of it."""
    place = path.parent.as_posix()
    return "/".join(path.parts[:2]) if place.startswith("core/") else place


def uses() -> Edges:
    """Return (folder, folder that it uses) for all folders of the product."""
    found: Edges = set()
    homes = layers.public_homes(ROOT)
    for path in layers.files(ROOT):
        place = room_of(path)
        if path.suffix in {".c", ".h"} and re.match(r"(core|cli|python/ext)/\w", place):
            home, _ = layers.home_of(path)
            for _, what in layers.includes(ROOT / path):
                own = layers.NAMED.match(what)
                if own and "/" in (own[2] or ""):
                    found.add((place, f"{home}/{own[2].split('/')[0]}"))
        elif path.suffix == ".py" and place.startswith("python/tensortap/"):
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            for _, target in layers.used_packages(tree, homes):
                found.add((place, f"python/tensortap/{target}"))
    for path, _, folder, _ in layers.core_calls(ROOT):
        found.add((room_of(path), f"core/{folder}"))
    return {(user, used) for user, used in found if user != used}


def reduced(edges: Edges) -> Edges:
    """Return the edges without those that follow from others."""
    below: dict[str, set[str]] = {}
    for user, used in edges:
        below.setdefault(user, set()).add(used)

    def reaches(start: str, end: str) -> bool:
        seen, waiting = {start}, [used for used in below.get(start, ()) if used != end]
        while waiting:
            folder = waiting.pop()
            if folder == end:
                return True
            if folder not in seen:
                seen.add(folder)
                waiting += below.get(folder, ())
        return False

    return {(user, used) for user, used in edges if not reaches(user, used)}


def dot(shown: Edges) -> str:
    """Return the picture's source; folders with the same arrows share a box."""
    alike: dict[tuple[str, frozenset[str], frozenset[str]], list[str]] = {}
    for folder in sorted(FOLDERS):
        used = frozenset(used for user, used in shown if user == folder)
        users = frozenset(user for user, used in shown if used == folder)
        alike.setdefault((folder.rpartition("/")[0], used, users), []).append(folder)
    boxes = {folder: same[0] for same in alike.values() for folder in same}
    lines = [
        f"digraph rooms {{ graph [compound=true nodesep=0.2 ranksep=0.35 fontsize=14 {FONT}]",
        f'node [shape=box style="rounded,filled" fillcolor=white height=0.3 fontsize=13 {FONT}]',
        'edge [color="#486581" arrowsize=0.7]',
    ]
    for group, color in COLORS.items():
        lines.append(f'subgraph "cluster_{group}" {{ label="{group}" style=filled color="{color}"')
        for (home, *_), same in alike.items():
            if home == group:
                label = "\\n".join(folder.rpartition("/")[2] for folder in same)
                lines.append(f'"{same[0]}" [label="{label}"]')
        lines.append("}")
    lines += [f'"{a}" -> "{b}"' for a, b in sorted({(boxes[a], boxes[b]) for a, b in shown})]
    chain = [  # between the groups: from the lowest box of one to the highest of the next
        ("python/tensortap/models", "python/ext/flow"),
        ("python/ext/base", "include"),
        ("cli/output", "include"),
        ("include", "core/report"),
    ]
    lines += ['"include" [label="include/tensortap.h, tensortap_tools.h"]']
    for tail, head in chain:
        ends = [f'"{boxes.get(folder, folder)}"' for folder in (tail, head)]
        clips = [
            f'{end}="cluster_{folder.rpartition("/")[0]}"'
            for end, folder in (("ltail", tail), ("lhead", head))
            if "/" in folder
        ]
        lines.append(f"{ends[0]} -> {ends[1]} [style=bold {' '.join(clips)}]")
    return "\n".join([*lines, "}"])


def listed(edges: Edges) -> str:
    """Return the comment in the picture that the check compares."""
    return "<!-- uses: " + ", ".join(f"{user} {used}" for user, used in sorted(edges)) + " -->"


def main() -> int:
    """Draw, or check; return the exit code."""
    edges = reduced(uses())
    if "--check" in sys.argv:
        if listed(edges) in PICTURE.read_text(encoding="utf-8"):
            return 0
        print("docs/pictures/rooms.svg is out of date; run docs/make_rooms.py")
        return 1
    from tensortap.display.graphviz import draw

    svg = draw(dot(edges), "svg").decode()
    PICTURE.write_text(svg.rstrip() + "\n" + listed(edges) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
