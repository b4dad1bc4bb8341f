"""What var_tracker counts as a change, which line it blames, and what it says of it."""

from __future__ import annotations

import pytest
from track_lab import changes, run, torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

pytestmark = pytest.mark.usefixtures("_log_folder")


@pytest.fixture
def _log_folder(tmp_path, monkeypatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path))


KINDS = {
    "rebinding": ("x = torch.ones(3)\nx = x * 2", ["x@2", "x@3 values"]),
    "in place": (
        "x = torch.ones(3)\nx.mul_(2)\nx += 1\nx[0] = 9",
        ["x@2", "x@3 values", "x@4 values", "x@5 values"],
    ),
    "out=": ("x = torch.ones(3)\ntorch.add(x, 1, out=x)", ["x@2", "x@3 values"]),
    "through a view": ("x = torch.ones(3)\nv = x[1:]\nv.add_(1)", ["x@2", "x@4 values"]),
    "through .data": ("x = torch.ones(3)\nx.data.add_(1)", ["x@2", "x@3 values"]),
    "through .numpy()": ("x = torch.ones(3)\na = x.numpy()\na[0] = 5", ["x@2", "x@4 values"]),
    "array in place": (
        "x = np.ones(3)\nx[...] = np.zeros(3)\nx += 1",
        ["x@2", "x@3 values", "x@4 values"],
    ),
    "array view": ("x = np.ones((3, 2))\nv = x[1]\nv[0] = 4", ["x@2", "x@4 values"]),
    "dtype": ("x = torch.ones(3)\nx = x.double()\nx = x.int()", ["x@2", "x@3 dtype", "x@4 dtype"]),
    "shape": (
        "x = torch.ones(4)\nx = x.view(2, 2)\nx = x.reshape(4, 1)",
        ["x@2", "x@3 shape", "x@4 shape"],
    ),
    "shape and dtype": (
        "x = torch.ones(4)\nx = torch.zeros(2, 2, dtype=torch.int8)",
        ["x@2", "x@3 shape, dtype"],
    ),
    "device": (
        "x = torch.ones(4)\nx = x.to('meta')\nx = torch.ones(4)",
        ["x@2", "x@3 device", "x@4 device"],
    ),
    "tensor to array": ("x = torch.ones(4)\nx = x.numpy()", ["x@2", "x@3 type"]),
    "None to tensor": ("x = None\nx = torch.ones(1)\nx = None", ["x@2", "x@3 type", "x@4 type"]),
    "list": (
        "x = [1]\nx.append(2)\nx[0] = 3\nx.sort()",
        ["x@2", "x@3 contents", "x@4 contents", "x@5 contents"],
    ),
    "dict": ("x = {}\nx['a'] = 1\nx['a'] = 1\ndel x['a']", ["x@2", "x@3 contents", "x@5 contents"]),
    "set": ("x = {1}\nx.add(1)\nx.add(2)", ["x@2", "x@4 contents"]),
    "tuple": ("x = (1, 2)\nx = (1, 2)\nx = (1, 3)", ["x@2", "x@4 contents"]),
    "a tensor in a list": (
        "t = torch.ones(2)\nx = [t, {'k': (t,)}]\nt.add_(1)",
        ["x@3", "x@4 contents"],
    ),
    "a large tensor in a dict": (
        "t = torch.ones(100_000)\nx = {'t': t}\nt[99_999] = 2",
        ["x@3", "x@4 contents"],
    ),
    "a list of arrays": ("a = np.ones(2)\nx = [a, a]\na[0] = 7", ["x@3", "x@4 contents"]),
    "number": ("x = 1\nx += 1\nx = 2\nx = 2.0", ["x@2", "x@3 value", "x@5 type"]),
    "text": ("x = 'a'\nx = x + 'b'\nx = 'ab'", ["x@2", "x@3 value"]),
    "bool tensor": ("x = torch.tensor([True, False])\nx[1] = True", ["x@2", "x@3 values"]),
    "int tensor": ("x = torch.arange(3)\nx[0] = 2**62", ["x@2", "x@3 values"]),
    "empty tensor": (
        "x = torch.empty(0)\nx = torch.empty(0, 2)\nx = torch.empty(0, 2)",
        ["x@2", "x@3 shape"],
    ),
    "a small change": ("x = torch.ones(3, dtype=torch.float64)\nx += 1e-6", ["x@2", "x@3 values"]),
    "zero's sign": ("x = torch.zeros(1)\nx = -x", ["x@2", "x@3 values"]),
    "a parameter": (
        "x = torch.nn.Parameter(torch.ones(2))\nwith torch.no_grad():\n    x.add_(1)",
        ["x@2", "x@4 values"],
    ),
    "an inference tensor": (
        "with torch.inference_mode():\n    x = torch.ones(2)\n    x.add_(1)",
        ["x@3", "x@4 values"],
    ),
    "sparse": ("x = torch.eye(2).to_sparse()\nx = torch.eye(3).to_sparse()", ["x@2", "x@3 shape"]),
    "unpacking": ("x, y = torch.ones(1), 2\n(x, y), z = (3, 4), 5", ["x@2", "x@3 type"]),
    "a loop": ("for x in torch.arange(3):\n    pass", ["x@2", "x@2 values", "x@2 values"]),
    "with ... as": (
        "import contextlib\nwith contextlib.nullcontext(torch.ones(1)) as x:\n    pass",
        ["x@3"],
    ),
    "deleted and back": ("x = torch.ones(1)\ndel x\nx = torch.ones(1)", ["x@2", "x@4"]),
    "one line": (
        "x = 1; x = 2; x = torch.ones(1); x.add_(1)",
        ["x@2", "x@2 value", "x@2 type", "x@2 values"],
    ),
    "several lines": ("x = torch.cat([\n    torch.ones(1),\n    torch.ones(2),\n])", ["x@2"]),
    "a closure": (
        "x = 1\ndef inner():\n    nonlocal x\n    x = 5\ninner()\nx = 6",
        ["x@2", "x@3", "x@5 value", "x@6 value", "x@7 value"],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_told_at_the_line_that_made_it(kind: str) -> None:
    body, expected = KINDS[kind]
    if torch is None and "torch" in body:
        pytest.skip("torch is not installed")
    assert changes(body) == expected


UNCHANGED = {
    "NaN stays": "x = torch.tensor([float('nan'), 1])\nx = x.clone()\nx[0] = float('nan')",
    "NaN array stays": "x = np.array([np.nan, 1])\nx[0] = np.nan\nx = x.copy()",
    "a float NaN stays": "x = float('nan')\nx = float('nan')",
    "an equal tensor": "x = torch.ones(3)\nx = torch.ones(3)",
    "written with itself": "x = torch.ones(3)\nx.copy_(x.clone())\nx[...] = 1\nx *= 1",
    "an equal list": "x = [torch.ones(2), 'a']\nx = [torch.ones(2), 'a']",
    "a dict in another order": "x = {'a': 1, 'b': 2}\nx = {'b': 2, 'a': 1}",
    "a transposed copy": "x = torch.arange(6).view(2, 3)\nx = x.t().contiguous().t()",
    "only read": "x = torch.ones(3)\ny = x + 1\nz = x.sum().item()\nw = [x, y]",
}


@pytest.mark.parametrize("kind", UNCHANGED)
def test_what_is_the_same_is_no_change(kind: str) -> None:
    if torch is None and "torch" in UNCHANGED[kind]:
        pytest.skip("torch is not installed")
    assert changes(UNCHANGED[kind]) == ["x@2"]


@needs_torch
def test_the_last_statement_before_the_return_is_told() -> None:
    assert changes("x = torch.ones(2)\nreturn x.add_(1)") == ["x@2", "x@3 values"]


@needs_torch
def test_all_names_are_told() -> None:
    body = "x = 1\ny = torch.ones(2)\nx, y = y, x"
    found = changes(body, "x", "y")
    assert found[:2] == ["x@2", "y@3"]
    assert sorted(found[2:]) == ["x@4 type", "y@4 type"]


@needs_torch
def test_a_tolerance_ignores_small_changes_and_counts_the_elements_of_large_ones() -> None:
    body = "x = torch.zeros(4)\nx[0] = 1e-6\nx[1] = 1e-3\nx[2:] = 5"
    assert changes(body, atol=1e-5) == ["x@2", "x@4 values", "x@5 values"]
    printed = run(body, "x", atol=1e-5)
    assert "changed: values (2 of 4 elements, largest difference 0.001)" in printed
    assert "changed: values (2 of 4 elements, largest difference 5)" in printed


@needs_torch
def test_small_changes_that_add_up_are_told_in_the_end() -> None:
    body = "x = torch.zeros(1, dtype=torch.float64)\nfor _ in range(25):\n    x += 1e-6"
    assert changes(body, atol=1e-5) == ["x@2", "x@4 values", "x@4 values"]


@needs_torch
def test_callees_are_tracked_and_the_line_says_where() -> None:
    space: dict[str, object] = {}
    exec(
        compile("def inner(t):\n    x = t * 2\n    x += 1\n    return x\n", "other.py", "exec"),
        space,
    )
    body = "x = torch.ones(2)\ninner(x)"
    assert changes(body, inner=space["inner"]) == ["x@2", "x@2", "x@3 values"]
    inside = [
        line for line in run(body, "x", inner=space["inner"]).splitlines() if " | in " in line
    ]
    assert len(inside) == 2
    assert all(line.endswith("| in inner (other.py)") for line in inside)
    assert all(line.startswith("│   │   ├─ ") for line in inside)


@needs_torch
def test_a_device_that_changed_is_named_even_if_it_is_the_cpu() -> None:
    printed = run("x = torch.ones(2, device='meta')\nx = torch.ones(2)", "x").splitlines()
    assert "device=meta" in printed[1]
    assert "device=cpu" in printed[2]


@needs_torch
def test_one_value_is_told_from_what_to_what() -> None:
    assert "| changed: values (1 → 3)" in run("x = torch.ones(1)\nx = x * 3", "x")


@needs_torch
def test_statistics_say_how_many_became_nan() -> None:
    printed = run(
        "x = torch.zeros(3)\nx[0] = float('nan')\nx[1] = float('inf')\nx.fill_(float('nan'))", "x"
    )
    assert "| 1 NaN | changed: values (NaN 0 → 1)" in printed
    assert "| 3 NaN | changed: values (NaN 1 → 3, Inf 1 → 0)" in printed


def test_a_numpy_object_array_does_not_disturb() -> None:
    assert changes("x = np.array([None, 'a'], dtype=object)\nx = np.ones(2)") == [
        "x@2",
        "x@3 dtype",
    ]


def test_a_changed_number_is_shown_with_the_one_before() -> None:
    body = "x = 0.1\nx = x / 2\nx = 3\nx = True\nx = 10**50\nx = 2\nx = 'a'\nx = 'b'"
    told = [
        line.partition(" | changed: ")[2]
        for line in run(body, "x").splitlines()
        if "[Var] x@" in line
    ]
    assert told == [
        "",
        "value (0.1 → 0.05)",
        "type (float → int), value (0.05 → 3)",
        "type (int → bool), value (3 → True)",
        "type (bool → int), value",
        "value",
        "type (int → str)",
        "value",
    ]
