"""Say whether this tree may be tagged as a release; RELEASING.md asks before it does.

    ./dev release             before the tag
    ./dev release --tagged    after it: the tag must be there, and name this commit

Everything that must agree in several places is compared, and nothing is changed.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import readme

ROOT = Path(__file__).resolve().parent.parent


def read(name: str) -> str:
    """Return the text of a file of the tree."""
    return (ROOT / name).read_text(encoding="utf-8")


def version() -> str:
    """Return the version of the header, which all others follow."""
    (found,) = re.findall(r'^#define TT_VERSION "(.*)"$', read("include/tensortap.h"), re.MULTILINE)
    return str(found)


def released() -> tuple[str, str]:
    """Return version and day of the newest release in the change log."""
    found = re.search(
        r"^## \[(\d[^\]]*)\] - (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE
    )
    return (found[1], found[2]) if found else ("", "")


def disagreements() -> Iterator[str]:
    """Yield where the tree names another version, day or address; a test asks for this, too."""
    number, day = released()
    if number != version():
        yield f"include/tensortap.h has {version()}, the newest version in CHANGELOG.md is {number}"
    citation = dict(re.findall(r'^([\w-]+): "?([^"\n]*)"?$', read("CITATION.cff"), re.MULTILINE))
    for name, wanted in {
        "version": number,
        "date-released": day,
        "repository-code": readme.source(),
        "license": readme.project()["license"],
    }.items():
        if citation.get(name) != wanted:
            yield f"CITATION.cff: {name} is {citation.get(name)}, not {wanted}"
    listed = read("tests/golden/interface.txt").partition("\n")[0]
    if listed != number:
        yield f"tests/golden/interface.txt is of {listed}: run tests/interface.py --write"


def obstacles(is_tagged: bool = False) -> Iterator[str]:
    """Yield what stands in the way of a release."""
    yield from disagreements()
    number, _ = released()
    if ".invalid" in read("pyproject.toml"):
        yield "pyproject.toml: authors and urls are placeholders (.invalid)"
    if not (ROOT / "tests/golden" / number / "expected.json").exists():
        yield f"no golden runs of {number}: run tests/golden/write_runs.py"
    unreleased = read("CHANGELOG.md").partition("## [Unreleased]")[2].partition("\n## [")[0]
    if unreleased.strip():
        yield "CHANGELOG.md: there are changes under [Unreleased]"
    words = ["git", "status", "--porcelain"]
    if subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout:
        yield "the tree has changes that are not committed"
    words = ["git", "tag", "--points-at", "HEAD" if is_tagged else f"v{number}"]
    tags = subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.split()
    if is_tagged and f"v{number}" not in tags:
        yield f"there is no tag v{number} at this commit"
    if not is_tagged and f"v{number}" in tags:
        yield f"there is a tag v{number} already"


def main() -> int:
    """Print the obstacles; return the exit code."""
    found = list(obstacles("--tagged" in sys.argv))
    print("\n".join(found) if found else f"tensortap {version()} may be released: v{version()}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
