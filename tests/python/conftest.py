"""Settings for all Python tests: one thread, no deadlines, bounded examples."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile(
    "tensortap",
    deadline=None,
    max_examples=60,
    derandomize=True,  # a test run says the same twice
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("tensortap")

# pytest keeps the tests that it rewrote, whatever the environment says: 8 s less at the next run.
sys.dont_write_bytecode = False
# Ranks on this machine talk to each other, whatever its name is and whoever knows it.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
# A test that wants a width asks for it; processes of pytest-xdist inherit the terminal's.
os.environ.pop("COLUMNS", None)

try:
    import torch
except ModuleNotFoundError:  # NumPy alone: files that need torch skip themselves
    pass
else:
    torch.set_num_threads(1)

# A shell that starts the tests with & has them ignore Ctrl-C, and what they start inherits that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was imported out of searches for living objects: each would take 100 ms."""
    if "torch" in globals() and len(session.items) > 1000:
        importlib.import_module("torch._dynamo")  # the whole suite needs it, sooner or later
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Give each test the same random numbers, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    if "torch" in globals():
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    """Have each test begin as a process does that has compiled nothing."""
    yield
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    if convert_frame is not None and getattr(convert_frame, "FRAME_COUNTER", 0) > 0:
        sys.modules["torch._dynamo"].reset()  # type: ignore[attr-defined]


@pytest.fixture
def flow_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, with a flow that knows nothing before and after."""
    from tensortap import flow

    monkeypatch.chdir(tmp_path)
    flow.reset()
    yield
    flow.reset()
