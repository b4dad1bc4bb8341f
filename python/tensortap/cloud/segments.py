"""The objects of a run in a store: files as they are, or cut into segments.

    run/rank0.tap                                        a file
    run/rank00000/000016777216.seg                       a part of one: from this byte on

The segments of a file, one behind the other, are the file. There is no list of them but the
store's own, which has their sizes, too. Since a key says only where a segment begins, no two
uploaders can both create what follows the same byte.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tensortap.cloud.stores import MOST, Object, Range, StoreError

TAP = re.compile(r"rank(\d{1,9})(?:\.(\d{1,9}))?\.tap")
SEGMENT = re.compile(r"rank(\d{5,9})(?:\.(\d{1,9}))?/(\d{12,18})(?:-(\d{12,18}))?\.seg")


class Part(NamedTuple):
    """An object that holds the bytes of a file from start up to end."""

    start: int
    end: int
    object: Object


class RemoteFile(NamedTuple):
    """A file of a run, wherever its bytes are."""

    name: str  # rank0.tap
    parts: list[Part]  # in order, without a gap

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.parts[-1].end if self.parts else 0

    def ranges(self, start: int, end: int) -> list[Range]:
        """Return where these bytes are."""
        return [
            Range(
                part.object.key,
                max(start, part.start) - part.start,
                min(end, part.end) - part.start,
            )
            for part in self.parts
            if part.start < end and part.end > start
        ]

    def place(self, read: Range) -> tuple[int, int]:
        """Return where in the file a range of an object lies."""
        at = next(part.start for part in self.parts if part.object.key == read.key)
        return at + read.start, at + read.end


def segment_key(file: str, start: int) -> str:
    """Return the key of the part of a file that begins at a byte, below the run."""
    match = TAP.fullmatch(file)
    assert match is not None
    child = f".{match[2]}" if match[2] else ""
    return f"rank{int(match[1]):05d}{child}/{start:012d}.seg"


def runs_of(objects: list[Object]) -> dict[str, list[RemoteFile]]:
    """Return the runs among objects, by their folder below the URL ("": the URL itself).

    What is not a file of a run is left out. Raises StoreError if segments overlap or are missing.
    """
    if len(objects) > MOST:
        raise StoreError(f"there are more than {MOST} objects; name a folder further down")
    found: dict[str, dict[str, list[Part]]] = {}
    for one in objects:
        pieces = one.key.split("/")
        if any(piece in ("", ".", "..") or "\\" in piece or "\0" in piece for piece in pieces):
            continue  # no recorder made it
        segment = SEGMENT.fullmatch("/".join(pieces[-2:]))
        tap = TAP.fullmatch(pieces[-1])
        if segment is not None:
            folder = "/".join(pieces[:-2])
            child = f".{int(segment[2])}" if segment[2] else ""
            name, start = f"rank{int(segment[1])}{child}.tap", int(segment[3])
            if segment[4] is not None and int(segment[4]) - start != one.size:
                raise StoreError(
                    f"{one.key} has {one.size} bytes, and its name says another number"
                )
        elif tap is not None:
            folder, name, start = "/".join(pieces[:-1]), pieces[-1], 0
        else:
            continue
        if one.size == 0 and segment is not None:
            continue  # a store that gave up half-way; there is nothing in it
        found.setdefault(folder, {}).setdefault(name, []).append(Part(start, start + one.size, one))
    return {
        folder: [
            RemoteFile(name, _in_order(folder, name, parts))
            for name, parts in sorted(files.items())
        ]
        for folder, files in sorted(found.items())
    }


def _in_order(folder: str, name: str, parts: list[Part]) -> list[Part]:
    parts = sorted(parts)
    end = 0
    for part in parts:
        if part.start != end:
            where = f"{folder}/{name}".lstrip("/")
            low, high = sorted((end, part.start))
            what = "is missing" if part.start > end else "is there twice"
            raise StoreError(
                f"{where}: what stands from byte {low} to {high} {what}; "
                f"the next object is {part.object.key}"
            )
        end = part.end
    return parts
