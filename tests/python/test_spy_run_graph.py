"""`tensortap graph` draws traces and runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pygraphviz")
from torch import nn  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.spy.digraph import Digraph  # noqa: E402
from tensortap.spy.run_graph import run_graph  # noqa: E402


class Bad(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 0 * 0


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"fc": nn.Linear(4, 4)}) for _ in range(3))
        self.bad = Bad()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer["fc"](x)
        return self.bad(x)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    model = Net()
    with tt.record(path, model=model) as run:
        model(torch.ones(2, 4))
        run.step()
    return path


def test_nan_and_inf_are_counted_in_one_tensor_not_over_all_steps(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for bad in (2, 3, 1):
            run.tensor("activation/fc", torch.tensor([float("nan")] * bad + [float("inf"), 1.0]))
            run.step()
    with tt.open(tmp_path / "run") as read:
        assert "4 NaN/Inf" in run_graph(read, "nan").source


def line_of(graph: Digraph, name: str) -> str:
    """Give the line of the node whose label begins with this name."""
    found = re.compile(rf' +n\d+ \[label="?{name}\b')
    return next(line for line in graph.source.splitlines() if found.match(line))


def number(line: str) -> float:
    """Give the number in the second line of a label."""
    found = re.search(r"\\n([\d.,]+)", line)
    assert found is not None, line
    return float(found[1].replace(",", ""))


def test_a_run_is_drawn_with_its_nan_in_red(run: Path) -> None:
    with tt.open(run) as opened:
        graph = run_graph(opened, "nan")
    assert "8 NaN/Inf" in line_of(graph, "bad")
    assert "#d00000" in line_of(graph, "bad")  # where the first was born
    assert "#ffffff" in line_of(graph, "fc")
    assert 'label="the first NaN or Inf: activation/bad, step 0"' in graph.source


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"fc": nn.Linear(4, 4)}) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer["fc"](x)
        return x


def test_of_repeated_layers_the_bad_ones_are_counted_and_the_first_is_named(
    tmp_path: Path,
) -> None:
    model = Stack()
    with torch.no_grad():
        model.layers[4]["fc"].weight[0, 0] = float("nan")
    with tt.record(tmp_path / "run", model=model) as run:
        model(torch.ones(2, 4))
        run.step()
    with tt.open(tmp_path / "run") as opened:
        line = line_of(run_graph(opened, "nan"), "fc")
    assert "NaN/Inf in 2 of 6" in line
    assert "first: layers.4.fc" in line


def test_a_module_whose_parameter_was_the_first_is_marked(tmp_path: Path) -> None:
    model = Stack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.record(tmp_path / "run", model=model, optimizer=optimizer) as run:
        model(torch.ones(2, 4)).sum().backward()
        with torch.no_grad():  # no output has it yet
            model.layers[4]["fc"].weight[0, 0] = float("nan")
        optimizer.step()
        run.step()
    with tt.open(tmp_path / "run") as opened:
        line = line_of(run_graph(opened, "nan"), "fc")
    assert "#d00000" in line
    assert "first: parameter/layers.4.fc.weight" in line
    assert "NaN/Inf in" not in line


def test_of_repeated_layers_the_largest_is_shown_and_which_it_is(tmp_path: Path) -> None:
    model = Stack()
    with torch.no_grad():
        for i, layer in enumerate(model.layers):
            layer["fc"].weight.zero_()
            layer["fc"].bias.fill_(9.0 if i == 2 else 1.0)
    with tt.record(tmp_path / "run", model=model) as run:
        model(torch.ones(2, 4))
        run.step()
    with tt.open(tmp_path / "run") as opened:
        line = line_of(run_graph(opened, "absmax"), "fc")
    assert '"fc\\nLinear\\n9 in 2"' in line


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + self.mlp(x), x


class Stages(nn.Module):
    """Stages of 2 and 3 blocks, as Swin has them; two outputs with names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.stages = nn.ModuleList(
            nn.ModuleDict({"blocks": nn.ModuleList(Block(8) for _ in range(n))}) for n in (2, 3)
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embed(x)
        for stage in self.stages:
            for block in stage["blocks"]:
                x, _ = block(x)
        return {"loss": x.sum(), "logits": x}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("runs") / "stages"
    model = Stages()
    with tt.record(path, model=model) as run:
        model(torch.ones(2, 4))
        run.step()
    with tt.open(path) as opened:
        assert opened.modules["stages.1.blocks.2"] == "Block"
        return path, run_graph(opened).source


def labels(source: str) -> list[str]:
    return re.findall(r'^ +n\d+ \[label="([^"]*)"', source, re.MULTILINE)


def test_all_modules_hang_below_the_model(stages: tuple[Path, str]) -> None:
    _, source = stages
    boxes = labels(source)
    assert boxes[0].startswith("(root)\\nStages")
    assert source.count("->") == len(boxes) - 1  # one tree


def test_outputs_are_lines_of_the_box_that_gave_them(stages: tuple[Path, str]) -> None:
    _, source = stages
    assert "(root)\\nStages\\n→ loss []\\n→ logits [2, 8]" in labels(source)
    assert "blocks x 2\\nBlock\\n→ 0 [2, 8]\\n→ 1 [2, 8]" in labels(source)


def test_only_layers_of_one_class_and_shape_are_folded(stages: tuple[Path, str]) -> None:
    _, source = stages
    boxes = labels(source)
    assert sorted(box.split("\\n")[0] for box in boxes if "Block" in box) == [
        "blocks x 2",
        "blocks x 3",
    ]
    assert boxes.count("mlp\\nSequential") == 2
    assert boxes.count("0\\nLinear") == boxes.count("1\\nGELU") == boxes.count("2\\nLinear") == 2


def test_show_names_classes_when_asked(stages: tuple[Path, str]) -> None:
    plain = program("show", str(stages[0]), "activation/*").stdout
    with_classes = program("show", str(stages[0]), "activation/*", "--classes").stdout
    assert "Linear" not in plain
    assert re.search(r"embed +Linear +f", with_classes), with_classes


class Slow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return x


def test_time_is_told_with_what_is_called_inside(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.add_module("first", nn.ReLU())
    model.add_module("outer", nn.Sequential())
    model.outer.add_module("slow", Slow())
    model.outer.add_module("quick", nn.ReLU())
    model.add_module("last", nn.ReLU())
    whole = 0.0
    with tt.record(tmp_path / "run", model=model) as run:
        for _ in range(4):
            start = time.perf_counter()
            model(torch.ones(2))
            whole += (time.perf_counter() - start) * 1000 / 4
            time.sleep(0.2)  # between two steps: nobody's
            run.step()
    with tt.open(tmp_path / "run") as opened:
        graph = run_graph(opened, "time")
    slow, outer, last = (number(line_of(graph, name)) for name in ("slow", "outer", "last"))
    tick = 20  # milliseconds; the clock of a run is a coarse one
    assert 100 - tick <= slow <= outer
    assert outer + last <= whole + tick


@pytest.mark.parametrize("color", [None, "time", "absmax"])
def test_a_path_of_many_parts_is_drawn_in_every_colour(tmp_path: Path, color: str | None) -> None:
    with tt.record(tmp_path / "run") as run:
        run.tensor("activation/" + ".".join(["m"] * 1500), torch.ones(2))
    with tt.open(tmp_path / "run") as opened:
        source = run_graph(opened, color).source
    assert source.count("->") == 39  # the rest of such a name is one label, and cut
    assert len(source) < 10_000


def test_a_run_has_the_shapes_of_its_outputs_on_the_edges(run: Path) -> None:
    with tt.open(run) as opened:
        source = run_graph(opened).source
    assert 'label="→ [2, 4]"' in source


@pytest.mark.parametrize("color", [None, "size", "time", "absmax"])
def test_every_colour_draws(run: Path, color: str | None, tmp_path: Path) -> None:
    with tt.open(run) as opened:
        graph = run_graph(opened, color)
    graph.draw(tmp_path / "g.svg")
    assert (tmp_path / "g.svg").read_text().count("<svg") == 1
    if color == "size":
        assert number(line_of(graph, "fc")) == 8


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).parent / "tensortap"
    if not beside.exists():
        pytest.skip("the program is not installed beside Python")
    return subprocess.run([beside, *arguments], capture_output=True, text=True, check=False)


def test_the_command_writes_exactly_the_picture_and_the_whole_tree(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("layers.0.fc\nlayers.1.fc\nhead")
    names = {name: str(tmp_path / name) for name in ("t.txt", "g.png", "tree.json")}
    done = program(
        "graph", "--trace-file", names["t.txt"], "--out", names["g.png"], "--dpi", "50",
        "--figwidth", "3", "--squash-name", "--save-json", names["tree.json"], "--verbose",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "read 3 calls" in done.stdout
    assert sorted(file.name for file in tmp_path.iterdir()) == ["g.png", "t.txt", "tree.json"]
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    tree = json.loads((tmp_path / "tree.json").read_text())
    assert tree["children"][0]["children"][0]["name"] == "fc"  # not the pruned one


def test_a_trace_of_20_000_modules_is_refused_in_seconds_and_written_as_dot(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(f"a.m{i}" for i in range(20_000)))
    trace, dot = str(tmp_path / "t.txt"), tmp_path / "g.dot"
    start = time.monotonic()
    done = program("graph", "--trace-file", trace, "--no-prune-leaves", "--out", "g.svg")
    assert time.monotonic() - start < 10
    assert done.returncode == 3
    assert "40001 nodes and edges" in done.stderr
    done = program("graph", "--trace-file", trace, "--no-prune-leaves", "--out", str(dot))
    assert (done.returncode, dot.read_text().count("->")) == (0, 20_000)


def test_a_picture_prints_nothing_and_is_well_formed_whatever_the_names_are(tmp_path: Path) -> None:
    names = "\x1b[31m\x07\x01\x9b\u202e\ufffe<&>"
    (tmp_path / "t.txt").write_text(f"a{names}.b.c")
    svg = tmp_path / "g.svg"
    done = program("graph", "--trace-file", str(tmp_path / "t.txt"), "--out", str(svg))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    texts = [text for text in ElementTree.parse(svg).getroot().itertext() if "a\\x1b" in text]
    assert texts == [r"a\x1b[31m\x07\x01\x9b\u202e\ufffe<&>"]


def test_the_command_draws_a_run(run: Path, tmp_path: Path) -> None:
    done = program("graph", str(run), "--color", "nan", "--out", str(tmp_path / "g.dot"))
    assert done.returncode == 0, done.stderr
    assert "NaN/Inf" in (tmp_path / "g.dot").read_text()


def test_mistakes_are_told_with_the_exit_codes_of_all_commands(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    out = str(tmp_path / "g.svg")
    assert program("graph").returncode == 2
    assert program("graph", "--trace-file", str(tmp_path / "no.txt"), "--out", out).returncode == 3
    assert program("graph", str(tmp_path / "nowhere"), "--out", out).returncode == 3
    assert program("graph", "r", "--color", "colour", "--out", out).returncode == 2
    (tmp_path / "t.txt").write_text("a.b")
    done = program("graph", "--trace-file", str(tmp_path / "t.txt"), "--out", str(tmp_path / "g.x"))
    assert (done.returncode, "no format 'x'" in done.stderr) == (2, True)
    done = program("graph", "--trace-file", str(tmp_path / "t.txt"), "--out", "/proc/none/g.dot")
    assert (done.returncode, "/proc/none/g.dot" in done.stderr) == (3, True)
    done = program("graph", "--trace-file", str(tmp_path / "empty.txt"), "--out", out)
    assert done.returncode == 3
    assert "trace file is empty" in done.stderr


def test_metrics_of_a_monitor_are_neither_outputs_nor_modules(tmp_path: Path) -> None:
    from tensortap.monitor import ModuleMonitor

    model = Net()
    graphs = []
    for name in ("plain", "monitored"):
        with tt.record(tmp_path / name, model=model) as run:
            monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
            monitor.set_module(model)
            if name == "monitored":
                monitor.add_activation_metric("mean")
                monitor.add_activation_metric("norm")
            with monitor:
                monitor.begin_step(0)
                model(torch.ones(2, 4))
                monitor.end_step()
            run.step()
        with tt.open(tmp_path / name) as read:
            graphs.append(run_graph(read).source)
    assert graphs[0] == graphs[1]
