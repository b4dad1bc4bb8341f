"""A consumer that wants some names is told of these, cheaply, and nothing is looked up twice.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest
from line_lab import BACKENDS, code_of, run, surroundings, tensor, watch_lines


def told(source: str, names: list[str], backend: str = "numpy", **options: Any) -> list[Any]:
    return run(source, surroundings(backend), only=names, **options).changes()


# ---- which changes ----------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("source", "names", "expected"),
    [
        ("x = y + 1\ny = x * 2\nx = y", ["x"], [(1, "x"), (3, "x")]),
        ("v = x\nz = y + 1\nv += 1\nz = z * 2", ["x"], [(3, "x")]),
        ("x[0] = 5\ny[0] = 5", ["x"], [(1, "x")]),
        ("box.h = x\nbox.k = x", ["box.h"], [(1, "box.h")]),
        ("u = box.h\nu += 1\nw = box.k\nw += 1", ["box.h"], [(2, "box.h")]),
        ("cache['k'] = x\ncache['m'] = y", ["cache['k']"], [(1, "cache['k']")]),
        ("for j in range(3):\n    xs[j] = x + j", ["xs[1]"], [(2, "xs[1]")]),
        ("a = 1; x = y + 1; b = 2", ["x"], [(1, "x")]),
        ("a = x; a += 1; b = 2", ["x"], [(1, "x")]),
        ("x = (y +\n  w +\n  b)\nz = (y +\n  w)", ["x"], [(1, "x")]),
        ("lib.add(y, w, out=x)\nlib.add(y, w, out=b)", ["x"], [(1, "x")]),
        ("if n:\n    x = y + 1\nelse:\n    y = x", ["x"], [(2, "x")]),
        (
            "try:\n    x = y + 1\n    1 / 0\nexcept ZeroDivisionError:\n    pass\nx = y",
            ["x"],
            [(2, "x"), (6, "x")],
        ),
        ("z = y + 1\nw = z * 2", ["x"], []),
    ],
)
def test_only_the_names_asked_for_are_told(
    backend: str, source: str, names: list[str], expected: list[tuple[int, str]]
) -> None:
    assert [(line, name) for line, name, _ in told(source, names, backend)] == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_that_changes_a_name_through_an_alias_is_seen(backend: str) -> None:
    source = "def f(t):\n    t += 1\n    return 3\nq = f(y)\nq = f(x)\nq = q + 1"
    assert told(source, ["x"], backend) == [(5, "x", "inplace")]


def test_reads_of_other_names_are_told_with_the_change() -> None:
    found = run("z = y + 1\nz += 1\nx = z + w\nx = z + x", surroundings("numpy"), only=["x"])
    assert found.arrows() == [(3, "x", ["w", "z"]), (4, "x", ["x", "z"])]
    first, second = found.events
    keys = {r.name: r.key for r in first.reads}
    again = {r.name: r.key for r in second.reads}
    assert again["z"] == keys["z"]
    assert again["x"] == first.changes[0].key


@pytest.mark.skipif("torch" not in BACKENDS, reason="NumPy does not count changes")
def test_a_name_read_again_after_it_changed_has_another_key() -> None:
    source = "x = y + 1\ny += 1\nx = y + 1\ny = y + 1\nx = y + 1"
    found = run(source, surroundings("torch"), only=["x"])
    assert len({read.key for event in found.events for read in event.reads}) == 3


def test_numbers_and_strings_are_told_by_name() -> None:
    source = "a = 1\nb = 2\na = a + b\nc = [a]\na = 'text'\nfor a in range(2):\n    b = 3\na = None"
    assert [line for line, _, _ in told(source, ["a"], objects=True)] == [1, 3, 5, 6, 6, 8]


def test_a_container_is_told_after_each_statement_that_may_have_changed_it() -> None:
    source = """
        a = [1]
        n = n + 1
        a.append(2)
        n = 5
        a[0] = n
        m = min(xs, key=id)
        a += [3]
        s = 'a' + 'b'
        other = a
        other.append(4)
    """
    found = told(source, ["a"], objects=True)
    assert [(line, how) for line, _, how in found] == [
        (1, "bound"),
        (3, "touched"),
        (5, "touched"),
        (6, "touched"),
        (7, "rebound"),
        (10, "touched"),
    ]


def test_an_object_that_another_function_rebinds_is_told() -> None:
    source = "a = 1\ndef f():\n    nonlocal a\n    a = 'other'\nf()\nn = 2"
    assert (5, "a", "rebound") in told(source, ["a"], objects=True)


def test_a_consumer_of_all_names_beside_one_of_some() -> None:
    def work(x: Any, y: Any) -> Any:
        z = x + y
        x = z * 2
        z += 1
        return x + z

    some: list[str] = []
    every: list[str] = []
    code, x = code_of(work), tensor("numpy")
    with watch_lines(
        lambda e: some.extend(c.name for c in e.changes), codes=[code], names=["x"], arrays=True
    ):
        work(x, x)
        with watch_lines(
            lambda e: every.extend(c.name for c in e.changes), codes=[code], arrays=True
        ):
            work(x, x)
        work(x, x)
    assert some == ["x"] * 3
    assert every == ["z", "x", "z"]


def test_a_running_frame_learns_of_new_names() -> None:
    log: list[tuple[str, str]] = []
    x = tensor("numpy")

    def note(who: str) -> Any:
        return lambda e: log.extend((who, c.name) for c in e.changes)

    def work(x: Any, y: Any) -> None:
        y = y + 1
        x = x + 1
        second = watch_lines(note("second"), codes=[code_of(work)], names=["y"], arrays=True)
        alias = y
        alias += 1
        x = x + 1
        second.close()
        third = watch_lines(note("third"), codes=[code_of(work)], arrays=True)
        alias += 1
        third.close()

    with watch_lines(note("first"), codes=[code_of(work)], names=["x"], arrays=True):
        work(x, x)
    assert log == [
        ("first", "x"),
        ("second", "y"),
        ("first", "x"),
        ("third", "y"),
        ("third", "alias"),
    ] or log == [
        ("first", "x"),
        ("second", "y"),
        ("first", "x"),
        ("third", "alias"),
        ("third", "y"),
    ]


def test_code_without_the_names_is_left_alone_unless_its_frames_are_wanted() -> None:
    seen: list[str] = []

    def inner(q: Any) -> Any:
        r = q + 1
        return r

    def outer(x: Any) -> Any:
        x = inner(x)
        return x

    files = [__file__]
    with watch_lines(lambda e: seen.append(e.code.co_name), files=files, names=["x"], arrays=True):
        outer(tensor("numpy"))
    assert seen == ["outer"]
    seen.clear()
    with watch_lines(enter=lambda e: seen.append(e.code.co_name), files=files, names=["x"]):
        outer(tensor("numpy"))
    assert seen == ["outer"]


def test_names_that_are_no_strings_are_refused() -> None:
    with pytest.raises(TypeError, match="names"):
        watch_lines(names=[3])


# ---- what it costs -----------------------------------------------------------------


def big() -> Any:
    """Make a function whose analysis takes long."""
    lines = "".join(f"    a{i} = [x, {i}][0] + (x if x else {i})\n" for i in range(300))
    space: dict[str, Any] = {}
    exec(compile(f"def work(x):\n{lines}    return x\n", "<big>", "exec"), space)
    return space["work"]


def little() -> None:
    x = [1]
    x[0] += 1


def test_a_code_object_is_analysed_once() -> None:
    def seconds(work: Any) -> float:
        start = time.perf_counter()
        with watch_lines(lambda e: None, codes=[code_of(work)]):
            work(1)
        return time.perf_counter() - start

    first, again = [], []
    for _ in range(30):  # until the machine let both run undisturbed
        work = big()
        first.append(seconds(work))
        again.append(seconds(work))
        if min(again) * 4 < min(first):
            return
    raise AssertionError(f"{min(first)} s, and once more {min(again)} s")


def test_what_is_kept_of_a_code_object_goes_with_it() -> None:
    work = big()
    with watch_lines(lambda e: None, codes=[code_of(work)]):
        work(1)
    alive = weakref.ref(code_of(work))
    del work
    gc.collect()
    assert alive() is None
    for _ in range(600):  # the tables of the dead are swept out, others come to their addresses
        other = little.__code__.replace(co_name="other")
        with watch_lines(lambda e: None, codes=[other]) as watch:
            exec(other)
            assert watch.errors == (0, None)


def test_a_frame_without_builtins_is_no_obstacle() -> None:
    from collections import namedtuple

    names: list[str] = []
    space = {
        "__builtins__": {},
        "watch": watch_lines,
        "x": tensor("numpy"),
        "note": names.append,
    }
    code = compile(
        "w = watch(lambda e: note(e.changes[0].name), arrays=True,\n"
        "    select=lambda code: code.co_filename == '<bare>')\n"
        "y = x + 1\nz = (lambda q: q)(y)\nw.close()",
        "<bare>",
        "exec",
    )
    exec(code, space)
    with watch_lines(
        lambda e: names.append(e.changes[0].name), threads="all", arrays=True
    ) as watch:
        pair = namedtuple("pair", "a b")(1, 2)
        assert watch.errors == (0, None)
    assert pair == (1, 2)
    assert names[:2] == ["y", "z"]
