"""Run the benchmarks and print a table; with --write, put it into docs/PERFORMANCE.md.

    ./dev bench [--write] [NAME ...]

NAME picks bench_NAME.py; then --write replaces only its rows.  A bar that does not hold is
shown, never an error.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "PERFORMANCE.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
Row = dict[str, Any]


def rows_of(script: Path) -> list[Row]:
    """Run one script and return the rows it prints."""
    print(f"{script.stem} ...", file=sys.stderr)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        rows.append({"what": f"{script.stem} did not run", "holds": False})
    return rows


def cell(value: float, unit: str) -> str:
    """Return a number as people read it."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()


def cells_of(row: Row) -> list[str]:
    """Return what stands in the row's columns."""
    measured, bar, holds = "", "", "yes" if row["holds"] else "**no**"
    if "value" in row:
        measured = cell(row["value"], row["unit"])
        if row["bar"] is None:
            holds = ""
        else:
            sign = "≤" if row["at_most"] else "≥"
            bar = f"{sign} {row['bar']:g} {row['unit']}".strip()
    return [row["what"], measured, bar, holds]


def table(rows: list[list[str]]) -> str:
    """Return the rows as a Markdown table whose columns stand straight."""
    cells = [["what", "measured", "bar", "holds"], *rows]
    widths = [max(len(line[i]) for line in cells) for i in range(4)]
    lines = [
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def written() -> list[list[str]]:
    """Return the rows that are in the page."""
    text = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[one.strip() for one in line.strip("|").split("|")] for line in lines[1:]]


def merged(old: list[list[str]], new: list[list[str]]) -> list[list[str]]:
    """Return the old rows with the new ones in their places, further ones at the end."""
    measured = {row[0]: row for row in new}
    kept = [measured.pop(row[0], row) for row in old]
    return kept + list(measured.values())


def machine() -> str:
    """Return one line about what the numbers were measured on."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    packages = []
    for name in ("tensortap", "torch", "numpy"):
        try:
            packages.append(f"{name} {version(name)}")
        except ModuleNotFoundError:
            continue
    processor = found[1] if found else platform.machine()
    python = f"Python {platform.python_version()}"
    return f"{processor}, {os.cpu_count()} cores; {', '.join([python, *packages])}."


def write(text: str) -> None:
    """Put *text* between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Run what is asked for; return the exit code."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    scripts = [HERE / f"bench_{name}.py" for name in names] or sorted(HERE.glob("bench_*.py"))
    for script in scripts:
        if not script.exists():
            known = ", ".join(sorted(path.stem[6:] for path in HERE.glob("bench_*.py")))
            print(f"no benchmark {script.stem[6:]}; there are: {known}", file=sys.stderr)
            return 2
    rows = [cells_of(row) for script in scripts for row in rows_of(script)]
    print(f"{machine()}\n\n{table(rows)}")
    if "--write" in sys.argv:
        write(f"{machine()}\n\n{table(merged(written(), rows) if names else rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
