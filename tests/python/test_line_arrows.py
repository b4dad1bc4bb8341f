"""Every form of statement gives the arrows that its data flow has.

Each row: a statement, and for every name that it changes the names it was
computed from.  The same table must hold for torch and for NumPy, and on every
Python, inside a function and at the top of a module.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import pytest
from line_lab import BACKENDS, run, surroundings

ROWS: list[tuple[str, dict[str, str]]] = [
    # names and operators
    ("z = x", {"z": "x"}),
    ("x = x", {}),
    ("z = -x", {"z": "x"}),
    ("z = x @ w", {"z": "x w"}),
    ("z = x + y * w - b", {"z": "x y w b"}),
    ("z = x * 2 + 1", {"z": "x"}),
    ("z = (x > y)", {"z": "x y"}),
    ("z = lib.ones((2, 2))", {"z": ""}),
    ("z = x + n", {"z": "x"}),
    ("n = n + 1", {}),
    ("z: object = x + y", {"z": "x y"}),
    # several targets
    ("z = v = x + 1", {"z": "x", "v": "x"}),
    ("z, v = x + 1, y + 1", {"z": "x", "v": "y"}),
    ("x, y = y, x", {"x": "y", "y": "x"}),
    ("z, v, u = x, y, w", {"z": "x", "v": "y", "u": "w"}),
    ("(z, v), u = (x, y), w", {"z": "x", "v": "y", "u": "w"}),
    ("[z, v] = [x + w, y]", {"z": "x w", "v": "y"}),
    ("z, v, u = x + y", {"z": "x y", "v": "x y", "u": "x y"}),
    ("z, v, u = xs", {"z": "xs[0]", "v": "xs[1]", "u": "xs[2]"}),
    ("z, v = (x, y)[::-1]", {"z": "y", "v": "x"}),
    ("z, *v = xs", {"z": "xs[0]", "v[0]": "xs[1]", "v[1]": "xs[2]"}),
    ("z, v = cache.values()", {"z": "cache['k']", "v": "cache['m']"}),
    ("z, *v = x, y, w", {"z": "x", "v[0]": "y", "v[1]": "w"}),
    ("*v, z = x, y, w", {"z": "w", "v[0]": "x", "v[1]": "y"}),
    ("z = w = b = c * 2", {"z": "c", "w": "c", "b": "c"}),
    # augmented
    ("x += b", {"x": "x b"}),
    ("x -= b * w", {"x": "x b w"}),
    ("x *= 2", {"x": "x"}),
    ("x @= w", {"x": "x w"}),
    ("x[0] += b[0]", {"x": "x b"}),
    ("box.h += x", {"box.h": "box.h x"}),
    ("cache['k'] += x", {"cache['k']": "cache['k'] x"}),
    ("xs[1] *= x", {"xs[1]": "xs[1] x"}),
    # subscripts
    ("z = x[0]", {"z": "x"}),
    ("z = x[0, 1:]", {"z": "x"}),
    ("z = x[1:]", {"z": "x"}),
    ("z = x[y > 0]", {"z": "x y"}),
    ("x[0] = b[0]", {"x": "x b"}),
    ("x[1:2] = b[1:2]", {"x": "x b"}),
    ("x[:, 0] = 7", {"x": "x"}),
    ("x[y > 1] = 5", {"x": "x y"}),
    # containers
    ("v = [x, y]", {"v[0]": "x", "v[1]": "y"}),
    ("v = {'k': x + y, 2: w}", {"v['k']": "x y", "v[2]": "w"}),
    ("v = [x * 2, y + w]", {"v[0]": "x", "v[1]": "y w"}),
    (
        "v = [x * 2, *xs]",
        {"v[0]": "x xs[0] xs[1] xs[2]", "v[1]": "xs[0]", "v[2]": "xs[1]", "v[3]": "xs[2]"},
    ),
    ("v = {n: x * 2, 'm': y + 1}", {"v[2]": "x y", "v['m']": "y"}),
    ("v = {'k': x + 1, 'k': y + 1}", {"v['k']": "x y"}),
    ("box.v = [x + 1, y]", {"box.v[0]": "x", "box.v[1]": "y"}),
    ("box.v = [x]", {"box.v[0]": "x"}),
    ("v = [t + 1 for t in xs]", {f"v[{i}]": "xs[0] xs[1] xs[2]" for i in range(3)}),
    ("v = xs", {}),
    ("v = [1, 2]", {}),
    ("xs.append(x)", {"xs[3]": "x"}),
    ("xs.append(x + y)", {"xs[3]": "x y"}),
    ("xs += [y]", {"xs[3]": "y"}),
    ("xs.extend([x, y])", {"xs[3]": "x", "xs[4]": "y"}),
    ("cache.update(q=x)", {"cache['q']": "x"}),
    ("cache.setdefault('k', x)", {}),
    ("n = len(xs)", {}),
    # attributes
    ("box.q = x + y", {"box.q": "x y"}),
    ("box.h = x", {"box.h": "x"}),
    ("z = box.h * box.k", {"z": "box.h box.k"}),
    ("z = x.T", {"z": "x"}),
    ("box.q = box.h", {"box.q": "box.h"}),
    ("box.h, z = x, box.k", {"box.h": "x", "z": "box.k"}),
    # items
    ("cache['new'] = x * y", {"cache['new']": "x y"}),
    ("z = cache['k'] + xs[0]", {"z": "cache['k'] xs[0]"}),
    ("xs[0] = x", {"xs[0]": "x"}),
    ("xs[i] = x + xs[n]", {"xs[1]": "x xs[2]"}),
    ("z = cache[key]", {"z": "cache['k']"}),
    ("xs[-1] = y * 2", {"xs[-1]": "y"}),
    ("cache[n] = x", {"cache[2]": "x"}),
    # calls
    ("z = lib.matmul(x, w)", {"z": "x w"}),
    ("z = x.sum(0)", {"z": "x"}),
    ("z = x.reshape(9).sum(0) + y[0, 0] * x[0]", {"z": "x y"}),
    ("z = lib.where(x > y, w, b)", {"z": "x y w b"}),
    ("z = lib.stack([x, y])", {"z": "x y"}),
    ("z = lib.add(*[x, y])", {"z": "x y"}),
    ("z = dict(a=x, b=y)['a'] + 0", {"z": "x y"}),
    ("z = (lambda t, s=w: t + s + b)(x)", {"z": "x w b"}),
    ("z = sum([a * w for a in (x, y)])", {"z": "x y w"}),
    ("z = sum(a + b for a in (x, y))", {"z": "x y b"}),
    ("z = {k: v + w for k, v in [(1, x)]}[1] * 1", {"z": "x w"}),
    ("z = [p for p in [x, y] if p is not w][0] + 0", {"z": "x y w"}),
    ("z = lib.stack(xs)", {"z": "xs[0] xs[1] xs[2]"}),
    ("z = sum(cache.values())", {"z": "cache['k'] cache['m']"}),
    ("z = max([cache], key=len)['k'] + w", {"z": "cache['k'] cache['m'] w"}),
    ("lib.add(x, y, out=w)", {"w": "x y"}),
    ("lib.add(x, w, out=w)", {"w": "x w"}),
    ("z = lib.add(x, y, out=w)", {"w": "x y", "z": "x y w"}),
    # choices
    ("z = x if n > 1 else y", {"z": "x y"}),
    ("z = x + 1 if w.sum() > 0 else y", {"z": "x y w"}),
    ("z = (x\n     if n\n     else y)", {"z": "x y"}),
    ("z = None or x", {"z": "x"}),
    ("z = n and x", {"z": "x"}),
    ("if (z := x + y).sum() > 0: pass", {"z": "x y"}),
    ("print((z := x * 2).shape, end='')", {"z": "x"}),
    # over several lines
    ("z = lib.add(\n    x,\n    y,\n)", {"z": "x y"}),
    ("z = (x +\n     y +\n     w)", {"z": "x y w"}),
    ("z = (\n    x\n    .reshape(9)\n    .sum(0)\n    * w\n)", {"z": "x w"}),
    ("z = [\n    a\n    for a in (x, y)\n][0] * 1", {"z": "x y"}),
    # imports, strings and other statements that change no tensor
    ("import math", {}),
    ("z = f'{n}'", {}),
    ("assert x is not y", {}),
    ("z = len(xs)", {}),
    ("del x", {}),
    ("x.shape", {}),
    ("z = (x, y)", {}),
    ("pass", {}),
]


def edges(told: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for _, name, reads in told.arrows():
        found.setdefault(name, set()).update(reads)
    return found


@pytest.mark.parametrize("place", ["function", "module"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("statement", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_a_statement_gives_these_arrows(
    statement: str, expected: dict[str, str], backend: str, place: str
) -> None:
    told = run(statement, surroundings(backend), is_function=place == "function")
    assert edges(told) == {name: set(reads.split()) for name, reads in expected.items()}
    assert {event.line for event in told.events} <= {1}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_order_of_the_lines_gives_the_same_arrows_with_statements_around(backend: str) -> None:
    names = surroundings(backend)
    for statement, expected in ROWS:
        told = run(f"before = 1\n{statement}\nafter = 2", surroundings(backend))
        assert edges(told) == {name: set(reads.split()) for name, reads in expected.items()}, (
            statement
        )
        assert {event.line for event in told.events} <= {2}, statement
    assert names
