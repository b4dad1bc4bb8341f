"""Files that appear complete or not at all.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def whole_file(out: str) -> Iterator[str]:
    """Yield a path to write to; rename it to *out* if the block ends without an error.

    The path is in a new folder beside *out* that only this user may enter, so that nobody can
    replace the file.  The contents are copied into a device or a pipe.  Any other symbolic
    link is an OSError.
    """
    is_stream = _is_stream(out)
    if os.path.islink(out) and not is_stream:
        raise OSError(errno.ELOOP, "a symbolic link is not written through; name its file")
    beside = None if is_stream else os.path.dirname(os.path.abspath(out))
    with tempfile.TemporaryDirectory(prefix=".tensortap-", dir=beside) as folder:
        path = os.path.join(folder, "out")
        yield path
        if is_stream:
            with open(path, "rb") as file, open(out, "wb") as device:
                shutil.copyfileobj(file, device)
        else:
            os.replace(path, out)


def _is_stream(path: str) -> bool:
    """Return whether *path* is a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
