"""README.md as a registry shows it: links and pictures lead to the address of pyproject.toml.

In the tree they are relative, so that they work in any copy of it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r'(\]\(|src="|href=")(?!https?:|#)([^)"\s]+)')


def project() -> dict[str, object]:
    """Return the [project] table of pyproject.toml."""
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def source() -> str:
    """Return the address of the source tree."""
    urls = project()["urls"]
    assert isinstance(urls, dict)
    return str(urls["Source"])


def with_addresses(text: str, version: str) -> str:
    """Return a page of the root with absolute links into the tree of this version."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found[1] == 'src="' else "blob"
        return f"{found[1]}{source()}/{kind}/v{version}/{found[2]}"

    return LINK.sub(absolute, text)
