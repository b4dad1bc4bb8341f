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


def test_a_returned_value_comes_from_what_was_read_although_another_function_returned_meanwhile(
    tmp_path: Path,
) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            return x * 2
        def g(x, y):
            return f(x) + y
        z = g(torch.ones(2), torch.zeros(2))
        """,
        returns=True,
    )
    assert {"x@5->return g@5", "y@5->return g@5", "return f@3->return g@5"} <= {*edges(chart)}


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


PROGRAM = """\
import torch
def attn(x, scale=1):
    y = x * scale
    return y
def norm(t):
    return t / 2
def twice(t):
    u = t * 2
    return u
def pair(t):
    return t, t + 1
class Norm(torch.nn.Module):
    def forward(self, t):
        return t / 2
a, b, n = torch.ones(2), torch.zeros(2), 3
ln, inner, other, xs = Norm(), torch.nn.Identity(), torch.nn.LayerNorm(2), [a + 1, a + 2]
"""
#: A call of attn on line 18, and where its argument x comes from.
GIVEN = [
    ("attn(a)", "a@15"),
    ("attn(a + 1)", "a@15"),
    ("attn(a + b)", "a@15 b@15"),
    ("attn(x=a + b)", "a@15 b@15"),
    ("attn(-a)", "a@15"),
    ("attn(a[0:1])", "a@15"),
    ("attn(a.T)", "a@15"),
    ("attn(a.relu().neg())", "a@15"),
    ("attn(torch.relu(a))", "a@15"),
    ("attn(norm(a))", "a@15"),
    ("attn(norm(a) + b)", "a@15 b@15"),
    ("attn(twice(a))", "u@8"),
    ("attn(twice(a) + 1)", "a@15 u@8"),
    ("attn(twice(a) + twice(b))", "a@15 b@15 u@8 u@8"),
    ("attn(twice(a) * b)", "a@15 b@15 u@8"),
    ("attn(ln(a))", "a@15"),
    ("attn(other(a))", "a@15"),
    ("attn(other(a + b))", "a@15 b@15"),
    ("attn(pair(a)[0])", "a@15"),
    ("attn(*[a + 1])", "a@15"),
    ("attn(xs[0] * 2)", "xs[0]@16"),
    ("attn(torch.stack(xs)[0])", "xs[0]@16 xs[1]@16"),
    ("attn(a + 1 if n else b)", "a@15 b@15"),
    ("b + attn(a + 1)", "a@15"),
    ("b * attn(a + 1).sum() + twice(b)", "a@15"),
    ("attn(attn(a + 1) + 1)", "a@15 a@15 y@3"),
    ("attn(torch.ones(2))", ""),
    ("attn(torch.ones(n) * 2)", ""),
    ("attn(torch.ones(a.shape) * 2)", ""),
    ("attn(torch.ones(len(a), device=a.device, dtype=b.dtype))", ""),
    ("attn(torch.ones(a.size(0), a.dim(), a.numel()) + b)", "b@15"),
    ("attn((lambda t: t + 1)(a))", "a@15"),
    ("[attn(t + 1) for t in (a, b)][0]", "a@15 b@15 a@15 b@15"),
]


@pytest.mark.parametrize(("call", "expected"), GIVEN, ids=[row[0] for row in GIVEN])
def test_an_argument_comes_from_what_it_was_computed_from(
    tmp_path: Path, call: str, expected: str
) -> None:
    chart = capture(tmp_path, PROGRAM + f"\nz = {call}\n", max_nodes=100)
    nodes = {node["id"]: f"{node['name']}@{node['line']}" for node in chart["nodes"]}
    inputs = [node["id"] for node in chart["nodes"] if (node["name"], node["line"]) == ("x", 3)]
    assert inputs
    found = [nodes[start] for start, end in chart["edges"] if end in inputs]
    assert sorted(found) == sorted(expected.split())


def test_an_argument_that_is_handed_on_comes_from_the_caller_that_has_a_node(
    tmp_path: Path,
) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def last(p):
            q = p + 1
            return q
        def third(o):
            k = o * 2
            return last(o)
        def second(m):
            return third(m)
        def first(x):
            j = x * 3
            return second(x)
        a = torch.ones(2)
        b = first(a)
        """,
        max_nodes=100,
    )
    found = edges(chart)
    assert [edge for edge in found if edge.endswith("->p@3")] == ["o@6->p@3"]
    assert [edge for edge in found if edge.endswith("->o@6")] == ["x@11->o@6"]
    assert [edge for edge in found if edge.endswith("->x@11")] == ["a@13->x@11"]


def test_an_argument_that_is_handed_on_comes_from_the_caller_whose_node_comes_later(
    tmp_path: Path,
) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def last(p):
            q = p + 1
            return q
        def third(o):
            r = last(o)
            return r
        def second(m):
            s = third(m)
            return s
        def first(x):
            t = second(x)
            return t
        a = torch.ones(2)
        b = first(a)
        """,
        max_nodes=100,
    )
    found = edges(chart)
    assert [edge for edge in found if edge.endswith("->p@3")] == ["o@6->p@3"]
    assert [edge for edge in found if edge.endswith("->o@6")] == ["m@9->o@6"]
    assert [edge for edge in found if edge.endswith("->m@9")] == ["x@12->m@9"]
    assert [edge for edge in found if edge.endswith("->x@12")] == ["a@14->x@12"]


def test_a_name_that_a_call_gave_its_own_tensor_is_no_node(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def same(t):
            return t
        def run(x, layer):
            x = layer(x)
            x = same(x)
            x = layer(same(x))
            x, n = same(x), 1
            return x + 1
        a = torch.ones(2)
        y = run(a, torch.nn.Identity())
        """,
    )
    assert names(chart) == ["a", "y"]
    assert edges(chart) == ["a@10->y@11"]


#: What a function returns on line 3 of its argument, and the arrows of `y = torch.ones(f(a)) + b`.
ASKED = ["len(x)", "x.shape[0]", "x.size(0)", "x.shape[0] * x.dim()", "(x + 1).numel()"]


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_only_asked_about_a_tensor_gives_no_arrow(tmp_path: Path, asked: str) -> None:
    chart = capture(
        tmp_path,
        f"""\
        import torch
        def f(x):
            return {asked}
        a, b = torch.ones(2), torch.ones(1)
        y = torch.ones(f(a)) + b
        x = a
        z = torch.ones({asked}, dtype=x.dtype, device=x.device) + b
        """,
    )
    found = edges(chart)
    assert [edge for edge in found if edge.endswith("->z@7")] == ["b@4->z@7"]
    assert [edge for edge in found if edge.endswith("->y@5")] == ["a@4->y@5", "b@4->y@5"]


def test_layers_that_torch_calls_one_after_the_other_are_joined(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        class First(torch.nn.Module):
            def forward(self, p):
                q = p + 1
                return q
        class Second(torch.nn.Module):
            def forward(self, r):
                s = r * 2
                return s
        layers = torch.nn.Sequential(First(), Second())
        a = torch.ones(2)
        y = layers(a + 1)
        """,
        max_nodes=100,
    )
    assert edges(chart) == [
        *("a@11->p@4", "p@4->q@4", "q@4->r@8", "r@8->s@8", "a@11->y@12", "s@8->y@12"),
    ]


def test_each_argument_comes_from_its_own_expression(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x, mask, *, bias=None):
            y = x * mask + bias
            return y
        class Layer(torch.nn.Module):
            def forward(self, x, mask, *, bias=None):
                y = x * mask + bias
                return y
        a, b, c = torch.ones(2), torch.ones(2), torch.ones(2)
        y = f(a + 1, b * 2, bias=c - 1)
        y = Layer()(a + 1, bias=c - 1, mask=b * 2)
        """,
        max_nodes=100,
    )
    found = edges(chart)
    for line in (3, 7):
        for name, start in zip(("x", "mask", "bias"), "abc", strict=True):
            into = [edge for edge in found if edge.endswith(f"->{name}@{line}")]
            assert into == [f"{start}@9->{name}@{line}"]


def test_a_method_may_call_its_object_by_another_name(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        class Attention(torch.nn.Module):
            def forward(this, x):
                y = x * 2
                return y
        class Net(torch.nn.Module):
            def __init__(this):
                super().__init__()
                this.attn = Attention()
            def forward(this, h):
                z = this.attn(h + 1)
                return z
        net = Net()
        a = torch.ones(2)
        b = net(a)
        """,
        max_nodes=100,
    )
    assert "h@11->x@4" in edges(chart)
