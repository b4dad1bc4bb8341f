"""Every row of the table of calls, with its options, defaults and errors."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensortap import flow

pytestmark = pytest.mark.usefixtures("flow_alone")


def capture(count: int = 2, **options: Any) -> None:
    """Leave *count* nodes behind."""
    flow.lines(1, 10**6, file=__file__)  # this file is outside of the working directory
    flow.on(arrays=True, **options)
    for i in range(count):
        a = np.full(3, i)  # noqa: F841
    flow.off(render=False)


def test_the_defaults_are_those_of_the_api() -> None:
    def defaults(call: Any) -> dict[str, Any]:
        return {k: p.default for k, p in inspect.signature(call).parameters.items()}

    assert defaults(flow.on) == {
        "show": None,
        "save": False,
        "save_dir": "monitorch_outputs",
        "file_prefix": "tensor_flow",
        "max_nodes": 12,
        "max_vector": 32,
        "max_matrix": 8,
        "max_slices": 6,
        "returns": False,
        "arrays": False,
    }
    assert defaults(flow.off) == {
        "render": True,
        "filename": None,
        "show": None,
        "save": None,
        "clear": True,
    }
    assert defaults(flow.flush) == {"filename": None, "show": None, "save": None, "clear": True}
    assert defaults(flow.lines) == {"start": None, "end": None, "file": None}


def test_on_gives_the_runtime_and_enables_it() -> None:
    runtime = flow.on()
    assert isinstance(runtime, flow.MonitorRuntime)
    assert runtime.enabled
    flow.off()
    assert not runtime.enabled


def test_off_gives_none_if_nothing_was_captured() -> None:
    flow.on()
    assert flow.off() is None


def test_off_without_render_gives_none_and_keeps_the_nodes() -> None:
    capture()
    output = flow.off()
    assert output is not None
    assert output.node_count == 2


def test_off_twice_renders_once_as_the_first_clears() -> None:
    capture()
    assert flow.off() is not None
    assert flow.off() is None


def test_off_without_clear_keeps_the_nodes_and_on_adds_to_them() -> None:
    capture()
    assert flow.off(clear=False) is not None
    capture(1)
    output = flow.off()
    assert output is not None
    assert output.node_count == 3


def test_a_filename_alone_does_not_save(tmp_path: Path) -> None:
    capture()
    output = flow.off(filename="x.json")
    assert output is not None
    assert output.saved_path is None
    assert list(tmp_path.iterdir()) == []


def test_off_saves_where_on_said(tmp_path: Path) -> None:
    capture(save=True, save_dir="a/b")
    output = flow.off(filename="c/x.json")
    assert output == flow.RenderOutput(str(Path("a/b") / "c/x.json"), False, 2)
    assert (tmp_path / "a/b/c/x.json").exists()


def test_save_of_off_overrules_that_of_on(tmp_path: Path) -> None:
    capture(save=True)
    output = flow.off(save=False)
    assert output is not None
    assert output.saved_path is None
    capture(save=False)
    output = flow.off(save=True, filename="x.dot")
    assert output is not None
    assert output.saved_path == str(Path("monitorch_outputs/x.dot"))


def test_without_a_filename_the_time_names_the_picture() -> None:
    pytest.importorskip("pygraphviz")
    capture(save=True, save_dir="d", file_prefix="p")
    output = flow.off()
    assert output is not None
    assert re.fullmatch(r"d/p_\d{8}_\d{6}\.png", output.saved_path or "")


def test_an_absolute_filename_stays_as_it_is(tmp_path: Path) -> None:
    capture(save=True, save_dir="d")
    output = flow.off(filename=tmp_path / "e" / "x.json")
    assert output is not None
    assert output.saved_path == str(tmp_path / "e" / "x.json")


def test_flush_renders_and_goes_on() -> None:
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True)
    a = np.ones(2)
    first = flow.flush()
    b = a + 1  # noqa: F841
    second = flow.off()
    assert first is not None
    assert second is not None
    assert first.node_count == 1
    assert second.node_count == 2  # a is a source now


def test_flush_of_nothing_is_none() -> None:
    flow.on()
    assert flow.flush() is None


def test_two_charts_of_one_second_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygraphviz")
    monkeypatch.setattr("time.strftime", lambda _: "20260102_030405")
    paths = []
    for _ in range(3):
        capture(1, save=True, save_dir="d")
        output = flow.off()
        paths.append(output.saved_path if output else None)
    stem = "d/tensor_flow_20260102_030405"
    assert paths == [f"{stem}.png", f"{stem}_2.png", f"{stem}_3.png"]


def test_a_flush_draws_and_clears_one_moment_while_threads_go_on() -> None:
    def work() -> None:
        while not done.is_set():
            if left[0] > 0:  # else each flush would have more to draw than the one before
                left[0] -= 1
                inside = np.ones(2)  # noqa: F841
            else:
                time.sleep(1e-4)

    done, left = threading.Event(), [0]
    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True, max_nodes=10**6, save=True, save_dir="d")
    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(10):
            left[0] = 3000
            while left[0] > 2500:  # the thread is in the middle of it
                time.sleep(1e-4)
            output = flow.flush(filename="x.json")
            assert output is not None
            drawn = json.loads(Path("d/x.json").read_text())["nodes"]
            assert len(drawn) == output.node_count
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("option", ["max_nodes", "max_vector", "max_matrix", "max_slices"])
@pytest.mark.parametrize("value", [np.int64(7), np.uint8(200), 10**30, -(10**30)])
def test_any_whole_number_will_do(option: str, value: Any) -> None:
    capture(2, **{option: value})
    assert flow.off() is not None


def test_the_bools_of_numpy_are_bools() -> None:
    capture(save=np.True_, save_dir="d", show=np.False_)
    output = flow.off(filename="x.dot", clear=np.True_)  # type: ignore[arg-type]
    assert output == flow.RenderOutput("d/x.dot", False, 2)
    assert flow.off() is None


@pytest.mark.parametrize("option", ["max_nodes", "max_vector", "max_matrix", "max_slices"])
@pytest.mark.parametrize("value", ["3", 2.0, None, True, np.True_, np.float32(3)])
def test_numbers_must_be_ints(option: str, value: object) -> None:
    with pytest.raises(TypeError, match=option):
        flow.on(**{option: value})


@pytest.mark.parametrize(
    "options",
    [
        {"show": 1},
        {"save": None},
        {"save": "yes"},
        {"save_dir": 3},
        {"save_dir": b"x"},
        {"file_prefix": None},
        {"returns": 1},
        {"arrays": "no"},
    ],
)
def test_options_of_a_wrong_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        flow.on(**options)
    assert not flow.on().enabled or flow.off() is None


def test_a_refused_on_changes_nothing() -> None:
    capture(save=True, save_dir="kept")
    with pytest.raises(TypeError):
        flow.on(save_dir="other", max_nodes="x")  # type: ignore[arg-type]
    output = flow.off(filename="x.dot")
    assert output is not None
    assert output.saved_path == str(Path("kept/x.dot"))


def test_numbers_below_the_least_are_raised_to_it() -> None:
    capture(3, max_nodes=-5, max_vector=0, max_matrix=0, max_slices=0)
    output = flow.off()
    assert output is not None
    assert output.node_count == 1


def test_options_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        flow.on(True)  # type: ignore[misc]
    with pytest.raises(TypeError):
        flow.off(True)  # type: ignore[misc]


def test_a_second_on_sets_every_option_anew_and_keeps_the_nodes() -> None:
    capture(3, save=True, save_dir="other", max_nodes=50)
    flow.on()
    output = flow.off()
    assert output is not None
    assert output.saved_path is None
    assert output.node_count == 3


def test_a_second_on_with_fewer_nodes_keeps_the_last() -> None:
    capture(9)
    flow.on(max_nodes=4)
    output = flow.off()
    assert output is not None
    assert output.node_count == 4


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((3,), {}),
        ((None, 3), {}),
        ((), {"file": "x.py"}),
        ((0, 3), {}),
        ((-2, 3), {}),
        ((5, 3), {}),
    ],
)
def test_a_bad_line_range_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"line"):
        flow.lines(*args, **kwargs)


@pytest.mark.parametrize("last", [np.int64(10**6), 2**31, sys.maxsize, 10**30])
def test_the_last_line_may_be_far_away(last: Any) -> None:
    flow.lines(np.int32(1), last)
    flow.on(arrays=True)
    a = np.ones(1)  # noqa: F841
    output = flow.off()
    assert output is not None
    assert output.node_count == 1


@pytest.mark.parametrize("args", [("1", 2), (1, 2.5), (True, 3)])
def test_lines_must_be_whole_numbers(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        flow.lines(*args)


def test_lines_keep_both_ends() -> None:
    here = inspect.currentframe()
    assert here is not None
    first = here.f_lineno + 3
    flow.lines(first, first + 1)
    flow.on(arrays=True)
    a = np.ones(1)
    b = np.ones(2)  # noqa: F841
    c = np.ones(3)  # noqa: F841
    output = flow.off(save=True, filename="x.json")
    assert output is not None
    assert output.node_count == 2
    assert a.size == 1


def test_lines_without_arguments_clear_the_filter() -> None:
    flow.lines(1, 2)
    assert flow.lines() is flow.args()
    flow.on(arrays=True)
    a = np.ones(1)  # noqa: F841  # outside of the working directory
    assert flow.off() is None


def test_reset_forgets_nodes_hints_and_lines() -> None:
    capture()
    runtime = flow.args(a=1)
    flow.on()
    flow.reset()
    assert not runtime.enabled
    assert runtime.arg_hints == {}
    assert flow.off() is None
    flow.on(arrays=True)
    a = np.ones(1)  # noqa: F841  # no filter selects this file any more
    assert flow.off() is None


def test_threads_started_while_on_are_in_the_same_chart() -> None:
    def work() -> None:
        inside = np.ones(4)  # noqa: F841

    flow.lines(1, 10**6, file=__file__)
    flow.on(arrays=True)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    output = flow.off()
    assert output is not None
    assert output.node_count == 1


def test_an_output_is_a_dataclass_of_three_fields() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(flow.RenderOutput)}
    assert fields == {"saved_path": "str | None", "displayed": "bool", "node_count": "int"}


def test_a_runtime_of_ones_own_has_nodes_hints_and_lines_of_its_own() -> None:
    other = flow.MonitorRuntime()
    capture()
    assert (other.enabled, other.arg_hints) == (False, {})
    assert other.off() is None
    assert flow.off() is not None


def test_the_runtime_has_the_calls_as_methods() -> None:
    for call in ("on", "off", "flush", "lines", "args", "run", "watch", "reset"):
        assert callable(getattr(flow.MonitorRuntime, call))
