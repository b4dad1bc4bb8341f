"""A run in a store, as a local folder that holds the parts which are read.

The files of the mirror have the length of the originals and holes where nothing was read. Reading
statistics takes few rounds of requests: a list; the last 64 kB of every file, which say where its
footer is; the rest of the footers; all chunks of points. Values are not read unless all of a run
is asked for. Bytes of a run never change, so what was read once is kept, as long as the store names
the same versions.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tensortap import _core
from tensortap.cloud.segments import RemoteFile, runs_of
from tensortap.cloud.stores import Range, Store, StoreError, hide_secrets, open_store, read_ranges

TAIL, TAIL_SHARE, TAIL_MOST = 64 << 10, 2000, 1 << 20  # bytes at least, a part of the file, at most
ASKS = 8  # rounds of what a command misses, before it gets all statistics
TEXT = 16 << 10  # of a block with texts, at first
HEADER = 64
WINDOWS = 1 << 20, 16 << 20  # of the end of a file that is open: the last index is in it, mostly
MAGIC, INDEX = b"TAP\xb1", 4  # how a block begins; its kind
MOST_BYTES = 8 << 30  # of all mirrors; the oldest are removed
Spans = list[tuple[int, int]]
Missed = list[tuple[int, int, str]]  # offset, bytes (0: a block), file
Ask = Callable[[Path], Missed]  # runs a question on a mirror; returns what it could not read


class Counted(NamedTuple):
    """How much was read of a store."""

    rounds: int
    bytes: int


class Mirror:
    """The local copy of one run."""

    def __init__(self, folder: Path, files: list[RemoteFile]) -> None:
        self.folder, self.files = folder, {file.name: file for file in files}
        self.have: dict[str, Spans] = {}
        try:
            kept = json.loads((folder / "mirror.json").read_text())
        except (OSError, ValueError):
            kept = {}
        for name, file in self.files.items():
            about = kept.get(name, {})
            versions = {part.object.key: part.object.version for part in file.parts}
            known = about.get("versions", {})
            if about and all(versions.get(key) == version for key, version in known.items()):
                self.have[name] = [(a, b) for a, b in about["have"]]
            else:
                (folder / name).unlink(missing_ok=True)
                self.have[name] = []
        for path in folder.glob("*.tap"):
            if path.name not in self.files:
                path.unlink()

    def save(self) -> None:
        """Write down what is there."""
        about = {
            name: {
                "versions": {part.object.key: part.object.version for part in file.parts},
                "have": self.have[name],
            }
            for name, file in self.files.items()
        }
        part = self.folder / "mirror.json.part"
        part.write_text(json.dumps(about))
        part.replace(self.folder / "mirror.json")

    def missing(self, name: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield what is not there of the bytes of a file."""
        start, end = max(start, 0), min(end, self.files[name].size)
        for low, high in self.have[name]:
            if low > start:
                yield start, min(low, end)
            start = max(start, high)
            if start >= end:
                return
        if start < end:
            yield start, end

    def put(self, name: str, start: int, content: bytes) -> None:
        """Write bytes where they belong."""
        path = self.folder / name
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(fd).st_size != self.files[name].size:
                os.truncate(fd, self.files[name].size)
            os.pwrite(fd, content, start)
        finally:
            os.close(fd)
        self.have[name] = _merged([*self.have[name], (start, start + len(content))])

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return bytes that are there."""
        with open(self.folder / name, "rb") as file:
            file.seek(start)
            return file.read(end - start)


def _merged(spans: Spans) -> Spans:
    merged: Spans = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


Wanted = tuple[Mirror, str, int, int]  # of a file, from, to


class Fetch:
    """Reads parts of many runs from one store, a round for all of them at a time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.rounds = self.bytes = 0

    def round(self, wanted: Iterable[Wanted]) -> None:
        """Read what is missing of these bytes (mirror, file, start, end)."""
        ranges: list[Range] = []
        owner: dict[str, tuple[Mirror, RemoteFile]] = {}
        for mirror, name, start, end in wanted:
            file = mirror.files[name]
            for low, high in mirror.missing(name, start, end):
                for part in file.ranges(low, high):
                    ranges.append(part)
                    owner[part.key] = mirror, file
        if not ranges:
            return
        self.rounds += 1
        for part, content in read_ranges(self.store, ranges):
            mirror, file = owner[part.key]
            self.bytes += len(content)
            mirror.put(file.name, file.place(part)[0], content)

    def statistics(self, mirrors: list[Mirror], ask: Callable[[], Missed] | None = None) -> None:
        """Read what everything but values needs, or only what a question does."""
        files = [(mirror, name) for mirror in mirrors for name in mirror.files]
        size = {(id(mirror), name): mirror.files[name].size for mirror, name in files}
        self.round(
            (m, name, size[id(m), name] - _tail(size[id(m), name]), size[id(m), name])
            for m, name in files
        )
        more: list[Wanted] = []
        indexed, is_open = [], []
        for mirror, name in files:
            end = size[id(mirror), name]
            last = mirror.read(name, end - HEADER, end) if end >= HEADER else b""
            about = _core._block_look(last, end - HEADER) if len(last) == HEADER else None
            if about is not None and about[0]:
                more.append((mirror, name, about[1], end))
                indexed.append((mirror, name))
            else:
                is_open.append((mirror, name))
        for window in (*WINDOWS, None):
            more += [(m, name, 0, TAIL) for m, name in is_open]
            for m, n in is_open:
                end = size[id(m), n]
                more.append((m, n, end - (window or end), end))
            self.round(more)
            more = []
            found = [(m, n) for m, n in is_open if window and _has_index(m, n, window)]
            indexed += found
            is_open = [one for one in is_open if one not in found]
        texts, wanted = [], []
        for mirror, name in indexed:
            reader = _core.RunReader(str(mirror.folder / name))
            for at, length in reader.extents(0):
                if not length:
                    texts.append((mirror, name, at))
                if not length or ask is None:
                    wanted.append((mirror, name, at, at + (length or TEXT)))
            reader.close()
        place = {str(mirror.folder / name): (mirror, name) for mirror, name in files}
        for turn in range(ASKS):
            missed = ask() if ask is not None else []
            wanted += [self._part(*place[path], at, length) for at, length, path in missed]
            before = self.rounds
            self.round(wanted)
            wanted = [self._part(mirror, name, at, 0) for mirror, name, at in texts]
            if turn > 0 and self.rounds == before:  # what is missed still is damaged there, too
                return
        self.statistics(mirrors)

    def _part(
        self, mirror: Mirror, name: str, at: int, length: int
    ) -> tuple[Mirror, str, int, int]:
        """Return a part of a file; without a length, as much of a block as is known of it."""
        if not length:
            head = mirror.read(name, at, at + HEADER)
            about = _core._block_look(head, at) if len(head) == HEADER else None
            length = about[2] if about is not None else TEXT
        return mirror, name, at, at + length

    def everything(self, mirrors: list[Mirror]) -> None:
        """Read all bytes."""
        self.round((m, name, 0, file.size) for m in mirrors for name, file in m.files.items())


def _tail(size: int) -> int:
    """Return how much of the end of a file is read at first: a short footer is in it."""
    return min(max(TAIL, size // TAIL_SHARE), TAIL_MOST)


def _has_index(mirror: Mirror, name: str, window: int) -> bool:
    """Return whether there is an index of the blocks before it so near to the end of a file."""
    size = mirror.files[name].size
    if size < HEADER:
        return False
    start = max(size - window, 0) // HEADER * HEADER
    content = mirror.read(name, start, size)
    at = len(content)
    while (at := content.rfind(MAGIC, 0, at)) >= 0:
        head = content[at : at + HEADER]
        if at % HEADER == 0 and len(head) == HEADER and head[5] == INDEX:
            about = _core._block_look(head, start + at)
            if about is not None and start + at + about[2] <= size:
                return True
    return False


def cache_folder() -> Path:
    """Return the folder of all mirrors, which only this user may enter."""
    base = os.environ.get("TENSORTAP_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensortap"
    )
    folder = Path(base) / "mirrors"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Wait until no other process fills the same mirror."""
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def mirror(
    url: str, *, whole: bool = False, folder: Path | None = None, ask: Ask | None = None
) -> tuple[str, Counted]:
    """Return a local folder that stands for a run, or a folder of runs, in a store.

    Args:
        url: Of the run, of a folder of runs, or of one file of a run.
        whole: Read values too.
        folder: Where to put it. Defaults to a place in the user's cache.
        ask: A question that is put until it misses nothing. Then only what it needs is read.

    Raises:
        FileNotFoundError: There is no run.
        StoreError: The store did not answer, or holds what no recorder wrote.
    """
    shown = hide_secrets(url)
    base, _, last = url.rstrip("/").rpartition("/")
    is_file = last.endswith(".tap")
    store = open_store(base if is_file else url)
    objects = [one for one in store.objects() if not is_file or one.key == last]
    runs = runs_of(objects)
    if not runs:
        raise FileNotFoundError(
            f"there is no run at {shown}; give the folder of a run, or one that holds runs"
        )
    if folder is None:
        name = hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:24]
        folder = cache_folder() / name
        make_room(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fetch, target = Fetch(store), folder / "run" / last if is_file else folder / "run"
    with _held(folder):
        (folder / ".url").write_text(shown)
        mirrors = []
        for inner, files in runs.items():
            place = folder / "run" / inner
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            mirrors.append(Mirror(place, files))
        try:
            if whole:
                fetch.everything(mirrors)
            else:
                fetch.statistics(mirrors, partial(ask, target) if ask is not None else None)
        finally:
            for one in mirrors:
                one.save()
    counted = Counted(fetch.rounds + 1, fetch.bytes)
    return str(target), counted


def make_room(kept: Path) -> None:
    """Remove the mirrors that were not used for the longest time, if all take too much room."""
    mirrors: list[tuple[float, int, Path]] = []
    for folder in cache_folder().iterdir():
        try:
            size = sum(file.stat().st_blocks * 512 for file in folder.rglob("*.tap"))
            mirrors.append(((folder / ".url").stat().st_mtime, size, folder))
        except OSError:
            continue
    total = sum(size for _, size, _ in mirrors)
    for when, size, folder in sorted(mirrors):
        if total <= MOST_BYTES:
            break
        if folder != kept and time.time() - when > 3600:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


def local(path: Any, *, whole: bool = False) -> Any:
    """Return the mirror of a run that is in a store; any other path as it is."""
    from tensortap.cloud.stores import is_url

    return mirror(path, whole=whole)[0] if is_url(path) else path


__all__ = ["Counted", "StoreError", "local", "mirror"]
