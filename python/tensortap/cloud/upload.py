"""Copy a run into an object store while it is written: a process of its own, never the training's.

Each file is cut at borders of its blocks into objects that never change; one behind the other they
are the file. The file on disk is the backlog: whatever happens to the store or to this process,
the next attempt goes on where the store's own list says. So does an uploader that finds an object
which it did not create: another one is at work, or the answer to its own request was lost.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import bisect
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tensortap import _core
from tensortap.cloud.segments import RemoteFile, runs_of, segment_key
from tensortap.cloud.stores import Range, Store, StoreError, hide_secrets, open_store

SEGMENT = 16 << 20  # bytes of an object, about
AGE = 300.0  # seconds after which what there is becomes an object
POLL = 1.0
HEADER = 64
PATIENCE = 8  # attempts of a copy that nobody follows
LONGEST = 60.0  # seconds between two attempts
URL = "TENSORTAP_UPLOAD_URL"  # for the process that is started: a command line is for all to see
STATUS = ".upload"  # in the run's folder
GAVE_UP = "gave up: "  # there, before an error that another attempt does not mend


class OtherRunError(OSError):
    """The store has another run of the same name."""


@dataclass
class LocalFile:
    """A file that is being copied."""

    path: Path
    sent: int = 0  # bytes that the store has
    borders: list[int] = field(default_factory=list)  # ends of whole blocks behind these, rising
    ready: int = 0  # behind the last whole block that was seen
    size: int = 0  # when last looked at
    since: float = field(default_factory=time.monotonic)  # the oldest byte that was not sent
    was_bad: bool = False
    due: int = 0  # up to this byte it is to be sent at once
    searched: int = 0  # the size up to which damage was searched for whole blocks
    reader: _core.RunReader | None = None

    @property
    def is_written(self) -> bool:
        """A process holds the file open for writing."""
        try:
            with self.path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def advance(self, file: IO[bytes], end: int, *, skips_damage: bool) -> None:
        """Move behind the last whole block that ends at or before a byte."""
        at = self.ready
        skips_damage = skips_damage and self.searched != end
        while at + HEADER <= end:
            file.seek(at)
            about = _core._block_look(file.read(HEADER), at)
            if about is not None and at + about[2] <= end:
                at = self.ready = at + about[2]
                self.borders.append(at)
            elif skips_damage:
                at += HEADER  # the next place where a block may begin
            else:
                break
        if skips_damage:
            self.searched = end  # what is left was torn off by a crash; not again

    def next_end(self) -> int:
        """Return where the next object ends: behind about SEGMENT bytes of whole blocks."""
        del self.borders[: bisect.bisect_right(self.borders, self.sent)]
        large = bisect.bisect_left(self.borders, self.sent + SEGMENT)
        return self.borders[min(large, len(self.borders) - 1)]

    def turned_bad(self) -> bool:
        """Return whether the file has become worth sending at once: NaN, Inf, an exception."""
        try:
            if self.reader is None:
                self.reader = _core.RunReader(str(self.path))
            self.reader.refresh()
            [about] = self.reader.files()
            is_bad = about[9] is not None or self.reader.origin(None) is not None
        except (OSError, ValueError):
            return False
        turned, self.was_bad = is_bad and not self.was_bad, is_bad
        return turned


class Upload:
    """The copy of one run."""

    def __init__(self, run: Path, store: Store) -> None:
        self.run, self.store = run, store
        self.files: dict[str, LocalFile] = {}
        self.sent_bytes = 0  # by this process

    def resume(self) -> None:
        """Ask the store what it has."""
        known: list[RemoteFile] = runs_of(self.store.objects()).get("", [])
        for remote in known:
            local = self.files.setdefault(remote.name, LocalFile(self.run / remote.name))
            if not self.is_same(local, remote):
                raise OtherRunError(
                    f"the store has another {remote.name} under this name; rename the run's folder"
                )
            local.sent = remote.size

    def is_same(self, local: LocalFile, remote: RemoteFile) -> bool:
        """Return whether a file in the store and the one here are the same run's."""
        if not local.path.exists():
            return False
        first = remote.parts[0].object
        [head] = self.store.get([Range(first.key, 0, min(HEADER, first.size))])
        with local.path.open("rb") as file:  # it holds a number that no other file has
            return file.read(len(head)) == head

    def poll(self) -> bool:
        """Send what is due; return whether everything is sent and nobody writes any more."""
        for path in sorted(self.run.glob("rank*.tap")):
            self.files.setdefault(path.name, LocalFile(path))
        is_done = bool(self.files)
        for file in self.files.values():
            is_done &= self.send(file)
        return is_done

    def send(self, file: LocalFile) -> bool:
        """Send what is due of one file; return whether all of it is sent for good."""
        if not file.path.exists():
            return True
        is_written = file.is_written
        seen, file.size = file.size, file.path.stat().st_size
        with file.path.open("rb") as content:
            # The last block may still be on its way, unless it was there when last looked at.
            file.advance(content, seen if is_written else file.size, skips_damage=not is_written)
            if file.ready <= file.sent:
                file.since = time.monotonic()
            if not is_written or time.monotonic() - file.since >= AGE or file.turned_bad():
                file.due = file.size
            while file.ready > file.sent and (
                file.due > file.sent or file.ready - file.sent >= SEGMENT
            ):
                self.send_segment(file, content)
        if not is_written and file.sent > file.size:
            raise OtherRunError(
                f"the store has more of {file.path.name} than there is here; "
                "rename the run's folder to copy it once more"
            )
        return not is_written and file.ready <= file.sent

    def send_segment(self, file: LocalFile, content: IO[bytes]) -> None:
        """Send whole blocks of about SEGMENT bytes, unless the store has what begins there."""
        start, end = file.sent, file.next_end()
        content.seek(start)
        piece = content.read(end - start)
        if self.store.create(segment_key(file.path.name, start), piece):
            self.sent_bytes += len(piece)
            file.sent = end
        else:
            self.resume()
            if file.sent <= start:
                raise StoreError(
                    f"{segment_key(file.path.name, start)} is in the store already, and empty; "
                    "remove it there"
                )
        file.since = time.monotonic()

    def send_rest(self) -> None:
        """Send all whole blocks that there are, whether somebody still writes or not."""
        for file in self.files.values():
            with file.path.open("rb") as content:
                file.advance(content, file.size, skips_damage=False)
                while file.ready > file.sent:
                    self.send_segment(file, content)

    def behind(self) -> int:
        """Return the number of bytes that the store does not have."""
        return sum(max(file.size - file.sent, 0) for file in self.files.values())


def folder_url(run: Path, url: str) -> str:
    """Return where a run goes: below the URL, by its own name."""
    return f"{url.rstrip('/')}/{run.absolute().name}"


def upload(run: Path, url: str, *, follow: bool, say: Callable[[str], None]) -> int:
    """Copy a run, and with *follow* go on until its writers have ended; return the bytes sent.

    Raises:
        OtherRunError: The store has another run of the same name.
        StoreError: The store did not answer; never with *follow*.
    """
    with open(run / ".upload.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process uploads this run")
            return 0
        return _upload(run, url, follow, say)


def _upload(run: Path, url: str, follow: bool, say: Callable[[str], None]) -> int:
    shown = hide_secrets(folder_url(run, url))
    job: Upload | None = None
    failures = 0
    is_done = False
    while not is_done:
        try:
            if job is None:
                job = Upload(run, open_store(folder_url(run, url)))
                job.resume()
            is_done = job.poll()
            if not follow:
                job.send_rest()
                is_done = True
            if failures:
                say(f"{shown}: the store answers again")
            failures = 0
            _note(run, job.behind(), shown, "done" if is_done else "")
        except (OtherRunError, ImportError) as error:
            _note(run, _size(run), shown, f"{GAVE_UP}{error}")
            raise
        except OSError as error:  # of the store, or of the disk
            failures += 1
            if failures == 1:
                say(str(error))
            if not follow and failures >= PATIENCE:
                raise
            _note(run, job.behind() if job and job.files else _size(run), shown, str(error))
            time.sleep(min(LONGEST, 0.5 * 2 ** min(failures, 8)))
        if not is_done and not failures:
            time.sleep(POLL)
    assert job is not None
    return job.sent_bytes


def _size(run: Path) -> int:
    """Return the number of bytes of a run."""
    return sum(path.stat().st_size for path in run.glob("rank*.tap"))


def _note(run: Path, behind: int, url: str, error: str) -> None:
    """Write down how far it is, for `tensortap ls`."""
    part = run / f"{STATUS}.part"
    try:
        part.write_text(f"{behind}\n{url}\n{' '.join(error.split())}\n{os.getpid()}\n")
        part.replace(run / STATUS)
    except OSError:
        pass  # the disk is full: the copy goes on


def start(run: str | os.PathLike[str], url: str) -> None:
    """Start a process that copies a run while it is written, and ends after it.

    A shell starts it and ends: the process is nobody's child, so that a program that waits for its
    children never meets it.
    """
    command = [sys.executable, "-m", "tensortap", "upload", os.fspath(run), "--follow"]
    subprocess.run(
        ["/bin/sh", "-c", '"$@" < /dev/null > /dev/null 2>&1 &', "sh", *command],
        env={**os.environ, URL: url},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def finish(run: Path, url: str) -> None:
    """Print that the copy goes on after the writer has ended; start it again if it was killed."""
    is_there, (behind, error) = is_alive(run), _read_note(run)
    if not is_there and error.startswith(GAVE_UP):
        why = error.removeprefix(GAVE_UP)
        print(f"tensortap: {run} was not uploaded: {why}", file=sys.stderr)
        return
    if not is_there and behind != 0:
        start(run, url)
    if behind != 0:
        print(
            f"tensortap: the upload of {run} goes on in the background{': ' * bool(error)}{error}; "
            "'tensortap ls' says how far it is",
            file=sys.stderr,
        )


def is_alive(run: Path) -> bool:
    """Return whether a process of this machine copies the run."""
    try:
        with open(run / ".upload.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def left(run: Path) -> int | None:
    """Return how many bytes of a run the store does not have; None: not known yet."""
    return _read_note(run)[0]


def _read_note(run: Path) -> tuple[int | None, str]:
    """Return how many bytes of a run the store does not have (None: not known), and why."""
    try:
        behind, _, error, *_ = (run / STATUS).read_text().splitlines()
        return (0, "") if error == "done" else (max(int(behind), 1), error)
    except (OSError, ValueError):
        return None, ""


def download(url: str, folder: Path) -> int:
    """Copy the runs at a URL into a folder; return the number of bytes.

    Raises:
        FileExistsError: A file is there already.
        FileNotFoundError: There is no run.
        StoreError: The store did not answer, or holds what no recorder wrote.
    """
    from tensortap.cloud.stores import read_ranges
    from tensortap.files.whole import whole_file

    store = open_store(url)
    runs = runs_of(store.objects())
    if not runs:
        raise FileNotFoundError(f"there is no run at {hide_secrets(url)}")
    targets = [
        (folder / inner / file.name, file) for inner, files in runs.items() for file in files
    ]
    for path, _ in targets:
        if path.exists():
            raise FileExistsError(f"{path} is there already; choose another folder")
    total = 0
    for path, file in targets:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(str(path)) as part, open(part, "wb") as out:
            for piece in file.parts:
                size = piece.object.size
                for start_at in range(0, size, SEGMENT):
                    wanted = Range(piece.object.key, start_at, min(start_at + SEGMENT, size))
                    [(_, content)] = read_ranges(store, [wanted])
                    out.write(content)
                    total += len(content)
    return total
