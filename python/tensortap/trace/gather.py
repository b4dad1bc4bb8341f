"""Bring what the ranks kept to rank 0.

Each rank announces a batch in the store of torch.distributed: one small header that says
what comes.  The tensors follow as raw bytes, packed into few large messages, from rank to
rank 0, as soon as rank 0 is ready to receive them.  No rank waits longer than the group's
timeout.  A rank that raised says so in its header and leaves; the others do not wait for it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tensortap.trace import wire
from tensortap.trace.results import GlobalVariableResult, LocalVariableResult, joined

Batch = tuple[int, str, LocalVariableResult]  # group, name, values

GO = b"\0go"  # rank 0 takes the batch; anything else: why it does not
MORE, FINAL, RAISED = "more", "final", "raised"
INLINE = 1 << 16  # bytes of a header that the store takes; a longer one is a message
TAGS = 1 << 12  # messages of one batch
_entered = [0]  # exchanges of this process: the ranks agree on it
_abandoned: list[Any] = []  # sends that were given up: torch may still read their memory


def place() -> tuple[int, int]:
    """Return rank and world size; 0 and 1 without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def take_batches(
    batches: list[tuple[int, list[Batch]]],
) -> dict[tuple[int, str], GlobalVariableResult]:
    """Put the ranks' batches behind each other, rank by rank."""
    parts: dict[tuple[int, str], list[tuple[int, LocalVariableResult]]] = {}
    for rank, batch in batches:
        for number, name, result in batch:
            parts.setdefault((number, name), []).append((rank, result))
    out = {}
    for key, found in parts.items():
        iterations = [i for _, result in found for i in result.iterations]
        ranks = [rank for rank, result in found for _ in result.iterations]
        values = joined([result.values for _, result in found])
        out[key] = GlobalVariableResult(iterations, ranks, values)
    return out


class Exchange:
    """One trace over several ranks."""

    def __init__(self, rank: int, world: int) -> None:
        """Find the group and its store."""
        from torch.distributed import distributed_c10d as c10d

        self.rank, self.world = rank, world
        self.group = _gloo_group()
        self.timeout = _timeout()
        self.store: Any = c10d._get_default_store()
        _entered[0] += 1
        self.prefix = f"tensortap/trace/{_entered[0]}"
        self.sent = 0  # batches announced
        self.received = [0] * world  # rank 0: of each rank
        self.is_done = [r == rank for r in range(world)]
        self.pending: list[tuple[Any, torch.Tensor]] = []

    def run(self, local: list[Batch], is_final: bool) -> Iterator[list[tuple[int, list[Batch]]]]:
        """Send what is here; on rank 0 give what came, in turns until the last rank is done."""
        if self.rank != 0:
            self._send(local, is_final)
            return
        own: list[tuple[int, list[Batch]]] = [(0, local)]
        while True:
            problems: list[str] = []
            received = own + self._receive(problems)
            if any(batch for _, batch in received):
                yield received
            own = []
            if problems:
                raise RuntimeError(f"tensortap.trace: {'; '.join(problems)}")
            if not is_final or all(self.is_done):
                return

    def leave(self, error: BaseException) -> None:
        """Announce that this rank has raised, without waiting for the others."""
        text = f"{type(error).__name__}: {error}"[:500]
        with contextlib.suppress(Exception):  # the store was rank 0's, which may be gone
            if self.rank == 0:
                self.store.set(f"{self.prefix}/left", text)
                for rank in range(1, self.world):  # one may be waiting for us
                    self.store.set(f"{self.prefix}/{rank}/{self.received[rank] + 1}/go", text)
            else:
                self._announce(RAISED, text, [], b"")
        _abandoned.extend(self.pending)

    # ---- ranks other than 0

    def _send(self, local: list[Batch], is_final: bool) -> None:
        try:
            if self.store.check([f"{self.prefix}/left"]):
                raise self._left(self.store.get(f"{self.prefix}/left"))
            head, messages = wire.encode(local)
            if len(head) > INLINE:
                messages.insert(0, wire.as_bytes(head))
                head = b""
            self._announce(FINAL if is_final else MORE, "", [len(m) for m in messages], head)
            if messages:
                self._wait_for_rank_0()
            for i, message in enumerate(messages):
                tag = self._tag(self.sent - 1, i)
                self.pending.append((dist.isend(message, 0, group=self.group, tag=tag), message))
            self._wait_for_sends()  # what was gathered does not die with this rank
        except (dist.DistError, OSError) as error:
            raise RuntimeError(f"tensortap.trace: rank 0 cannot be reached: {error}") from error

    @staticmethod
    def _left(text: bytes) -> RuntimeError:
        words = text.decode(errors="replace")
        return RuntimeError(f"tensortap.trace: rank 0 has left the trace: {words}")

    def _wait_for_rank_0(self) -> None:
        """Wait until it takes this batch, or says that it never will."""
        key = f"{self.prefix}/{self.rank}/{self.sent}/go"
        try:
            self.store.wait([key], self.timeout)
        except (dist.DistError, RuntimeError) as error:
            raise RuntimeError(
                f"tensortap.trace: rank 0 did not take the values of rank {self.rank} within "
                f"the group's timeout ({self.timeout.total_seconds():g} s)"
            ) from error
        answer = self.store.get(key)
        with contextlib.suppress(RuntimeError):
            self.store.delete_key(key)
        if answer != GO:
            raise self._left(answer)

    def _announce(self, status: str, text: str, sizes: list[int], head: bytes) -> None:
        self.sent += 1
        header = wire.pack_header(status, text, sizes, head)
        self.store.set(f"{self.prefix}/{self.rank}/{self.sent}", header)

    def _wait_for_sends(self) -> None:
        deadline = time.monotonic() + self.timeout.total_seconds()
        try:
            for work, _ in self.pending:
                work.wait(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
        except RuntimeError as error:
            _abandoned.extend(self.pending)
            self.pending = []
            raise RuntimeError(
                f"tensortap.trace: rank 0 did not take the values of rank {self.rank} within "
                f"{self.timeout.total_seconds():g} s: {error}"
            ) from error
        self.pending = []

    @staticmethod
    def _tag(batch: int, message: int) -> int:
        return (batch % TAGS) * TAGS + message % TAGS

    # ---- rank 0

    def _receive(self, problems: list[str]) -> list[tuple[int, list[Batch]]]:
        """Take the next batch of every rank that is not done."""
        deadline = time.monotonic() + self.timeout.total_seconds()
        coming = []
        for rank in range(1, self.world):
            if self.is_done[rank]:
                continue
            header = self._header(rank, deadline, problems)
            if header is None:
                self.is_done[rank] = True
                continue
            status, text, sizes, head = header
            if status == RAISED:
                problems.append(f"rank {rank} raised {text}")
                self.is_done[rank] = True
                continue
            self.is_done[rank] = status == FINAL
            if sizes:
                self.store.set(f"{self.prefix}/{rank}/{self.received[rank]}/go", GO)
            buffers = [torch.empty(size, dtype=torch.uint8) for size in sizes]
            works = [
                dist.irecv(b, rank, group=self.group, tag=self._tag(self.received[rank] - 1, i))
                for i, b in enumerate(buffers)
            ]
            coming.append((rank, head, buffers, works))
        received = []
        for rank, head, buffers, works in coming:
            try:
                for work in works:
                    assert work is not None
                    work.wait(timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
            except RuntimeError as error:
                self.is_done[rank] = True
                _abandoned.append((works, buffers))
                problems.append(f"rank {rank} did not send what it announced: {error}")
                continue
            if not head and buffers:
                head = buffers.pop(0).numpy().tobytes()
            received.append((rank, wire.decode(head, buffers)))
        return received

    def _header(
        self, rank: int, deadline: float, problems: list[str]
    ) -> tuple[str, str, list[int], bytes] | None:
        key = f"{self.prefix}/{rank}/{self.received[rank] + 1}"
        left = timedelta(seconds=max(deadline - time.monotonic(), 0.001))
        try:
            self.store.wait([key], left)
            header = wire.unpack_header(self.store.get(key))
            with contextlib.suppress(RuntimeError):  # not every store can
                self.store.delete_key(key)
        except (dist.DistError, RuntimeError) as error:
            limit = f"{self.timeout.total_seconds():g} s"
            detail = "" if "imeout" in str(error) or "imed out" in str(error) else f": {error}"
            problems.append(
                f"rank {rank} sent nothing within the group's timeout ({limit}){detail}"
            )
            return None
        self.received[rank] += 1
        return header


def _gloo_group() -> Any:
    """Return the default group if gloo serves the CPU there, else a gloo group beside it."""
    from torch.distributed import distributed_c10d as c10d

    default = c10d._get_default_group()
    try:
        backend = default._get_backend(torch.device("cpu"))
        if "gloo" in type(backend).__name__.lower():
            return None
    except RuntimeError:
        pass
    if not _beside or _beside[0] is not default:  # another one was initialised since
        _beside[:] = [default, dist.new_group(backend="gloo", timeout=_timeout())]
    return _beside[1]


_beside: list[Any] = []  # a default group, and the gloo group made for it


def _timeout() -> timedelta:
    """Return the timeout that the program's own group has."""
    from torch.distributed import distributed_c10d as c10d

    default = c10d._get_default_group()
    for device in ("cpu", "cuda"):
        try:
            found = default._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
        if isinstance(found, timedelta):
            return found
    return c10d.default_pg_timeout
