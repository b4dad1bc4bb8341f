"""Small programs whose tree is kept in tests/golden/track: `python track_example.py`.

Line numbers are part of the golden text: after an edit look at every line of
    TENSORTAP_WRITE_GOLDEN=1 pytest tests/python/test_track_golden.py
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import numpy as np
import torch

from tensortap.track import auto_diff, block, debug_trace, fstack, log2file, var_tracker


@auto_diff
def scale(x: torch.Tensor, factor: float, *rest: int, name: str = "") -> torch.Tensor:
    return x * factor


@auto_diff
def split(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x[:2], len(x)


@auto_diff
def many(values: object) -> object:
    return values


def functions() -> None:
    scale(torch.arange(6.0).reshape(2, 3), 2)
    scale(torch.tensor([1.0, float("nan"), float("inf")]), 0.5, 7, 8, name="n" * 100)
    split(torch.arange(5))
    many({"a": torch.zeros(2, 2), "b": [1, None]})
    many(list(range(26)))
    many([])
    many(np.linspace(0, 1, 5))
    many(torch.empty(0, 3))
    many(torch.zeros(3, device="meta"))
    many(torch.tensor([True, False]))


class Net:
    @auto_diff
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.shift()

    @auto_diff
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return scale(x, 3)

    @staticmethod
    @auto_diff
    def shift() -> int:
        return 1

    @auto_diff
    @classmethod
    def make(cls) -> Net:
        return cls()

    def __repr__(self) -> str:
        return "Net()"


def methods() -> None:
    Net.make().forward(torch.ones(2))


@auto_diff
def count(n: int) -> Iterator[torch.Tensor]:
    for i in range(n):
        split(torch.zeros(i))
        yield torch.full((2,), float(i))


@var_tracker("x")
def grow(x: torch.Tensor) -> Iterator[int]:
    while True:
        x = torch.cat([x, x])
        yield len(x)


def generators() -> None:
    for item in count(2):
        scale(item, 2)
    one, two = grow(torch.ones(1)), grow(torch.zeros(5))
    next(one), next(two), next(one)
    one.close()
    two.close()


@auto_diff
async def fetch(n: int) -> int:
    await asyncio.sleep(0.01 * n)
    return n * 10


@var_tracker("total")
async def gather() -> int:
    total = 0
    for n in (1, 2):
        total += await fetch(n)
    return total


@auto_diff
async def stream(n: int) -> AsyncIterator[int]:
    for i in range(n):
        await asyncio.sleep(0.01)
        yield i


async def both() -> None:
    await asyncio.gather(gather(), asyncio.sleep(0.005))
    async for i in stream(2):
        log2file(f"got {i}")


def coroutines() -> None:
    asyncio.run(both())


@var_tracker("n")
def factorial(n: int) -> int:
    if n <= 1:
        return 1
    below = factorial(n - 1)
    n = n * below
    return n


@auto_diff
def deep(n: int) -> int:
    return n if n == 0 else deep(n - 1)


def recursion() -> None:
    factorial(3)
    deep(12)


@auto_diff
def fails(x: torch.Tensor) -> torch.Tensor:
    return breaks(x)


@var_tracker("y")
def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.add_(1)
    raise ValueError(f"no use for {len(y)} elements")


def exceptions() -> None:
    try:
        fails(torch.zeros(2))
    except ValueError:
        split(torch.zeros(1))


@var_tracker("x")
def work(x: torch.Tensor, turns: int) -> None:
    for _ in range(turns):
        x = x + 1


def threads() -> None:
    for i in range(3):  # one after the other: the text is the same each time
        thread = threading.Thread(target=work, args=(torch.full((1,), float(i)), 2))
        thread.start()
        thread.join()


@var_tracker("video")
def load(size: int) -> torch.Tensor:
    video = np.zeros((size, 4, 4, 3), np.uint8)
    video[0] = 5
    video = torch.from_numpy(video)
    video[1].fill_(7)
    video = permuted(video)
    video = video.float()
    video.div_(255)
    return video


def permuted(clip: torch.Tensor) -> torch.Tensor:
    video = clip.permute(0, 3, 1, 2)
    unrelated = 1
    return video[unrelated:]


def changes() -> None:
    load(3)


def blocks() -> None:
    x = torch.zeros(2)
    with block("x"):
        x = x + 1
        y = x[:1]
        y += 1
    x = x * 0
    try:
        with block("x", "y"):
            y = 3
            raise KeyError("k")
    except KeyError:
        pass


@debug_trace
def traced(a: int) -> int:
    b = a + 1
    return helper(b)


def helper(b: int) -> int:
    if b > 1:
        return b * 2
    return b


def lines() -> None:
    traced(1)


@fstack
def bottom() -> None:
    pass


def middle() -> None:
    bottom()


def stacks() -> None:
    middle()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for part in (
        functions,
        methods,
        generators,
        coroutines,
        recursion,
        exceptions,
        threads,
        changes,
        blocks,
        lines,
        stacks,
    ):
        log2file(f"== {part.__name__}")
        part()
