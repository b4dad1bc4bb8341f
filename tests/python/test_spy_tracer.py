"""CallTracer records which modules ran, in which order, with what."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap.spy import CallTracer  # noqa: E402


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)) for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layer:
            x = layer(x)
        return x


class Recursive(nn.Module):
    def forward(self, n: int) -> int:
        if n < 0:
            raise ValueError("below zero")
        return 0 if n == 0 else 1 + self(n - 1)


X = torch.randn(3, 4)


def test_the_seeds_example_writes_one_path_a_line(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.encoder = Encoder()
    tracer = CallTracer(tmp_path / "traces")
    tracer.register_hooks(model, target_classes=(nn.Linear,))
    model(X)
    file = tracer.save_trace("forward.txt")
    assert file == tmp_path / "traces" / "forward.txt"
    paths = [f"encoder.layer.{i}.{k}" for i in (0, 1) for k in (0, 1)]
    assert file.read_text() == "\n".join(paths)
    assert tracer.save_trace().name == "call_trace.txt"


def test_a_path_is_appended_when_its_module_returns(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU())
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    order: list[str] = []
    names = {module: name or "root" for name, module in model.named_modules()}
    for module in names:
        module.register_forward_hook(lambda m, *_: order.append(names[m]))
    model(X)
    assert tracer.call_trace == order == ["0.0", "0", "1", "root"]
    assert len(tracer.hooks) == len(names)
    assert tracer.module_paths == {id(m): n for m, n in names.items()}


def test_modules_are_chosen_as_a_saver_does(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    for options, expected in [
        ({"target_classes": (nn.ReLU,)}, ["1"]),
        ({"target_names": ["root"]}, ["root"]),
        ({"target_names": []}, []),
        ({"exclude_names": ["0"]}, ["1", "root"]),
    ]:
        tracer = CallTracer(tmp_path)
        tracer.register_hooks(model, **options)
        model(X)
        assert tracer.get_trace() == expected
        tracer.remove_hooks()


def test_a_copy_of_the_trace_is_a_copy(tmp_path: Path) -> None:
    model = nn.ReLU()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    model(X)
    copied = tracer.get_trace()
    model(X)
    assert (copied, tracer.call_trace) == (["root"], ["root", "root"])
    tracer.reset_trace()
    assert tracer.call_trace == []
    assert tracer.events == []


def test_as_a_context_it_is_enabled_and_begins_anew(tmp_path: Path) -> None:
    model = nn.ReLU()
    tracer = CallTracer(tmp_path, enabled=False)
    tracer.register_hooks(model)
    model(X)
    assert tracer.call_trace == []
    with tracer as entered:
        assert entered is tracer
        assert tracer.enabled
        model(X)
    assert tracer.enabled  # leaving changes nothing
    assert tracer.call_trace == ["root"]
    with tracer:
        assert tracer.call_trace == []


def test_removed_hooks_leave_the_model_as_it_was(tmp_path: Path) -> None:
    model = Encoder()
    before = [dict(module.__dict__) for module in model.modules()]
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    tracer.hooks[0].remove()
    tracer.hooks[0].remove()
    model(X)
    assert "root" not in tracer.call_trace
    assert len(tracer.call_trace) == 6
    tracer.remove_hooks()
    assert tracer.hooks == []
    model(X)
    assert len(tracer.call_trace) == 6
    assert [dict(module.__dict__) for module in model.modules()] == before


def test_dropping_the_tracer_removes_its_hooks(tmp_path: Path) -> None:
    model = nn.ReLU()
    before = dict(model.__dict__)
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    del tracer
    gc.collect()
    assert dict(model.__dict__) == before


def test_a_traced_model_is_copied_and_pickled_untraced(tmp_path: Path) -> None:
    model = Encoder()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    copy.deepcopy(model)(X)
    pickle.loads(pickle.dumps(model))(X)
    assert tracer.call_trace == []


def test_events_know_call_depth_shapes_and_time(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    model(X)
    model(X.double().float())
    first, relu, root = tracer.events[:3]
    assert (first.path, first.call, first.depth) == ("0", 0, 1)
    assert first.inputs == (((3, 4), "float32"),)
    assert first.outputs == (((3, 8), "float32"),)
    assert (relu.path, root.path, root.depth) == ("1", "root", 0)
    assert root.start <= first.start
    assert root.duration >= first.duration + relu.duration > 0
    assert [event.call for event in tracer.events if event.path == "0"] == [0, 1]


def test_unusual_tensors_have_shapes_too(tmp_path: Path) -> None:
    model = nn.Identity()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    for t in (
        torch.empty(2, 3, device="meta"),
        torch.eye(2).to_sparse(),
        torch.ones(4, dtype=torch.int8),
    ):
        model(t)
    model({"a": (torch.ones(1), [torch.ones(2, dtype=torch.bool)])})
    shapes = [event.outputs for event in tracer.events]
    assert [s[0][0] for s in shapes[:3]] == [(2, 3), (2, 2), (4,)]
    assert [s[0][1] for s in shapes[:3]] == ["float32", "float32", "int8"]
    assert [shape for shape, _ in shapes[3]] == [(1,), (2,)]


def test_recursion_and_exceptions_are_kept_apart(tmp_path: Path) -> None:
    model = Recursive()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    assert model(2) == 2
    with pytest.raises(ValueError, match="below zero"):
        model(-1)
    assert tracer.call_trace == ["root"] * 3
    assert [(e.call, e.depth, e.error) for e in tracer.events] == [
        (2, 2, None),
        (1, 1, None),
        (0, 0, None),
        (3, 0, ValueError),
    ]


def test_a_module_called_twice_is_there_twice(tmp_path: Path) -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, shared)
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model, target_classes=(nn.Linear,))
    model(X)
    assert tracer.call_trace == ["0", "0"]
    assert [event.call for event in tracer.events] == [0, 1]


def traced_in_three_threads(folder: Path, model: nn.Module, calls: int) -> CallTracer:
    tracer = CallTracer(folder)
    tracer.register_hooks(model)
    threads = [threading.Thread(target=lambda: [model(X) for _ in range(calls)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tracer


def test_all_threads_are_traced(tmp_path: Path) -> None:
    tracer = traced_in_three_threads(tmp_path, nn.ReLU(), 100)
    assert len(tracer.call_trace) == 300
    assert sorted(event.call for event in tracer.events) == list(range(300))
    assert len({event.thread for event in tracer.events}) == 3


def test_a_chrome_trace_has_what_perfetto_needs(tmp_path: Path) -> None:
    model = Encoder()
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    model(X)
    trace = json.loads(tracer.save_trace("calls.json").read_text())
    names = [row for row in trace["traceEvents"] if row["ph"] == "M"]
    rows = [row for row in trace["traceEvents"] if row["ph"] == "X"]
    assert [row["name"] for row in names] == ["process_name", "thread_name"]
    assert len(names) + len(rows) == len(trace["traceEvents"])
    assert sorted(row["name"] for row in rows) == sorted(tracer.call_trace)
    for row in rows:
        assert row["ts"] >= 0
        assert row["dur"] >= 0
        assert 0 < row["tid"] < 2**32
        assert {"pid", "cat", "args"} <= set(row)
    root = next(row for row in rows if row["name"] == "root")
    for row in rows:  # children lie inside of their parents
        assert root["ts"] <= row["ts"]
        assert row["ts"] + row["dur"] <= root["ts"] + root["dur"] + 1e-3
    assert root["args"]["outputs"] == ["float32[3, 4]"]


def test_the_rows_of_a_chrome_trace_nest_and_are_sorted_in_each_thread(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Identity(), nn.Identity()) for _ in range(4)))
    tracer = traced_in_three_threads(tmp_path, model, 9)
    rows = json.loads(tracer.save_trace("calls.json").read_text())["traceEvents"]
    calls = [row for row in rows if row["ph"] == "X"]
    assert [row["ts"] for row in calls] == sorted(row["ts"] for row in calls)
    open_calls: dict[int, list[int]] = {}  # of each thread: when those around will end, in ns
    for row in calls:
        begin, end = round(row["ts"] * 1000), round((row["ts"] + row["dur"]) * 1000)
        around = open_calls.setdefault(row["tid"], [])
        while len(around) > row["args"]["depth"]:
            assert around.pop() <= begin
        assert len(around) == row["args"]["depth"]
        assert not around or end <= around[-1]
        around.append(end)
    assert len(calls) == 3 * 9 * 13


def test_a_module_registered_again_is_traced_once_by_its_latest_path(tmp_path: Path) -> None:
    inner = nn.Sequential(nn.ReLU())
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(inner)
    tracer.register_hooks(inner)
    assert len(tracer.hooks) == 2
    tracer.register_hooks(nn.ModuleDict({"net": inner}), target_names=["net"])
    inner(X)
    assert tracer.call_trace == ["net.0", "net"]
    assert len(tracer.hooks) == 2
    for handle in tracer.hooks:
        handle.remove()
    inner(X)
    assert tracer.call_trace == ["net.0", "net"]


def test_a_trace_of_a_compiled_model_says_that_it_saw_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Sequential(nn.ReLU())
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    torch.jit.trace(model, X)
    tracer.save_trace()
    assert caplog.text == ""
    tracer.remove_hooks()
    tracer.register_hooks(nn.Linear(1, 1))  # as good as one inside of a compiled model
    tracer.save_trace()
    assert "no call of the 1 traced modules was seen" in caplog.text


def test_tracing_changes_no_bit(tmp_path: Path) -> None:
    model = Encoder()
    plain = model(X)
    tracer = CallTracer(tmp_path)
    tracer.register_hooks(model)
    assert torch.equal(model(X), plain)
