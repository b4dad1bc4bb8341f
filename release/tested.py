"""What was tested, with which result and at which commit: the table in docs/install.md.

    release/tested.py note WHAT RESULT     a command of ./dev passed
    release/tested.py pytest FILE          the tests of this Python passed; pytest wrote FILE
    release/tested.py write                put what passed into docs/tested.json and the table

`./dev` notes each result in .build/tested; `./dev tested` writes.  A result of a tree with
uncommitted changes is not written: nobody could try it again.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTES = ROOT / ".build" / "tested"
KEPT = ROOT / "docs" / "tested.json"
PAGE = ROOT / "docs" / "install.md"
START, END = "<!-- tested: written by ./dev tested -->\n", "<!-- /tested -->"
Row = dict[str, str]


def git(*words: str) -> str:
    """Return what git says about the tree."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def note(what: str, result: str) -> None:
    """Keep one result until it is written; without git nobody knows what was tested."""
    commit = git("rev-parse", "--short=9", "HEAD")
    if not commit:
        return
    row = {
        "what": what,
        "result": result,
        "commit": commit,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "changed": git("status", "--porcelain", "--untracked-files=no"),
    }
    NOTES.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(what.encode()).hexdigest()[:16]
    (NOTES / f"{name}.json").write_text(json.dumps(row, indent=1), encoding="utf-8")


def note_pytest(file: Path) -> None:
    """Note how many tests passed, and with what."""
    suites = list(ElementTree.parse(file).getroot().iter("testsuite"))
    count = {
        name: sum(int(suite.get(name, "0")) for suite in suites)
        for name in ("tests", "skipped", "failures", "errors")
    }
    try:
        torch = f"torch {importlib.metadata.version('torch')}"
    except importlib.metadata.PackageNotFoundError:
        torch = "NumPy alone"
    version = ".".join(platform.python_version_tuple()[:2])
    passed = count["tests"] - count["skipped"] - count["failures"] - count["errors"]
    result = f"{passed} tests passed, {count['skipped']} skipped"
    if count["failures"] + count["errors"] > 0:
        result += f", {count['failures'] + count['errors']} failed"
    note(f"Python {version}, {torch}, {platform.machine()}", result)


def merged() -> list[Row]:
    """Return the rows that were kept with those that are new; the last result of each."""
    rows = {row["what"]: row for row in json.loads(KEPT.read_text(encoding="utf-8"))}
    for path in sorted(NOTES.glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        if row.pop("changed"):
            print(f"left out: {row['what']} was tested with changes that are not committed")
            continue
        rows[row["what"]] = row
    return sorted(rows.values(), key=lambda row: row["what"])


def table(rows: list[Row]) -> str:
    """Return the rows as a table."""
    lines = ["| what | result | commit | day |", "|---|---|---|---|"]
    lines += [f"| {r['what']} | {r['result']} | {r['commit']} | {r['date']} |" for r in rows]
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the file and the table."""
    rows = merged()
    KEPT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}{table(rows)}{END}{after}", encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} rows")


def main() -> int:
    """Do what the arguments say; return the exit code."""
    match sys.argv[1:]:
        case ["note", what, result]:
            note(what, result)
        case ["pytest", file]:
            note_pytest(Path(file))
        case ["write"]:
            write()
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
