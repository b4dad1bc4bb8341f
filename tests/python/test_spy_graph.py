"""The graph of a trace folds repeated layers and reads as its page says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tensortap.spy import (
    Node,
    apply_graph_render_options,
    build_tree,
    construct_graph,
    parse_trace,
    prune_leaves,
    render_graph,
    save_tree_json,
    squash_numeric_indices,
)


def paths_of(tree: Node) -> list[str]:
    found = []

    def walk(node: Node, above: str) -> None:
        for child in node.children.values():
            found.append(f"{above}{child.name}")
            walk(child, f"{above}{child.name}.")

    walk(tree, "")
    return found


def labels(source: str) -> list[str]:
    return [
        a or b
        for a, b in re.findall(r'^ +n\d+ \[label=(?:"([^"]*)"|(\w+))\]', source, re.MULTILINE)
    ]


# ---- reading


def test_a_trace_is_one_path_a_line(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("a.b\n\n a.c \na.b")
    assert parse_trace(file) == ["a.b", "a.c", "a.b"]
    assert parse_trace(str(file)) == ["a.b", "a.c", "a.b"]


def test_a_trace_may_come_through_a_pipe() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as file:
        file.write("a.b\na")
        file.close()
        assert parse_trace(f"/dev/fd/{reader}") == ["a.b", "a"]


def test_a_missing_or_empty_trace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        parse_trace(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="trace file is empty"):
        parse_trace(tmp_path / "empty.txt")
    (tmp_path / "odd.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="not a trace"):
        parse_trace(tmp_path / "odd.json")


# ---- the tree


def test_numbers_are_absorbed_into_the_name_before_them() -> None:
    tree = build_tree(["layers.0.fc", "layers.1.fc", "layers.1.fc", "head"])
    assert list(tree.children) == ["layers", "head"]
    layers = tree.children["layers"]
    assert (layers.count, layers.indices, layers.name) == (2, {"0", "1"}, "layers")
    assert list(layers.children) == ["fc"]
    assert (layers.children["fc"].count, layers.children["fc"].parents) == (0, {"layers"})
    assert (layers.first_seen, tree.children["head"].first_seen) == (0, 3)


def test_a_leading_number_is_a_name() -> None:
    tree = build_tree(["0", "1.fc", "1.2.fc"])
    assert list(tree.children) == ["0", "1"]
    assert tree.children["1"].indices == {"2"}


def test_squashing_gives_the_tree_as_it_is() -> None:
    tree = build_tree(["a.0", "a.1"])
    assert squash_numeric_indices(tree) is tree


def test_pruning_cuts_the_last_part_of_longer_paths() -> None:
    tree = build_tree(["a.b.c", "a.d", "e", "layers.0.fc"])
    assert paths_of(prune_leaves(tree)) == ["a", "a.b", "e", "layers"]
    assert paths_of(tree) == ["a", "a.b", "a.b.c", "a.d", "e", "layers", "layers.fc"]  # as before
    assert prune_leaves(tree).children["layers"].indices == {"0"}


def test_the_json_of_a_tree(tmp_path: Path) -> None:
    save_tree_json(build_tree(["l.10.fc", "l.9.fc", "root"]), tmp_path / "t.json")
    tree = json.loads((tmp_path / "t.json").read_text())
    leaf = {"name": "fc", "count": 0, "indices": [], "children": []}
    assert tree["children"][0] == {
        "name": "l",
        "count": 2,
        "indices": ["10", "9"],
        "children": [leaf],
    }


DEEP = [".".join(f"m{i}" for i in range(parts)) for parts in (1, 1500)]


def test_a_path_of_many_parts_is_drawn() -> None:
    whole = construct_graph(build_tree(DEEP), prune_leaves_flag=False)
    assert whole.source.count("->") == 1499
    assert construct_graph(build_tree(DEEP)).source.count("->") == 1498


def test_a_tree_too_deep_for_json_is_refused_by_name(tmp_path: Path) -> None:
    name = ".".join(["m"] * 200_000)  # how deep json goes depends on the Python
    with pytest.raises(ValueError, match=r"t\.json: the tree is too deep for JSON"):
        save_tree_json(build_tree([name]), tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


# ---- the graph


def test_nodes_are_numbered_in_order_of_first_call() -> None:
    source = construct_graph(build_tree(["a.x", "b.x", "a.y"]), prune_leaves_flag=False).source
    assert labels(source) == ["a", "x", "b", "x", "y"]
    assert set(re.findall(r"n\d+ -> n\d+", source)) == {"n0 -> n1", "n2 -> n3", "n0 -> n4"}
    assert "rankdir=TB" in source


def test_repetition_is_the_number_of_distinct_indices() -> None:
    tree = build_tree(["layers.0.fc", "layers.1.fc", "layers.1.fc", "one.0.fc"])
    assert labels(construct_graph(tree).source) == ["layers x 2", "one"]
    assert labels(construct_graph(tree, show_repetition=False).source) == ["layers", "one"]


def test_nodes_of_one_name_can_be_merged() -> None:
    tree = build_tree(
        ["enc.layers.0.shared", "enc.layers.1.shared", "dec.layers.0.shared", "dec.layers.5.shared"]
    )
    source = construct_graph(tree, prune_leaves_flag=False, squash_name=True).source
    assert labels(source) == ["enc", "layers x 4", "shared", "dec"]
    assert set(re.findall(r"n\d+ -> n\d+", source)) == {"n0 -> n1", "n1 -> n2", "n3 -> n1"}


def test_the_root_is_not_drawn() -> None:
    assert labels(construct_graph(build_tree(["fc", "root"])).source) == ["fc"]


def test_render_options_are_spelt_as_graphviz_does() -> None:
    tree = build_tree(["a.b"])
    assert "dpi=200" in render_graph(tree, dpi=200).source
    both = render_graph(tree, figwidth=6.0, figheight=4.0).source
    assert 'size="6.0,4.0!"' in both
    assert "ratio=fill" in both
    assert 'size="3,!"' in render_graph(tree, figwidth=3).source
    assert "size" not in render_graph(tree).source
    dot = construct_graph(tree)
    assert apply_graph_render_options(dot, dpi=99) is None
    assert "dpi=99" in dot.source


def test_odd_names_are_quoted_and_drawn() -> None:
    pytest.importorskip("pygraphviz")
    tree = build_tree(['say "hi"', "back\\slash", "node", "é", "a b", "<b>", "&lt;"])
    dot = construct_graph(tree)
    assert 'label="say &quot;hi&quot;"' in dot.source
    from tensortap.spy.digraph import picture

    svg = picture(dot.source, "svg").decode()
    for name in (
        "say &quot;hi&quot;",
        "back\\slash",
        ">node<",
        "é",
        "a b",
        "&lt;b&gt;",
        "&amp;lt;",
    ):
        assert name in svg


def test_render_appends_the_suffix_and_cleans_up(tmp_path: Path) -> None:
    pytest.importorskip("pygraphviz")
    dot = render_graph(build_tree(["a.b.c"]))
    path = dot.render(filename=str(tmp_path / "graph"), cleanup=True)
    assert path == str(tmp_path / "graph.png")
    assert Path(path).read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["graph.png"]
    dot.format = "svg"
    dot.render(filename=tmp_path / "graph")
    assert (tmp_path / "graph").read_text() == dot.source


def test_render_opens_the_picture_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygraphviz")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    render_graph(build_tree(["a.b.c"])).render(tmp_path / "g", view=True, format="svg")
    assert opened == [(tmp_path / "g.svg").as_uri()]


def test_a_notebook_shows_the_graph() -> None:
    pytest.importorskip("pygraphviz")
    assert "</svg>" in render_graph(build_tree(["a.b.c"]))._repr_svg_()


@pytest.mark.parametrize("name", ["g", "g.tensor", "g."])
def test_a_suffix_that_is_no_picture_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"use \.svg"):
        render_graph(build_tree(["a.b.c"])).draw(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "begin"),
    [("svg", "<?xml"), ("pdf", "%PDF"), ("dot", "digraph"), ("html", "<!doctype")],
)
def test_every_format_is_written(tmp_path: Path, suffix: str, begin: str) -> None:
    pytest.importorskip("pygraphviz")
    render_graph(build_tree(["a.b.c"])).draw(tmp_path / f"g.{suffix}")
    assert (tmp_path / f"g.{suffix}").read_bytes().startswith(begin.encode())


def test_render_graph_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    render_graph(build_tree(["a.b.c"]))
    assert list(tmp_path.iterdir()) == []


def test_a_trace_with_shapes_has_them_on_its_edges(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from tensortap.spy import CallTracer

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.ModuleDict(
                {"up": torch.nn.Linear(4, 8), "act": torch.nn.ReLU(), "down": torch.nn.Linear(8, 2)}
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body["down"](self.body["act"](self.body["up"](x)))

    model = Net()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    model(torch.randn(3, 4))
    paths = parse_trace(tracer.save_trace("t.json"))
    assert paths == tracer.call_trace
    source = construct_graph(build_tree(paths), prune_leaves_flag=False).source
    assert 'n0 -> n1 [label="[3, 4] → [3, 8]"]' in source
    assert 'n0 -> n2 [label="[3, 8]"]' in source  # in and out alike
    assert 'n0 -> n3 [label="[3, 8] → [3, 2]"]' in source


def test_calls_that_return_at_once_keep_their_order(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    rows = [
        {
            "name": name,
            "ph": "X",
            "ts": ts,
            "dur": dur,
            "pid": 1,
            "tid": 1,
            "args": {"depth": depth},
        }
        for name, ts, dur, depth in [("root", 0, 3, 0), ("b", 1.5, 1.5, 1), ("a", 0, 1, 1)]
    ]
    file.write_text(json.dumps({"traceEvents": rows}))
    assert parse_trace(file) == ["a", "b", "root"]


def test_only_a_line_feed_ends_a_path(tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    file.write_bytes("net.a\u2028b\r\n\nnet.c".encode())
    assert parse_trace(file) == ["net.a\u2028b", "net.c"]
