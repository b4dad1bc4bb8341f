"""What the line source costs a consumer that wants one name: a line, and coming and going."""

import time

import harness
from timed_lines import IS_OLD, LINES, TURNS, VERSION, extra, make

from tensortap import _core


def lines(turns=TURNS):
    x = make()
    total, found = 0, [1, 2, 3]
    start = time.thread_time_ns()
    for k in range(turns):
        total = total + k
        last = found
        if total > 3:
            total = 0
    taken = time.thread_time_ns() - start
    del x, last
    return taken / turns / LINES


def is_lines(code):
    return code is lines.__code__


def watched(**options):
    with _core.watch_lines(
        lambda event: None, select=is_lines, names=["x"], arrays=True, **options
    ):
        return lines()


def coming_and_going(turns):
    start = time.thread_time_ns()
    for _ in range(turns):
        _core.watch_lines(select=is_lines, names=["x"]).close()
    return (time.thread_time_ns() - start) / turns / 1000


def short():
    x = 1
    return x


def is_short(code):
    return code is short.__code__


def with_a_call(turns):
    start = time.thread_time_ns()
    for _ in range(turns):
        with _core.watch_lines(
            select=lambda code: code is short.__code__, names=["x"], objects=True
        ):
            short()
    return (time.thread_time_ns() - start) / turns / 1000


def main():
    ours, objects = extra(lines, watched, lambda: watched(objects=True))
    bar, come, call = (80, 10, 15) if IS_OLD else (60, 40, 50)
    what = f"line source: a line without the name, {VERSION}"
    harness.row(what, ours, bar, unit="ns more", at_most=True)
    harness.row("line source: the same, objects too", objects, bar, unit="ns more", at_most=True)
    for turn, what, most in (
        (coming_and_going, "line source: add and remove a consumer", come),
        (with_a_call, "line source: the same around a call", call),
    ):
        turn(100)
        harness.row(what, min(turn(500) for _ in range(9)), most, unit="us", at_most=True)


main()
