"""Consumers that ask for bare lines, frames coming and going: nothing is analysed for them."""

from __future__ import annotations

from typing import Any

import pytest
from line_files import lines_told, lines_traced, module
from line_lab import watch_lines

TIGHT = """
def f():
    total = 0
    for k in range(4): total += k
    while total > 3: total -= 2
    return total
"""


@pytest.mark.parametrize("bare", [False, True])
def test_each_turn_of_a_loop_on_one_line_is_told(bare: bool) -> None:
    run = module(TIGHT, "<mine>")["f"]
    assert lines_told(run, bare=bare) == lines_traced(run)


def test_bare_frames_come_and_go_with_their_values() -> None:
    mine = module(
        """
        def inner(n):
            if n == 2:
                raise KeyError(n)
            return n
        def numbers():
            got = yield 1
            yield got
        def f():
            run = numbers()
            next(run)
            run.send(5)
            list(run)
            inner(1)
            try:
                inner(2)
            except KeyError:
                return 3
        """,
        "<mine>",
    )
    told: list[tuple[Any, ...]] = []
    with watch_lines(
        enter=lambda event: told.append(("enter", event.code.co_name, event.is_resumed)),
        leave=lambda event: told.append(("leave", event.code.co_name, event.value, event.is_yield)),
        files=["<mine>"],
        bare=True,
    ):
        mine["f"]()
    assert told == [
        ("enter", "f", False),
        ("enter", "numbers", False),
        ("leave", "numbers", 1, True),
        ("enter", "numbers", True),
        ("leave", "numbers", 5, True),
        ("enter", "numbers", True),
        ("leave", "numbers", None, False),
        ("enter", "inner", False),
        ("leave", "inner", 1, False),
        ("enter", "inner", False),
        ("leave", "inner", None, False),
        ("leave", "f", 3, False),
    ]


def test_a_bare_consumer_and_a_whole_one_are_told_side_by_side() -> None:
    run = module(TIGHT, "<mine>")["f"]
    want = lines_traced(run)
    told: list[int] = []
    changed: list[str] = []
    with (
        watch_lines(line=lambda event: told.append(event.line), files=["<mine>"], bare=True),
        watch_lines(
            lambda event: changed.extend(change.name for change in event.changes),
            files=["<mine>"],
            names=["total"],
            objects=True,
        ),
    ):
        run()
    assert told == [line for _, line in want]
    assert changed == ["total"] * 7
