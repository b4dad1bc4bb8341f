"""Run the program `tensortap` that belongs to this Python: `python -m tensortap show RUN`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution


def program() -> str | None:
    """Return the path of the program that was installed with this package."""
    try:
        files = distribution("tensortap").files or ()
    except PackageNotFoundError:
        return None
    found = (str(file.locate()) for file in files if file.parts[-2:] == ("bin", "tensortap"))
    return next((path for path in map(os.path.realpath, found) if os.access(path, os.X_OK)), None)


def main() -> None:
    """Become that program; commands that need Python use this one."""
    path = program()
    if path is None:
        sys.exit(f"{sys.executable}: no program 'tensortap' was installed with the package")
    sys.stdout.flush()
    os.environ.setdefault("TENSORTAP_PYTHON", sys.executable)
    os.execv(path, ["tensortap", *sys.argv[1:]])


if __name__ == "__main__":
    main()
