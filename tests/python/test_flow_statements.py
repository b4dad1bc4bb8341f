"""Each statement has its own arrows, also where several share a line or a call lies in a call.

A row is a piece of a function's body and the arrows of its chart, thought out by hand;
`x'` is the second node of the name x.  `x` and `w` are there before; `p->h` are names of f,
`q->k` of g, `r->r'` of ip.  With NumPy alone the same must hold.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
from pathlib import Path

import pytest
from charts import arrows, capture

pytestmark = pytest.mark.usefixtures("flow_alone")

LIB = "torch" if importlib.util.find_spec("torch") else "numpy"
HEAD = f"""\
import {LIB} as T
def f(p):
    h = p + 1
    return h
def g(q):
    k = q * 2
    return k
def ip(r):
    r += 1
def ident(s):
    return s
class Box: pass
def main():
    x = T.ones(2)
    w = T.ones(2)
"""
THROWS = "def bad(t): a = t + 1; raise KeyError\n"
TWO = "def two(t): a = t + 1; b = t * 2; return a, b\n"
GENERATES = "def gen(t):\n    a = t + 1; yield a\n    b = t * 2; yield b\n"

ONE_LINE = [
    ("f(x); z = w * 2", "x->p p->h w->z"),
    ("y = x * 2; f(w)", "x->y w->p p->h"),
    ("a = f(x); b = f(w)", "x->p p->h h->a x->a w->p' p'->h' h'->b w->b"),
    ("f(x); f(w)", "x->p p->h w->p' p'->h'"),
    ("g(f(x)); z = w * 2", "x->p p->h h->q q->k w->z"),
    ("y = f(x); z = w * 2; u = y + 1", "x->p p->h h->y x->y w->z y->u"),
    ("for i in range(2): f(x); z = w * 2", "x->p p->h w->z x->p' p'->h' w->z'"),
    ("c = 1\nif c: f(x); z = w + 0", "x->p p->h w->z"),
    ("c = 0\nif c: f(x); z = w + 0", ""),
    ("a = (lambda t: f(t))(x); z = w * 2", "x->p p->h h->a x->a w->z"),
    ("y = f(\n  x); z = w * 2", "x->p p->h h->y x->y w->z"),
    ("x = x + 1; x = x * 2; y = x", "x->x' x'->x'' x''->y"),
    ("x += 1; x *= 2", "x->x' x'->x''"),
    ("y = x; y += w; z = y", "x->y y->y' w->y' y'->z x->x' w->x' y->x'"),
    ("ip(x); y = x + 1", "x->r r->r' x->x' x'->y"),
    ("ip(x); ip(x); y = x", "x->r r->r' x->x' x'->r'' r''->r''' x'->x'' x''->y"),
    ("try: f(x); z = w * 2\nexcept ValueError: pass", "x->p p->h w->z"),
    (THROWS + "try: bad(x); z = w\nexcept KeyError: z = w * 2", "x->t t->a w->z"),
    ("with open('/dev/null') as o: f(x); z = w * 2", "x->p p->h w->z"),
    ("(y := f(x)); z = w * 2", "x->p p->h h->y x->y w->z"),
    ("y = z = f(x); u = w + 1", "x->p p->h h->y h->z x->y x->z w->u"),
    ("x += f(w); u = w + 1", "w->p p->h h->x' x->x' w->x' w->u"),
    ("while x.sum() < 5: x = x * 2; y = x + w", "x->x' x'->y w->y x'->x'' x''->y' w->y'"),
    ("class C: a = T.ones(2); b = a + 1; a = b * 2", "a->b b->a'"),
    ("b = Box(); b.t = x + 1; b.t = b.t * 2; y = b.t", "x->b.t b.t->b.t' b.t'->y"),
    ("l = [x]; l[0] = l[0] + 1; l[0] = l[0] * 2", "x->l[0] l[0]->l[0]' l[0]'->l[0]''"),
    ("global G; G = x + 1; G = G * 2", "x->G G->G'"),
    ("y = x + 1; del y; y = w * 2", "x->y w->y'"),
    ("assert f(x) is not None, 'm'; z = w * 2", "x->p p->h w->z"),
    (TWO + "y, z = two(x); u = w", "x->t t->a t->b a->y b->z x->y x->z w->u"),
    (
        GENERATES + "it = gen(x); y = next(it); z = w * 2; u = next(it)",
        "x->t t->a a->y w->z t->b b->u",
    ),
    (
        "if f(x).sum() > 0 and g(w).sum() > 0: z = w + 1; u = x + 1",
        "x->p p->h w->q q->k w->z x->u",
    ),
    (
        "def rec(n, t): u = t + n; return u if n == 0 else rec(n - 1, u)\nz = rec(1, x); y = w * 2",
        "x->t t->u u->t' t'->u' u'->z x->z w->y",
    ),
]
CALLS = [
    ("y = f(f(x))", "x->p p->h h->p' p'->h' h'->y x->y"),
    ("y = g(\n  f(\n   x)\n )", "x->p p->h h->q q->k k->y x->y"),
    ("y = ident(f(x)); z = w", "x->p p->h h->y x->y w->z"),
    ("y, z = f(x) + 1, w * 2", "x->p p->h h->y x->y w->z"),
    ("y, z = f(x), g(w)", "x->p p->h h->y x->y w->q q->k k->z w->z"),
    ("y = f(x) + g(w) + 1", "x->p p->h w->q q->k h->y k->y x->y w->y"),
    ("y = (f(x), 1)[1] + g(w * 2)", "x->p p->h w->q q->k h->y k->y x->y w->y"),
    ("d = {'a': f(x), 'b': w}", "x->p p->h h->d['a'] x->d['a'] w->d['b']"),
    ("a, *b = f(x), g(w), w", "x->p p->h h->a x->a w->q q->k k->b[0] w->b[0] w->b[1]"),
    ("y = (a := f(x)) + w", "x->p p->h h->a x->a h->y x->y w->y"),
    ("y = f(x) if x is not w else w", "x->p p->h h->y x->y w->y"),
    ("y = T.zeros(2); y[:] = f(x); z = w", "x->p p->h h->y' x->y' y->y' w->z"),
    ("v = [f(t) for t in (x,)]", "x->p p->h h->v[0] x->v[0]"),
    ("y = [f(t) + g(t) + 1 for t in (x,)][0]", "x->p p->h x->q q->k h->y k->y x->y"),
    ("y = f(p=x); z = f(*(w,))", "x->p p->h h->y x->y w->p' p'->h' h'->z w->z"),
    (
        "n = x + 1\ndef inner():\n    nonlocal n\n    n = n * 2\ninner()\ny = n",
        "x->n n->n' n'->n'' n''->n''' n'''->y",
    ),
    ("match {'k': x}:\n    case {'k': a}:\n        y = a + w", "x->a a->y w->y"),
]
# Keys of items that the statement computes; arrows are separated by two blanks.
ITEMS = [
    (
        "d = {}; i = 1; d[i + 1] = x * 7; d[i + 1] = w * 8; y = d[i + 1]",
        "x->d[2]  w->d[2]'  d[2]'->y",
    ),
    (
        "d = {}; i = 1; d[i, 't'] = x + 1; d[3, None] = w + 1; y = d[i, 't'] * d[3, None]",
        "x->d[(1, 't')]  w->d[(3, None)]  d[(1, 't')]->y  d[(3, None)]->y",
    ),
    (
        "l = []; i = 1; l.append(x); l.append(w); y = l[i - 1]; z = l[-i]; l[-1] = x * 2; u = l[i]",
        "x->l[0]  w->l[1]  l[0]->y  l[1]->z  x->l[-1]  l[-1]->u",
    ),
    (
        "d = {}; i = 1; d[f'k{i}'] = x + 1; d[f'{i}.v'] = w + 1; y = d[f'k{i}']; z = d['1.' + 'v']",
        "x->d['k1']  w->d['1.v']  d['k1']->y  d['1.v']->z",
    ),
    (
        "b = Box(); b.n = 7; b.d = {}; b.d[b.n // 2 * 2] = x + 1; y = b.d[b.n % 4 + 3]",
        "x->b.d[6]  b.d[6]->y",
    ),
    ("d = {}; n = 3; d[n] = {}; d[n][n - 1] = x + 1; y = d[3][2]", "x->d[3][2]  d[3][2]->y"),
    ("l = [0, 1]; d = {}; d[l[1] + 1] = x + 1; y = d[2]", "x->d[2]  d[2]->y"),
    ("d = {}; n = 0\ntry: d[1 // n] = x\nexcept ZeroDivisionError: y = w + 1", "w->y"),
    (
        "d = {}; d[-0.5] = w + 1; y = d[-0.5]",
        "w->d[-0.5]  d[-0.5]->y",
    ),
    (
        "d = {}; d[True] = x + 1; d[b'k'] = w + 1; y = d[1] + d[b'k']",
        "x->d[True]  w->d[b'k']  d[True]->y  d[b'k']->y",
    ),
]


def _arrows(folder: Path, body: str) -> list[str]:
    text = HEAD + textwrap.indent(body, "    ") + "\nmain()\n"
    return arrows(capture(folder, text, max_nodes=2000, arrays=LIB == "numpy"))


@pytest.mark.parametrize(("body", "expected"), ONE_LINE, ids=[row[0] for row in ONE_LINE])
def test_statements_that_share_a_line_are_told_apart(
    tmp_path: Path, body: str, expected: str
) -> None:
    assert _arrows(tmp_path, body) == sorted(expected.split())


@pytest.mark.parametrize(("body", "expected"), ITEMS, ids=[row[0] for row in ITEMS])
def test_an_item_is_known_by_the_key_that_is_computed(
    tmp_path: Path, body: str, expected: str
) -> None:
    assert _arrows(tmp_path, body) == sorted(expected.split("  "))


def test_a_key_of_the_programs_own_type_is_computed_once(tmp_path: Path) -> None:
    own = """\
class K(int):
    calls = 0
    def __add__(self, other):
        K.calls += 1
        return K(int(self) + other)
    def __hash__(self):
        K.calls += 1
        return int(self)
    def __str__(self):
        K.calls += 1
        return "k"
    __format__ = lambda self, spec: str(self)
k = K(1); d = {}
d[k + 1] = x * 2; y = d[k + 1]; d[f"{k}"] = x; z = d[k, k] if (k, k) in d else d[f"{k}"]
assert K.calls == 8, K.calls  # what it is without us
"""
    _arrows(tmp_path, own)  # an assertion in it comes out here


@pytest.mark.parametrize(("body", "expected"), CALLS, ids=[row[0] for row in CALLS])
def test_what_a_call_returns_goes_where_its_value_goes(
    tmp_path: Path, body: str, expected: str
) -> None:
    assert _arrows(tmp_path, body) == sorted(expected.split())


def test_both_changes_of_a_line_show_the_values_of_their_time(tmp_path: Path) -> None:
    text = HEAD + "    x = x + 1; x = x * 10; x += 5\nmain()\n"
    chart = capture(tmp_path, text, arrays=LIB == "numpy")
    assert [n["stats"]["max"] for n in chart["nodes"] if n["name"] == "x"] == [1, 2, 20, 25]


@pytest.mark.parametrize("depth", [10, 100, 200])
def test_calls_may_be_nested_deeply(tmp_path: Path, depth: int) -> None:
    body = (
        "def d(n, t):\n    u = t + n\n    if n > 0:\n        v = d(n - 1, u); return v\n"
        f"    return u\nz = d({depth}, x)"
    )
    found = _arrows(tmp_path, body)
    quotes = ["'" * i for i in range(depth + 1)]
    assert {f"u{a}->t{b}" for a, b in itertools.pairwise(quotes)} <= set(found)
    assert sum(edge.startswith("u") and "->t" in edge for edge in found) == depth


def test_a_hundred_calls_of_one_statement_give_no_wrong_arrow(tmp_path: Path) -> None:
    body = "y = " + " + ".join(["f(x)"] * 100) + "; z = w * 2"
    found = _arrows(tmp_path, body)
    assert [edge for edge in found if edge.endswith("->z")] == ["w->z"]
    assert sum(edge.startswith("h") and edge.endswith("->y") for edge in found) == 100
