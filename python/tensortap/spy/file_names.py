"""Turn any name into a file name, such that two names never share a file.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import hashlib
import re

MOST_BYTES = 200  # of 255 that file systems allow; the rest is for the call and the suffix
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]|^[.~]|[\ud800-\udfff]")
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")


@functools.lru_cache(maxsize=4096)
def safe_name(name: str) -> str:
    """Return a name that is valid, visible and inside its folder; most names stay as they are.

    A name that had to be changed ends with a digest of the original.
    """
    if _is_plain(name):
        return name
    safe = _UNSAFE.sub(lambda found: _escaped(found[0]), name) or "unnamed"
    digest = _digest(name)
    room = MOST_BYTES - len(digest) - 1
    return safe.encode()[:room].decode(errors="ignore") + "-" + digest


def site_name(name: str) -> str:
    """Return a valid name of a site; nearly all names stay as they are."""
    if name and not _NO_TEXT.search(name):
        return name
    safe = _NO_TEXT.sub(lambda found: _escaped(found[0]), name) or "unnamed"
    return f"{safe}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _is_plain(name: str) -> bool:
    if not name or _UNSAFE.search(name):
        return False
    return len(name) <= MOST_BYTES // 4 or len(name.encode()) <= MOST_BYTES


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
