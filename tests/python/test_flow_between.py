"""Arrows between a function and its caller: what goes in, what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from charts import capture, edges, names

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("flow_alone")


def test_a_result_comes_from_what_the_function_returned(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            h = x * 2
            k = x * 3
            return h + 1
        a = torch.ones(2)
        y = f(a)
        z = f(a).sum() * 2
        """,
    )
    found = edges(chart)
    assert "h@3->y@7" in found
    assert "h@3->z@8" in found
    assert not any(edge.startswith("k@4->") for edge in found)


def test_each_target_comes_from_the_call_that_made_it(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            h = x * 2
            return h
        def g(x):
            k = x * 2
            return k, k + 1
        a = torch.ones(2)
        y, z = f(a), g(a)[1]
        """,
    )
    found = edges(chart)
    assert ("h@3->y@9" in found, "k@6->y@9" in found) == (True, False)
    assert ("h@3->z@9" in found, "k@6->z@9" in found) == (False, True)


def test_a_tensor_that_is_passed_on_comes_from_where_it_was(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def inner(p):
            q = p + 1
            return q
        def outer(o):
            return inner(o)
        a = torch.ones(2)
        b = outer(a)
        """,
    )
    assert sorted(edges(chart)) == ["a@7->b@8", "a@7->p@3", "p@3->q@3", "q@3->b@8"]


def test_a_callers_source_stands_before_what_the_call_did(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def inner(p):
            q = p + 1
            return q
        def outer(o):
            r = inner(o)
        outer(torch.ones(2))
        """,
    )
    assert names(chart) == ["o", "p", "q", "r"]
    assert [node["id"] for node in chart["nodes"]] == [1, 2, 3, 4]
    assert sorted(edges(chart)) == ["o@6->p@3", "o@6->r@6", "p@3->q@3", "q@3->r@6"]


def test_a_tensor_at_the_address_of_a_dead_one_has_nothing_to_do_with_it(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            h = torch.zeros(4)
            y = x + h
        for _ in range(3):
            f(torch.zeros(4))
        """,
    )
    assert edges(chart) == ["x@4->y@4", "h@3->y@4"] * 3


def test_a_variable_of_the_function_around_comes_from_there(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def make():
            w = torch.ones(2)
            def use(x):
                y = x * w
                return y
            return use
        z = make()(torch.zeros(2))
        """,
    )
    assert "w@3->w@5" in edges(chart)


def test_what_a_generator_yields_comes_from_inside(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def numbers():
            n = torch.ones(2)
            yield n * 2
        for x in numbers():
            y = x + 1
        """,
    )
    assert edges(chart) == ["n@3->x@5", "x@5->y@6"]


def test_returned_values_lead_to_the_result_on_request(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            h = x * 2
            return h + 1
        y = f(torch.ones(2))
        """,
        returns=True,
    )
    assert edges(chart) == ["x@3->h@3", "h@3->return f@4", "return f@4->y@5"]


def test_no_tensor_lives_longer_for_its_arrows(tmp_path: Path) -> None:
    text = """\
    import torch, weakref
    def gen(t):
        while True:
            r = yield t
            del r
    def main():
        seen = []
        def made(name):
            one = torch.ones(2)
            weakref.finalize(one, seen.append, name)
            return one
        g = gen(made("given"))
        next(g)
        sent = made("sent")
        y = g.send(sent)
        del sent
        assert seen == ["sent"], seen
        del y, g
        assert seen == ["sent", "given"], seen
        for item in [made("item")]:
            z = item * 2
        a, b = [made("first"), made("second")]
        del item, a
        assert seen[2:] == ["item", "first"], seen
    main()
    """
    capture(tmp_path, text)  # an assertion in it comes out here
