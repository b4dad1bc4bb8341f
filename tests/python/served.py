"""Start `tensortap serve` and ask it."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from commands import PROGRAM


class Served:
    """A server that runs, and what it prints at its start."""

    def __init__(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        self.process = process
        self.lines = lines
        self.address = next(line for line in lines if line.startswith("http://"))
        parts = urlsplit(self.address)
        self.port = int(parts.port or 0)
        self.token = parts.path.strip("/")

    def ask(
        self,
        path: str = "",
        method: str = "GET",
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> tuple[int, bytes]:
        """Ask for a path behind the token; return the status and the body."""
        full = f"/{self.token}/{path}" + (f"?{urlencode(query)}" if query else "")
        return self.ask_raw(full, method, headers)

    def ask_raw(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            body = answer.read()
            packed = answer.getheader("Content-Encoding") == "gzip"
            return answer.status, gzip.decompress(body) if packed else body
        finally:
            connection.close()

    def data(self, of: str = "", since: int = 0, have: str = "", add: str = "") -> dict[str, Any]:
        """Ask for columns; return the header, with the bytes of the body under "body"."""
        status, body = self.ask("data", of=of, since=str(since), have=have, add=add)
        assert status == 200, body
        (length,) = struct.unpack("<I", body[:4])
        return {**json.loads(body[4 : 4 + length]), "body": body[4 + length :]}

    def memory(self) -> float:
        """Return the memory that the server uses, in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(x.split()[1]) for x in text.splitlines() if x.startswith("VmRSS")) / 1024

    def is_alive(self) -> bool:
        return self.process.poll() is None


@contextmanager
def serve(folder: Path, *options: str, **env: str) -> Iterator[Served]:
    """Serve a folder until the block ends; the server must then end well."""
    process = subprocess.Popen(
        [PROGRAM, "serve", folder, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    assert process.stdout is not None
    lines: list[str] = []
    while not any(line.startswith("http://") for line in lines):
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        lines.append(line.rstrip())
    if "SSH_CONNECTION" in env:
        lines.append(process.stdout.readline().rstrip())
    try:
        yield Served(process, lines)
        assert process.poll() is None, process.communicate()[1]
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
