"""What becomes a node, what an arrow, and what a node knows."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from charts import capture, edges, names

from tensortap import flow

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.usefixtures("flow_alone")


def test_arrows_are_the_data_dependencies(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        x = torch.randn(8, 8)
        w = torch.randn(8, 8)
        y = x @ w
        z = torch.relu(y)
        """,
    )
    assert names(chart) == ["x", "w", "y", "z"]
    assert edges(chart) == ["x@2->y@4", "w@3->y@4", "y@4->z@5"]


def test_another_name_for_a_tensor_is_a_node_and_itself_is_not(tmp_path: Path) -> None:
    chart = capture(tmp_path, "import torch\nx = torch.ones(2)\ny = x\nx = x\n")
    assert names(chart) == ["x", "y"]


def test_an_arrow_starts_at_the_version_that_was_read(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        x = torch.ones(2)
        b = torch.ones(2)
        x += b
        y = x * 2
        """,
    )
    assert edges(chart) == ["x@2->x@4", "b@3->x@4", "x@4->y@5"]


def test_a_name_never_shown_is_a_source_with_the_values_before(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            x += 1
            return x
        f(torch.zeros(2))
        """,
    )
    source, changed = chart["nodes"]
    assert (source["name"], source["line"], source["code"]) == ("x", 3, "x (source)")
    assert source["stats"]["max"] == 0
    assert changed["stats"]["max"] == 1
    assert edges(chart) == ["x@3->x@3"]


def test_names_that_change_places_are_sources_with_the_values_before(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x, y):
            n = 1
            x, y = y, x
        f(torch.zeros(2), torch.ones(2))
        """,
    )
    assert {(n["name"], "source" in n["code"], n["stats"]["max"]) for n in chart["nodes"]} == {
        ("x", True, 0),
        ("y", True, 1),
        ("x", False, 1),
        ("y", False, 0),
    }
    assert sorted(edges(chart)) == ["x@4->y@4", "y@4->x@4"]


def test_a_flushed_name_is_a_source_afterwards(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        from tensortap import flow
        x = torch.ones(2)
        flow.flush()
        y = x + 1
        """,
    )
    assert [(n["name"], n["code"]) for n in chart["nodes"]] == [
        ("x", "x (source)"),
        ("y", "y = x + 1"),
    ]


@pytest.mark.parametrize("pause", ["flow.off(clear=False)", "flow.off(render=False)"])
def test_a_name_that_did_not_change_while_off_is_no_source(tmp_path: Path, pause: str) -> None:
    chart = capture(
        tmp_path,
        f"""\
        import torch
        from tensortap import flow
        x = torch.zeros(2)
        w = torch.ones(2)
        {pause}
        w.add_(1)
        v = torch.ones(3)
        flow.on(save_dir='.')
        y = x + 1
        z = w + 1
        """,
    )
    assert edges(chart) == ["x@3->y@9", "w@10->z@10"]


def test_other_lines_do_not_cut_the_arrows(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        from tensortap import flow
        x = torch.zeros(2)
        flow.lines(1, 5)
        y = x + 1
        z = y + 1
        """,
    )
    assert edges(chart) == ["x@3->y@5"]


def test_a_dropped_name_is_a_source_again(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        x = torch.ones(2)
        a = torch.ones(2)
        b = torch.ones(2)
        y = x + 1
        """,
        max_nodes=2,
    )
    assert [(n["name"], n["line"]) for n in chart["nodes"]] == [("x", 5), ("y", 5)]
    assert edges(chart) == ["x@5->y@5"]


def test_the_last_nodes_are_kept(tmp_path: Path) -> None:
    chart = capture(
        tmp_path, "import torch\nfor i in range(40):\n    x = torch.full((2,), i)\n", max_nodes=3
    )
    assert [n["stats"]["max"] for n in chart["nodes"]] == [37, 38, 39]


def test_attributes_and_items_are_nodes(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        class C: pass
        self = C()
        cache = {}
        xs = [None]
        self.x = torch.ones(2)
        cache['k'] = self.x + 1
        xs[0] = cache['k'] + 1
        """,
    )
    assert names(chart) == ["self.x", "cache['k']", "xs[0]"]
    assert edges(chart) == ["self.x@6->cache['k']@7", "cache['k']@7->xs[0]@8"]


def test_returned_values_are_nodes_on_request(tmp_path: Path) -> None:
    program = """\
    import torch
    def f(x):
        return x + 1
    def g(x):
        y = x * 2
        return y, None, y + 1
    a = f(torch.ones(2))
    b = g(torch.ones(2))
    """
    assert "return f" not in names(capture(tmp_path, program))
    chart = capture(tmp_path, program, returns=True)
    assert names(chart) == ["x", "return f", "a", "x", "y", "return g[0]", "return g[2]"]
    assert edges(chart)[:1] == ["x@3->return f@3"]
    assert "y@5->return g[0]@6" in edges(chart)


def test_arrays_are_nodes_on_request(tmp_path: Path) -> None:
    program = "import numpy as np\na = np.ones(2)\nb = a + 1\n"
    assert names(capture(tmp_path, program)) == []
    assert edges(capture(tmp_path, program, arrays=True)) == ["a@2->b@3"]


def test_no_tensor_is_kept_alive() -> None:
    here = Path(__file__)
    flow.lines(1, 10**6, file=here)
    flow.on()
    x = torch.ones(3)
    y = x + 1
    watched = [weakref.ref(x), weakref.ref(y)]
    flow.off(render=False)
    del x, y
    gc.collect()
    assert [ref() for ref in watched] == [None, None]
    output = flow.off()
    assert output is not None
    assert output.node_count == 2


@pytest.mark.filterwarnings("ignore:.*prototype.*", "ignore:.*beta.*", "ignore:.*inference.*")
def test_tensors_whose_values_cannot_be_read_are_nodes_without_values(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        a = torch.empty(3, device="meta")
        b = torch.eye(3).to_sparse()
        c = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        d = torch.ones(2) + 1
        """,
    )
    assert [(n["name"], n["stats"] is None, n["slices"] == []) for n in chart["nodes"]] == [
        ("a", True, True),
        ("b", True, True),
        ("c", True, True),
        ("d", False, False),
    ]
    assert chart["nodes"][0]["device"] == "meta"
    assert chart["nodes"][1]["shape"] == [3, 3]


def test_inference_mode_is_captured(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        with torch.inference_mode():
            x = torch.ones(2)
            x.add_(1)
            y = x * 2
        """,
    )
    assert [(n["name"], n["stats"]["max"]) for n in chart["nodes"]] == [
        ("x", 1),
        ("x", 2),
        ("y", 4),
    ]


def test_exceptions_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        capture(tmp_path, "import torch\nx = torch.ones(2)\ny = 1 / 0\n")
    assert [entry.lineno for entry in caught.traceback][-1] == 2  # counted from 0


def test_the_random_numbers_stay_as_they_are(tmp_path: Path) -> None:
    program = "import torch\ntorch.manual_seed(1)\nx = torch.randn(4)\ny = torch.randn(4)\n"
    chart = capture(tmp_path, program)
    torch.manual_seed(1)
    torch.randn(4)
    wanted = torch.randn(4)
    assert chart["nodes"][1]["slices"][0]["data"][0] == pytest.approx(wanted.tolist(), rel=1e-6)


CALL = """\
import torch
def f(x, w):
    x = x * 2
    w += 1
    return x
def g(a):
    return f(a, torch.ones(2))
y = torch.ones(2)
z = g(y)
v = z + 1
"""


def test_an_argument_comes_from_the_caller_and_a_result_from_the_function(tmp_path: Path) -> None:
    chart = capture(tmp_path, CALL)
    found = edges(chart)
    assert "y@8->x@3" in found  # what the caller calls y is x in f
    assert "x@3->x@3" in found
    assert "x@3->z@9" in found  # and what f calls x is returned to be z
    assert "y@8->z@9" in found  # the call's own arrow
    assert not any(edge.startswith("y@8->w") for edge in found)  # equal values are not enough


def test_an_argument_changed_in_place_comes_from_the_caller_too(tmp_path: Path) -> None:
    chart = capture(
        tmp_path,
        """\
        import torch
        def f(x):
            x += 1
        y = torch.zeros(2)
        f(y)
        """,
    )
    assert "y@4->x@3" in edges(chart)
    assert [n["stats"]["max"] for n in chart["nodes"] if n["name"] == "x"] == [0, 1]
