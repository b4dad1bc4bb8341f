"""Send what the ranks kept to rank 0.

Each rank announces a batch by a small header in the store of torch.distributed.  When rank 0 is
ready, the tensors follow as raw bytes in few large messages.  No rank waits longer than the
timeout of the group.  A rank that raised says so in its header and leaves; the others do not wait
for it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tensortap.display import session
from tensortap.private.groups import STORE, default_store, timeout_of
from tensortap.trace import wire
from tensortap.trace.results import GlobalVariableResult, LocalVariableResult, joined

Batch = tuple[int, str, LocalVariableResult]  # group, name, values
Header = tuple[str, str, list[int], bytes]  # status, error, sizes of the messages, head

GO = b"\0go"  # rank 0 receives the batch; anything else: why it does not
MORE, FINAL, RAISED = "more", "final", "raised"
INLINE = 1 << 16  # bytes of a head that the store takes; a longer one is a message
TAGS = 1 << 12  # messages of one batch
_entered = [0]  # exchanges of this process: the same on all ranks
_abandoned: list[Any] = []  # transfers that were given up: torch may still use their memory
_beside: list[Any] = []  # a default group, and the gloo group made for it


def place() -> tuple[int, int]:
    """Return rank and world size; 0 and 1 without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def join_batches(
    batches: list[tuple[int, list[Batch]]],
) -> dict[tuple[int, str], GlobalVariableResult]:
    """Return the results of each group and name, joined rank by rank."""
    parts: dict[tuple[int, str], list[tuple[int, LocalVariableResult]]] = {}
    for rank, batch in batches:
        for number, name, result in batch:
            parts.setdefault((number, name), []).append((rank, result))
    return {
        key: GlobalVariableResult(
            [i for _, result in found for i in result.iterations],
            [rank for rank, result in found for _ in result.iterations],
            joined([result.values for _, result in found]),
        )
        for key, found in parts.items()
    }


class Exchange:
    """The batches of one trace over several ranks."""

    def __init__(self, rank: int, world: int) -> None:
        """Find the group and its store."""
        self.rank, self.world = rank, world
        self.store: Any = default_store()
        if self.store is None:
            session.warn(f"tensortap.trace: {STORE.note}")
            return
        self.group = _gloo_group()
        self.timeout = timeout_of(dist.group.WORLD)
        _entered[0] += 1
        self.prefix = f"tensortap/trace/{_entered[0]}"
        self.sent = 0  # batches announced
        self.received = [0] * world  # rank 0: of each rank
        self.is_done = [r == rank for r in range(world)]

    def run(self, local: list[Batch], is_final: bool) -> Iterator[list[tuple[int, list[Batch]]]]:
        """Send a batch; on rank 0 yield what was received, until the last rank is done."""
        if self.store is None:  # rank 0 has what is its own
            if self.rank == 0 and local:
                yield [(0, local)]
            return
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
        if self.store is None:
            return
        text = f"{type(error).__name__}: {error}"[:500]
        with contextlib.suppress(Exception):  # the store was rank 0's, which may have ended
            if self.rank == 0:
                self.store.set(f"{self.prefix}/left", text)
                for rank in range(1, self.world):  # one may be waiting
                    self.store.set(f"{self._key(rank, self.received[rank] + 1)}/go", text)
            else:
                self._announce(RAISED, text, [], b"")

    def _key(self, rank: int, batch: int) -> str:
        return f"{self.prefix}/{rank}/{batch}"

    def _take(self, key: str, deadline: float) -> bytes:
        """Wait for an entry of the store, and remove it."""
        self.store.wait([key], _until(deadline))
        value: bytes = self.store.get(key)
        with contextlib.suppress(RuntimeError):  # not every store can
            self.store.delete_key(key)
        return value

    @staticmethod
    def _tag(batch: int, message: int) -> int:
        return ((batch - 1) % TAGS) * TAGS + message % TAGS

    # ---- ranks other than 0

    def _send(self, local: list[Batch], is_final: bool) -> None:
        try:
            if self.store.check([f"{self.prefix}/left"]):
                raise _left(self.store.get(f"{self.prefix}/left"))
            head, messages = wire.encode(local)
            if len(head) > INLINE:
                messages.insert(0, torch.frombuffer(bytearray(head), dtype=torch.uint8))
                head = b""
            self._announce(FINAL if is_final else MORE, "", [len(m) for m in messages], head)
            if messages:
                self._send_messages(messages)
        except (dist.DistError, OSError) as error:
            raise RuntimeError(f"tensortap.trace: rank 0 cannot be reached: {error}") from error

    def _announce(self, status: str, text: str, sizes: list[int], head: bytes) -> None:
        self.sent += 1
        header: Header = (status, text, sizes, head)
        self.store.set(self._key(self.rank, self.sent), pickle.dumps(header, protocol=5))

    def _send_messages(self, messages: list[torch.Tensor]) -> None:
        """Wait until rank 0 is ready, and until it has everything."""
        works: list[Any] = []
        try:
            answer = self._take(f"{self._key(self.rank, self.sent)}/go", self._deadline())
            if answer == GO:
                for i, message in enumerate(messages):
                    tag = self._tag(self.sent, i)
                    works.append(dist.isend(message, 0, group=self.group, tag=tag))
                deadline = self._deadline()
                for work in works:
                    work.wait(_until(deadline))
        except (dist.DistError, RuntimeError) as error:
            _abandoned.append((works, messages))
            raise RuntimeError(
                f"tensortap.trace: rank 0 did not take the values of rank {self.rank} within "
                f"the group's timeout ({self.timeout.total_seconds():g} s): {error}"
            ) from error
        if answer != GO:
            raise _left(answer)

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout.total_seconds()

    # ---- rank 0

    def _receive(self, problems: list[str]) -> list[tuple[int, list[Batch]]]:
        """Receive the next batch of every rank that is not done."""
        deadline = self._deadline()
        coming = []
        for rank in range(1, self.world):
            if self.is_done[rank]:
                continue
            header = self._header(rank, deadline, problems)
            self.is_done[rank] = header is None or header[0] == FINAL
            if header is None:
                continue
            _, _, sizes, head = header
            number = self.received[rank]
            if sizes:
                self.store.set(f"{self._key(rank, number)}/go", GO)
            buffers = [torch.empty(size, dtype=torch.uint8) for size in sizes]
            works: list[Any] = [
                dist.irecv(buffer, rank, group=self.group, tag=self._tag(number, i))
                for i, buffer in enumerate(buffers)
            ]
            coming.append((rank, head, buffers, works))
        received = []
        for rank, head, buffers, works in coming:
            try:
                for work in works:
                    work.wait(_until(deadline))
            except RuntimeError as error:
                self.is_done[rank] = True
                _abandoned.append((works, buffers))
                problems.append(f"rank {rank} did not send what it announced: {error}")
                continue
            if not head and buffers:
                head = buffers.pop(0).numpy().tobytes()
            received.append((rank, wire.decode(head, buffers)))
        return received

    def _header(self, rank: int, deadline: float, problems: list[str]) -> Header | None:
        """Return the header of a rank's next batch; None, and a problem, if there is none."""
        try:
            header: Header = pickle.loads(
                self._take(self._key(rank, self.received[rank] + 1), deadline)
            )
        except (dist.DistError, RuntimeError) as error:
            limit = f"{self.timeout.total_seconds():g} s"
            detail = "" if "imeout" in str(error) or "imed out" in str(error) else f": {error}"
            problems.append(
                f"rank {rank} sent nothing within the group's timeout ({limit}){detail}"
            )
            return None
        self.received[rank] += 1
        if header[0] == RAISED:
            problems.append(f"rank {rank} raised {header[1]}")
            return None
        return header


def _until(deadline: float) -> timedelta:
    return timedelta(seconds=max(deadline - time.monotonic(), 0.001))


def _left(text: bytes) -> RuntimeError:
    words = text.decode(errors="replace")
    return RuntimeError(f"tensortap.trace: rank 0 has left the trace: {words}")


def _gloo_group() -> Any:
    """Return None, the default group, if it uses gloo for the CPU, else another group that does."""
    default = dist.group.WORLD
    if "cpu:gloo" in dist.get_backend_config(default).split(","):
        return None
    if not _beside or _beside[0] is not default:  # another one was initialised since
        _beside[:] = [default, dist.new_group(backend="gloo", timeout=timeout_of(default))]
    return _beside[1]
