"""Frames of every kind keep their names apart: generators, recursion, threads.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from line_lab import BACKENDS, run, surroundings, watch_lines


def lab(source: str, backend: str) -> Any:
    return run(source, surroundings(backend), is_function=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_generators_that_take_turns_keep_their_frames(backend: str) -> None:
    told = lab(
        """
        def count(t):
            for n in range(2):
                t = t + 1
                yield n
        a, b = count(x), count(y)
        for n in range(2):
            next(a), next(b)
        """,
        backend,
    )
    frames = [event.frame for event in told.events]
    assert told.names() == ["t"] * 4
    assert frames[0] == frames[2] != frames[1] == frames[3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_sent_to_a_generator_is_told(backend: str) -> None:
    told = lab(
        """
        def keep():
            z = yield
            v = z + 1
            while True:
                z = yield v
        k = keep()
        next(k)
        k.send(x)
        k.send(y)
        k.close()
        """,
        backend,
    )
    assert told.changes() == [(2, "z", "bound"), (3, "v", "bound"), (5, "z", "rebound")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_yield_from_and_throw_go_on_where_they_were(backend: str) -> None:
    told = lab(
        """
        def inner(t):
            try:
                u = t + 1
                yield u
            except KeyError:
                u = t * 2
                yield u
        def outer(t):
            z = yield from inner(t)
        o = outer(x)
        next(o)
        v = o.throw(KeyError())
        """,
        backend,
    )
    assert told.changes() == [(3, "u", "bound"), (6, "u", "rebound"), (12, "v", "bound")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generator_that_catches_what_is_thrown_stays_the_same_frame(backend: str) -> None:
    told = lab(
        """
        def f(t):
            try:
                a = t + 1
                yield a
            except KeyError:
                b = a + 1
                yield b
        run = f(x)
        next(run)
        run.throw(KeyError())
        list(run)
        """,
        backend,
    )
    assert told.names() == ["a", "b"]
    assert len({event.frame for event in told.events if event.code.co_name == "f"}) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_coroutines_are_told_like_functions(backend: str) -> None:
    told = lab(
        """
        import asyncio
        async def double(t):
            await asyncio.sleep(0)
            u = t * 2
            return u
        async def main():
            z = await double(x)
            a, b = await asyncio.gather(double(x), double(y))
            async def gen():
                yield a
            async for q in gen():
                r = q + 1
            return z
        v = asyncio.run(main())
        """,
        backend,
    )
    assert told.arrows() == [
        (4, "u", ["t"]),
        (7, "z", ["x"]),
        (4, "u", ["t"]),
        (4, "u", ["t"]),
        (8, "a", ["x", "y"]),
        (8, "b", ["x", "y"]),
        (11, "q", []),
        (12, "r", ["q"]),
        (14, "v", []),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_level_of_a_recursion_is_a_frame(backend: str) -> None:
    told = lab(
        """
        def down(t, n):
            u = t + 1
            if n:
                u = down(u, n - 1)
            return u
        v = down(x, 2)
        """,
        backend,
    )
    assert [(e.line, e.changes[0].name) for e in told.events] == [
        (2, "u"), (2, "u"), (2, "u"), (4, "u"), (4, "u"), (6, "v"),
    ]  # fmt: skip
    frames = [e.frame for e in told.events]
    assert frames[3:5] == [frames[1], frames[0]]
    assert told.events[1].caller == frames[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_closure_that_stores_changes_the_name_of_its_owner(backend: str) -> None:
    told = lab(
        """
        def owner(t):
            def store(s):
                nonlocal t
                t = t + s
            store(t)
            u = t * 2
            return lambda: t + u
        v = owner(x)()
        """,
        backend,
    )
    assert told.arrows() == [
        (4, "t", ["s", "t"]),
        (5, "t", ["t"]),
        (6, "u", ["t"]),
        (8, "v", ["x"]),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exception_leaves_frames_in_order(backend: str) -> None:
    told = lab(
        """
        def fail(t):
            t += 1
            raise ValueError
        def outer(t):
            u = t * 1
            fail(u)
        for n in range(2):
            try:
                outer(x)
            except ValueError:
                z = y + n
        """,
        backend,
    )
    expected = [(5, "u"), (2, "t"), (6, "u"), (11, "z")]
    assert [(line, name) for line, name, _ in told.changes()] == expected * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_started_later_are_told_and_named(backend: str) -> None:
    told = lab(
        """
        import threading
        def work(t):
            u = t + 1
        threads = [threading.Thread(target=work, args=(x,)) for n in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        backend,
    )
    assert told.names() == ["u"] * 3
    assert threading.get_ident() not in {event.thread for event in told.events}


@pytest.mark.parametrize("backend", BACKENDS)
def test_own_threads_only_where_asked(backend: str) -> None:
    source = """
    import threading
    def work(t):
        u = t + 1
    thread = threading.Thread(target=work, args=(x,))
    thread.start()
    thread.join()
    work(x)
    """
    told = run(source, surroundings(backend), is_function=False, threads="own")
    assert [event.thread for event in told.events] == [threading.get_ident()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_that_run_already_are_seen_from_their_next_line(backend: str) -> None:

    names: list[str] = []
    here = surroundings(backend)

    def start() -> Any:
        return watch_lines(
            lambda e: names.extend(c.name for c in e.changes),
            codes=[test_frames_that_run_already_are_seen_from_their_next_line.__wrapped__.__code__]
            if hasattr(test_frames_that_run_already_are_seen_from_their_next_line, "__wrapped__")
            else [test_frames_that_run_already_are_seen_from_their_next_line.__code__],
            arrays=True,
        )

    x = here["x"]
    watch = start()
    y = x + 1
    x += 1
    watch.close()
    z = y + 1
    assert names == ["y", "x"]
    assert z is not y


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_abandoned_generators_do_not_pile_up(backend: str) -> None:
    told = lab(
        """
        def forever(t):
            while True:
                t = t + 1
                yield t
        for n in range(6000):
            g = forever(x)
            next(g)
        """,
        backend,
    )
    assert told.names() == ["t"] * 6000
    assert len({event.frame for event in told.events}) == 6000
