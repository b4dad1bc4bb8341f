"""monitor, spy and trace see modules inside compiled graphs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from versions import needs_probes  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap import _core  # noqa: E402
from tensortap.compiled import module_call  # noqa: E402
from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck  # noqa: E402
from tensortap.private.capability import Capability  # noqa: E402
from tensortap.spy import CallTracer, DebugContext, TensorSaver, spy_save  # noqa: E402
from tensortap.trace import ModelTracer  # noqa: E402

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        spy_save("y", {"once": y, "twice": (y * 2, None)}, self)
        spy_save("numbers", y, stats_only=True)
        return torch.relu(y), y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = Block(), Block(), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x, _ = self.first(x)
        x, _ = self.second(x)
        return self.head(self.head.weight.new_ones(2, 4) * x)


def eager(model: nn.Module) -> Callable[..., Any]:
    return model


def wrapped(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend="eager", fullgraph=True)


def functional(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(model, backend="aot_eager", fullgraph=True)


def in_function(model: nn.Module) -> Callable[..., Any]:
    return torch.compile(lambda x: model(x), backend="eager", fullgraph=True)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def both(run: Callable[[Callable[..., Any]], Any], ways: Any = (wrapped, in_function)) -> None:
    expected = run(eager)
    for way in ways:
        torch._dynamo.reset()
        assert run(way) == expected


def test_spy_save_saves_the_same_files(tmp_path: Path) -> None:
    def run(way: Callable[..., Any]) -> dict[str, Any]:
        model, folder = net(), tmp_path / way.__name__
        call = way(model)
        call(X)  # outside of a context nothing is saved
        saver = TensorSaver(folder)
        saver.register_modules(model)
        with DebugContext(saver, prefix="p"):
            call(X)
            call(X * 2).sum().backward()
        return {
            file.name: torch.load(file).tolist() if file.suffix == ".pt" else file.read_text()
            for file in sorted(folder.iterdir())
        }

    both(run, (functional, in_function))
    assert len(list((tmp_path / "functional").iterdir())) == 12
    assert not counters["graph_break"]


@pytest.mark.parametrize("way", [eager, wrapped, in_function])
def test_a_torch_that_hides_compiled_modules_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Callable[..., Any]
) -> None:
    lost = Capability("", module_call.GRAPHS.loss)
    lost.lose(RuntimeError("this torch hides modules"))
    monkeypatch.setattr(module_call.GRAPHS, "why", lost.why)
    monkeypatch.setattr(module_call.GRAPHS, "_attempt", None)
    model = net()
    model.spare = nn.Linear(1, 1)  # with a newer torch, the only one that is not seen
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tt.record(tmp_path / "run", model=model):
            call = way(model)
            for _ in range(3):
                call(X).sum().backward()
                optimizer.step()
    texts = [str(one.message) for one in caught if "not seen" in str(one.message)]
    assert len(texts) == (way is not eager)
    for text in texts:
        assert "modules were not seen (never called, or compiled): " in text
        assert "spare" in text
        assert "modules inside compiled graphs are not seen: RuntimeError: this torch hides" in text
        assert f"(torch {torch.__version__}); torch.compiler.set_stance" in text


@needs_probes
def test_a_call_tracer_has_the_same_trace(tmp_path: Path) -> None:
    def run(way: Callable[..., Any]) -> Any:
        model = net()
        tracer = CallTracer(tmp_path)
        tracer.register_hooks(model)
        call = way(model)
        call(X)
        with tracer:
            call(X)
            call(X)
        events = [(e.path, e.call, e.depth, e.outputs, e.thread) for e in tracer.events]
        assert all(event.start > 0 for event in tracer.events)
        tracer.save_trace("trace.json")
        return tracer.get_trace(), events

    both(run)


@needs_probes
def test_a_list_of_modules_is_no_call_around_its_modules(tmp_path: Path) -> None:
    class Stacked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"h": nn.ModuleList([Block(), Block()])})

        def forward(self, x: Any) -> Any:
            for block in self.parts["h"]:
                x = block(x)[0]
            return x

    def inner(model: nn.Module) -> Callable[..., Any]:
        for block in model.parts["h"]:
            block.compile(backend="eager")
        return model

    def run(way: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        model = Stacked()
        tracer = CallTracer(tmp_path)
        tracer.register_hooks(model)
        call = way(model)
        with tracer:
            call(X)
            call(X)
        return [(e.path, e.call, e.depth) for e in tracer.events]

    both(run, (wrapped, in_function, inner))


@needs_probes
def test_a_monitor_measures_the_same(tmp_path: Path) -> None:
    def run(way: Callable[..., Any]) -> Any:
        model = net()
        monitor = ModuleMonitor()
        for name in ("mean", "norm", "hist"):
            monitor.add_activation_metric(name)
        monitor.add_activation_metric("own", lambda t: float((t * t).sum()), r"first.*|head")
        monitor.set_module(model)
        call = way(model)
        for step in range(2):
            monitor.begin_step(step)
            call(X * (step + 1)).sum().backward()
            monitor.end_step()
        return sorted(monitor.get_all_metrics().items())

    both(run)


@needs_probes
def test_a_tracer_keeps_the_same_outputs(tmp_path: Path) -> None:
    def run(way: Callable[..., Any]) -> Any:
        model = net()
        call = way(model)
        with ModelTracer(model, ["first.fc.forward", "second.forward.1", "head"]) as tracer:
            call(X)
            call(X * 2)
        return {
            path: (result.iterations, [t.tolist() for t in result.values])
            for path, result in tracer.results.items()
        }

    both(run)


@needs_probes
def test_tracers_see_a_model_whose_compiled_wrapper_is_recorded(tmp_path: Path) -> None:
    model = net()
    call = wrapped(model)
    calls = CallTracer(tmp_path / "calls")
    calls.register_hooks(model)
    paths = ["first.fc.forward", "head"]
    with tt.record(tmp_path / "run", model=call), calls, ModelTracer(model, paths) as tracer:
        expected = call(X)
        call(X * 2)
    assert sorted(tracer.results) == paths
    assert torch.equal(tracer.results["head"].values[0], expected)
    assert [e.depth for e in calls.events if e.path == "first.fc"] == [2, 2]


# ---- what cannot be seen is said once, with what to do instead


def once(texts: list[str], *words: str) -> None:
    said = [text for text in texts if all(word in text for word in words)]
    assert len(said) == 1, texts
    assert 'set_stance("force_eager")' in said[0]


@needs_probes
@pytest.mark.parametrize("way", [wrapped, in_function])
def test_a_tracer_says_that_it_sees_no_variables(way: Callable[..., Any]) -> None:
    model = net()
    call = way(model)
    with (
        warnings.catch_warnings(record=True) as told,
        ModelTracer(model, ["first.forward.y", "head"]) as tracer,
    ):
        warnings.simplefilter("always")
        for _ in range(2):
            call(X)
    once([str(warning.message) for warning in told], "first.forward.y", "compiled")
    assert len(tracer.results["head"].values) == 2


@needs_probes
@pytest.mark.parametrize("way", [wrapped, in_function])
def test_a_coordinate_check_says_that_it_sees_no_inputs(
    way: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    model = net()
    monitor = ModuleMonitor(lambda step: True)
    monitor.set_module(model)
    monitor.set_reference_module(copy.deepcopy(model))
    check = RefinedCoordinateCheck(monitor)
    call = way(model)
    for step in range(2):
        monitor.begin_step(step)
        with torch.no_grad():
            monitor.reference_module(X)
        call(X)
        check.refined_coordinate_check()
        monitor.end_step()
    once(caplog.messages, "coordinate check", "first.fc")
    with torch.compiler.set_stance("force_eager"):
        monitor.begin_step(2)
        monitor.reference_module(X)
        call(X)
        check.refined_coordinate_check()
        monitor.end_step()
    assert any(key.startswith("RCC") for key in monitor.get_step_metrics())


def test_line_events_say_that_they_see_no_compiled_lines() -> None:
    @torch.compile(backend="eager")
    def work(x: Any) -> Any:
        y = x + 1
        return y * 2

    work(X)
    changed: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        watched = _core.watch_lines(
            lambda event: changed.extend(change.name for change in event.changes),
            select=lambda code: code.co_filename == __file__,
        )
        for _ in range(2):
            work(X)
        with torch.compiler.set_stance("force_eager"):
            work(X)
        watched.close()
    once([str(warning.message) for warning in told], "work")
    assert changed == ["y"]
