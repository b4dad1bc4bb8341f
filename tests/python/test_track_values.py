"""The seed's smaller functions, and its examples with only the import line changed."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensortap.track import (
    _log_change,
    auto_diff,
    check_run_count,
    extract_tensor_info,
    get_call_stack,
    h4logger,
    is_content_changed,
    log2file,
    logger,
    var_tracker,
)

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path))


def test_few_elements_become_lists_and_many_a_summary() -> None:
    small, large = torch.arange(25), torch.arange(26.0)
    assert extract_tensor_info(small) == small.tolist()
    assert extract_tensor_info(large) == {
        "type": "Tensor",
        "shape": large.shape,
        "dtype": "torch.float32",
        "sum": large.sum().item(),
        "mean": large.mean().item(),
        "min": 0.0,
        "max": 25.0,
    }
    assert extract_tensor_info(large, max_elements=26) == large.tolist()
    array = np.zeros((26,))
    assert extract_tensor_info(array) == {"type": "ndarray", "shape": (26,), "dtype": "float64"}
    assert extract_tensor_info(array[:3]) == [0.0, 0.0, 0.0]


def test_containers_are_looked_into_and_the_rest_stays() -> None:
    marker = object()
    data = {"a": (torch.ones(2), [np.ones(1)]), "b": {3}, "c": marker, "d": None}
    assert extract_tensor_info(data) == {
        "a": [[1.0, 1.0], [[1.0]]],
        "b": [3],
        "c": marker,
        "d": None,
    }


def test_a_meta_tensor_is_told_without_values() -> None:
    info = extract_tensor_info(torch.empty(3, device="meta"))
    assert info == {"type": "Tensor", "shape": torch.Size([3]), "dtype": "torch.float32"}


def test_a_count_ends_the_program_after_so_many_calls() -> None:
    for _ in range(3):
        check_run_count("here", 3)
    with pytest.raises(SystemExit) as left:
        check_run_count("here", 3)
    assert left.value.code == 1
    check_run_count("here", 3)  # it starts again
    check_run_count("there", 1, remove_when_exit=False)
    for _ in range(2):
        with pytest.raises(SystemExit):
            check_run_count("there", 1, remove_when_exit=False)


def test_each_thread_has_its_own_count() -> None:
    check_run_count("mine", 1)
    worker = threading.Thread(target=check_run_count, args=("mine", 1))
    worker.start()
    worker.join()
    with pytest.raises(SystemExit):
        check_run_count("mine", 1)


@pytest.mark.parametrize(
    ("last", "current", "is_changed"),
    [
        (torch.ones(2), torch.ones(2), False),
        (torch.ones(2), torch.ones(2) + 1e-6, True),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), False),
        (torch.ones(2), torch.ones(2).double(), True),
        (torch.ones(2), torch.ones(2, 1), True),
        (torch.ones(2), np.ones(2, np.float32), True),
        (np.ones(2), np.ones(2), False),
        ([np.ones(2)], [np.zeros(2)], True),
        ([1, {"a": torch.ones(1)}], [1, {"a": torch.ones(1)}], False),
        ({1, 2}, {2, 1}, False),
        (None, torch.ones(1), True),
        (1, 1.0, False),
        (1, 2, True),
    ],
)
def test_contents_are_compared_by_value(last: object, current: object, is_changed: bool) -> None:
    assert is_content_changed(last, current) is is_changed


def test_the_call_stack_goes_from_the_innermost_outwards() -> None:
    def inner() -> str:
        return get_call_stack()

    places = inner().split(" <- ")
    assert all(place.startswith("test_track_values.py:") for place in places[:2])
    first, second = (int(place.split(":")[1]) for place in places[:2])
    assert first < second


def test_a_value_is_logged_as_the_seed_calls_it(capsys: pytest.CaptureFixture[str]) -> None:
    ones = "dtype=torch.float32 | mean=1 std=0 min=1 max=1"
    _log_change("Linear", "output", torch.ones(2, 3), "", 0)
    _log_change("", "n", 5, "  ", 12)
    _log_change("Linear", "input", (torch.ones(2), None), "")
    _log_change("Linear", "input", (), "")
    assert capsys.readouterr().out.splitlines() == [
        f"├─ Linear [Tensor] output@0 → shape=torch.Size([2, 3]) | {ones}",
        "  ├─ [Var] n@12 value: 5",
        f"├─ Linear [Tensor] input[0]@0 → shape=torch.Size([2]) | {ones}",
        "├─ Linear [Var] input[1]@0 value: None",
        "├─ Linear [Var] input@0 len(value): 0 value: ()",
    ]


def test_torchs_own_calls_of_forward_are_no_callers(capsys: pytest.CaptureFixture[str]) -> None:
    class Net(torch.nn.Module):
        @auto_diff
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x

    Net()(torch.ones(1))
    head = capsys.readouterr().out.splitlines()[0]
    assert "called at test_torchs_own_calls_of_forward_are_no_callers:" in head
    assert "module.py" not in head


def test_the_seeds_accuracy_monitor_runs(capsys: pytest.CaptureFixture[str]) -> None:
    model_executable = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())

    def check_hook(module, input, output):  # type: ignore[no-untyped-def]
        from tensortap.track import _log_change

        _log_change(f"{module.__class__.__name__}", "input", input, "", 0)
        _log_change(f"{module.__class__.__name__}", "output", output, "", 0)

    for _name, layer in model_executable.named_modules():
        layer.register_forward_hook(check_hook)
    model_executable(torch.ones(2, 3))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" → ")[0] for line in lines] == [
        "├─ Linear [Tensor] input[0]@0",
        "├─ Linear [Tensor] output@0",
        "├─ ReLU [Tensor] input[0]@0",
        "├─ ReLU [Tensor] output@0",
        "├─ Sequential [Tensor] input[0]@0",
        "├─ Sequential [Tensor] output@0",
    ]


def test_the_seeds_decorators_and_handler_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @auto_diff
    def process_data(inputs):  # type: ignore[no-untyped-def]
        return transform_video(inputs)

    @var_tracker("video")
    def transform_video(video_tensor):  # type: ignore[no-untyped-def]
        video = np.zeros((73, 6, 9, 3), np.uint8)
        video = torch.from_numpy(video)
        video = video.permute(0, 3, 1, 2)
        return video

    logger.addHandler(h4logger())
    try:
        xxx = 3
        log2file(f"xx is {xxx}")
        process_data([1, 2])
    finally:
        logger.handlers.pop()
    printed = capsys.readouterr().out
    assert "xx is 3\n" in printed
    assert "│   │   ├─ [Tensor] video@" in printed
    assert "shape=(73, 6, 9, 3) | dtype=uint8" in printed
    assert "shape=torch.Size([73, 3, 6, 9]) | dtype=torch.uint8" in printed
    (path,) = tmp_path.glob("process_*.log")
    assert path.read_text().count("INFO") == printed.count("\n")


def test_arguments_left_at_their_default_are_inputs_too(capsys: pytest.CaptureFixture[str]) -> None:
    @var_tracker("rate")
    def train(steps: int, rate: float = 0.1, *more: int, name: str = "sgd", **others: int) -> None:
        rate = rate / 2

    def inputs(*args: int, **kwargs: Any) -> list[str]:
        train(*args, **kwargs)
        printed = capsys.readouterr().out.splitlines()
        assert [line for line in printed if "] rate@" in line][-1].endswith(" → 0.05)")
        return [line.partition("[Var] ")[2] for line in printed if " input " in line]

    assert inputs(3) == ["steps@0 value: 3", "rate@0 value: 0.1", "name@0 value: 'sgd'"]
    assert inputs(3, name="adam") == [
        "steps@0 value: 3",
        "name@0 value: 'adam'",
        "rate@0 value: 0.1",
    ]
    assert inputs(3, rate=0.1, extra=1) == [  # type: ignore[arg-type]
        "steps@0 value: 3",
        "rate@0 value: 0.1",
        "extra@0 value: 1",
        "name@0 value: 'sgd'",
    ]


def test_defaults_behind_a_wrapper_are_not_claimed(capsys: pytest.CaptureFixture[str]) -> None:
    def fills_in(func: Any) -> Any:
        @functools.wraps(func)
        def wrapper(x: int) -> int:
            return int(func(x, rate=0.5))

        return wrapper

    @auto_diff
    @fills_in
    def train(x: int, rate: float = 0.1) -> int:
        return x

    train(1)
    assert "rate@0" not in capsys.readouterr().out
