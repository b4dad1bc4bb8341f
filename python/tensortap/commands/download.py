"""Copy runs out of an object store: the Python half of `tensortap download`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

from tensortap.cloud.upload import download


def main(options: dict[str, str], words: list[str]) -> None:
    """Copy; *words* are the URL and the folder."""
    url = words[0].rstrip("/")
    folder = Path(words[1] if len(words) > 1 else url.rpartition("/")[2])
    try:
        size = download(url, folder)
    except (OSError, ImportError) as error:
        print(f"tensortap: {error}", file=sys.stderr)
        raise SystemExit(3) from None
    print(f"{size} bytes, in {folder}")
