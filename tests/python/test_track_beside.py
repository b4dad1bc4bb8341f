"""track beside a debugger, coverage, flow, and other trackers; in generators and threads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import track_lab
from programs import forked
from track_lab import changes

from tensortap import flow
from tensortap.track import auto_diff, block, debug_trace, fstack, var_tracker

needs_torch = pytest.mark.skipif(track_lab.torch is None, reason="torch is not installed")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORTAP_LOG_DIR", str(tmp_path))


def printed(call: Callable[[], object]) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        call()
    return out.getvalue().splitlines()


def told(lines: list[str]) -> list[str]:
    """Give "x" for each change of x that was told."""
    found = [re.search(r"├─ \[(?:Var|Tensor)\] (\w+)@", line) for line in lines]
    return [match[1] for match in found if match is not None]


def traces_put_back(call: Callable[[], object]) -> list[str]:
    """Call with a trace function of our own; give what it saw, if it is there again."""
    seen: list[str] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name == "work":
            seen.append(event)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(ValueError):
            call()
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    return seen


def test_an_earlier_trace_function_sees_everything_and_is_put_back() -> None:
    @var_tracker("x")
    def work() -> None:
        x = np.ones(1)
        x += 1

    lines: list[str] = []
    seen = traces_put_back(lambda: lines.extend(printed(work)))
    assert told(lines) == ["x", "x"]
    assert seen.count("line") == 2
    assert seen.count("return") == 1


def test_the_trace_function_is_put_back_after_an_exception() -> None:
    @var_tracker("x")
    def work() -> None:
        x = 1
        raise ValueError(x)

    traces_put_back(lambda: printed(work))
    before = sys.gettrace()
    with pytest.raises(ValueError, match="1"):
        printed(work)
    assert sys.gettrace() is before


def test_without_a_trace_function_there_is_none_afterwards() -> None:
    before = sys.gettrace()
    with contextlib.redirect_stdout(io.StringIO()), block("x"):
        x = 1
    assert x == 1
    assert sys.gettrace() is before


def test_coverage_counts_the_lines_of_a_tracked_function(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "prog.py").write_text(
        "from tensortap.track import var_tracker\n"
        "@var_tracker('x')\n"
        "def work(n):\n"
        "    x = n\n"
        "    if n > 5:\n"
        "        x = 0\n"
        "    return x\n"
        "work(1)\n"
        "work(2)\n"
    )
    run = [sys.executable, "-m", "coverage", "run", "--include=prog.py", "prog.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[Var] x@4") == 2
    report = subprocess.run(
        [sys.executable, "-m", "coverage", "report", "-m"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(r"prog.py +9 +1 +89% +6", report.stdout), report.stdout


DEBUGGED = """\
from tensortap.track import var_tracker
@var_tracker('x')
def work():
    x = 1
    {stop}
    x = 2
    x = 3
    return x
print('result', work())
"""


def debug(
    folder: Path, stop: str, commands: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    (folder / "prog.py").write_text(DEBUGGED.format(stop=stop))
    return subprocess.run(
        [sys.executable, *arguments, "prog.py"],
        cwd=folder,
        input=commands,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_debugger_stops_in_a_tracked_function(tmp_path: Path) -> None:
    done = debug(tmp_path, "pass", "b 6\nc\np x\nnext\np x\nnext\np x\nc\nq\n", "-m", "pdb")
    assert re.findall(r"^\(Pdb\) (\d)$", done.stdout, re.M) == ["1", "2", "3"]
    assert re.findall(r"\[Var\] x@(\d)", done.stdout) == ["4", "6", "7"]
    assert "result 3" in done.stdout


def test_a_breakpoint_in_a_tracked_function_works_and_a_warning_says_what_is_missing(
    tmp_path: Path,
) -> None:
    commands = "p x\nnext\np x\nnext\np x\ncontinue\n"
    done = debug(tmp_path, "breakpoint()", commands)
    assert done.returncode == 0, done.stderr
    plain = (tmp_path / "prog.py").read_text().replace("@var_tracker('x')", "")
    alone = subprocess.run(
        [sys.executable, "-c", plain], input=commands, capture_output=True, text=True, timeout=120
    )
    # From 3.13 on pdb stops at the call of breakpoint(), in a tracked function of 3.13 behind it.
    printed = r"^\(Pdb\) (\d)$"
    ways = [["1", "2", "3"], ["1", "1", "2"]]
    is_of_3_13 = sys.version_info[:2] == (3, 13)
    stops = [re.findall(printed, one.stdout, re.M) for one in (alone, done)]
    assert stops[0] in ways
    assert stops[1] == (ways[0] if is_of_3_13 else stops[0])
    assert "result 3" in done.stdout
    if sys.version_info >= (3, 12):
        assert re.findall(r"\[Var\] x@(\d)", done.stdout) == ["4", "6", "7"]
    else:
        assert done.stderr.count("Start the debugger first") == 1


def test_debug_trace_logs_nothing_of_our_own_code(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(
        "from tensortap.track import debug_trace\n@debug_trace\ndef f(a):\n    return a + 1\nf(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "prog.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert re.findall(r"enter \[(\S+)\]", done.stdout) == ["f"], done.stderr


@needs_torch
def test_flow_and_track_see_the_same_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").write_text(
        "import torch\ndef work():\n    x = torch.ones(2)\n    x = x + 1\n    return x\n"
    )
    space: dict[str, Any] = {}
    path = str(tmp_path / "prog.py")
    exec(compile(Path(path).read_text(), path, "exec"), space)
    flow.reset()
    flow.on(show=False)
    try:
        lines = printed(var_tracker("x")(space["work"]))
        nodes = len(flow._runtime._flow)
    finally:
        flow.off(render=False)
        flow.reset()
    assert told(lines) == ["x", "x"]
    assert nodes == 2


def test_nested_trackers_of_one_name_tell_each_change_once() -> None:
    @var_tracker("x")
    def outer() -> Any:
        x = np.ones(1)
        return inner(x)

    @var_tracker("x", "y")
    def inner(x: Any) -> Any:
        x = x + 1
        y = 5
        return x * y

    assert told(printed(outer)) == ["x", "x", "y"]


def test_two_threads_track_at_the_same_time() -> None:
    ready = threading.Barrier(2)

    @var_tracker("x")
    def work(base: float) -> None:
        x = np.full(1, base)
        ready.wait()
        x = x + 1
        ready.wait()
        x = x + 1

    def both() -> None:
        threads = [threading.Thread(target=work, args=(base,)) for base in (10.0, 20.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    lines = [line for line in printed(both) if "] x@" in line]
    values = sorted(re.findall(r"value=(\d+)", " ".join(line.split("|")[2] for line in lines)))
    assert values == ["10", "11", "12", "20", "21", "22"]


def test_another_thread_is_not_tracked() -> None:
    def other() -> None:
        x = 5
        x = 6
        assert x == 6

    @var_tracker("x")
    def work() -> None:
        x = 1
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert x == 1

    assert told(printed(work)) == ["x"]


def test_what_runs_between_two_steps_of_a_generator_is_not_tracked() -> None:
    @var_tracker("x")
    def count() -> Iterator[int]:
        x = 1
        yield x
        x = 2
        yield x

    def outside() -> None:
        for value in count():
            x = value * 10
            assert x

    assert told(printed(outside)) == ["x", "x"]


def test_tasks_that_take_turns_have_their_own_places() -> None:
    @var_tracker("x")
    async def task(base: int) -> int:
        x = base
        await asyncio.sleep(0)
        x = x + 1
        await asyncio.sleep(0)
        return x

    async def both() -> list[int]:
        x = 99
        return [*(await asyncio.gather(task(1), task(10))), x]

    lines = printed(lambda: asyncio.run(both()))
    values = re.findall(r"^│   ├─ \[Var\] x@\d+ value: (\d+)", "\n".join(lines), re.M)
    assert sorted(values, key=int) == ["1", "2", "10", "11"]
    assert [line for line in lines if line.startswith("│   │")] == []


def test_values_sent_and_thrown_reach_the_generator() -> None:
    @auto_diff
    def echo() -> Iterator[Any]:
        got: Any = None
        while got != "stop":
            try:
                got = yield got
            except KeyError as error:
                got = f"caught {error}"
        return "end"

    def use() -> None:
        one = echo()
        assert next(one) is None
        assert one.send(5) == 5
        assert one.throw(KeyError("k")) == "caught 'k'"
        with pytest.raises(StopIteration) as stop:
            one.send("stop")
        assert stop.value.value == "end"

    assert "└─ output value: 'end'" in printed(use)


def test_kinds_of_functions_stay_what_they_are() -> None:
    import inspect

    @auto_diff
    def plain(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @auto_diff
    def generator() -> Iterator[int]:
        yield 1

    @var_tracker("x")
    async def coroutine() -> None: ...

    @debug_trace
    async def stream() -> Any:
        yield 1

    assert plain.__doc__ == "Add."
    assert str(inspect.signature(plain)) == "(a: 'int', b: 'int' = 2) -> 'int'"
    assert inspect.isgeneratorfunction(generator)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isasyncgenfunction(stream)
    assert fstack(plain).__name__ == "plain"


def test_nothing_tracked_is_kept_alive() -> None:
    class Box:
        pass

    references = []

    @var_tracker("x", "box")
    def work() -> None:
        x = np.ones(3)
        box = Box()
        references.extend([weakref.ref(x), weakref.ref(box)])
        x = x + 1

    printed(work)
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@needs_torch
def test_no_tracked_tensor_is_copied_unless_a_tolerance_asks_for_it(tmp_path: Path) -> None:
    big = 8 << 20

    def peak(**options: Any) -> int:
        """Give the highest memory of the process that runs this, in bytes."""
        code = (
            "import os, re, sys, torch\n"
            "from tensortap.track import var_tracker\n"
            "torch.set_num_threads(1)\n"
            "def work(x):\n"
            "    for i in range(5):\n"
            "        x[i] = 1\n"
            f"x = torch.zeros({big})\n"
            "sys.stdout = open(os.devnull, 'w')\n"
            f"var_tracker('x', **{options!r})(work)(x)\n"
            "sys.stdout = sys.__stdout__\n"
            "status = open('/proc/self/status').read()\n"
            "print(1024 * int(re.search(r'VmHWM:\\s*(\\d+)', status)[1]))\n"
        )
        done = forked(code, tmp_path)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    without, copied = peak(), peak(atol=0.0)
    assert copied - without > 4 * big * 0.8  # one copy of 32 MB


def test_an_object_whose_repr_fails_is_shown_all_the_same() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    lines = printed(lambda: auto_diff(lambda value: None)(Bad()))
    assert any("Bad" in line for line in lines)


def test_a_frame_without_builtins_is_tracked() -> None:
    assert changes("x = 1\nx = 2", __builtins__={}) == ["x@2", "x@3 value"]
