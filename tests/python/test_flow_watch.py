"""The context manager, with and without an exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensortap import flow

pytestmark = pytest.mark.usefixtures("flow_alone")


def test_watch_is_on_inside_and_renders_at_the_end() -> None:
    flow.lines(1, 10**6, file=__file__)
    with flow.watch(arrays=True, save=True, file_prefix="w", save_dir="d") as runtime:
        assert runtime.enabled
        a = np.ones(2)  # noqa: F841
    assert not runtime.enabled
    assert flow.off() is None  # it was rendered and cleared


def watch_one_change(failure: Exception | None, **options: Any) -> None:
    flow.lines(1, 10**6, file=__file__)
    with flow.watch(arrays=True, save=True, **options):
        a = np.ones(1)  # noqa: F841
        if failure is not None:
            raise failure


def test_an_exception_inside_of_watch_comes_out_though_the_chart_cannot_be_saved() -> None:
    Path("file").write_text("")
    failure = KeyError("mine")
    with (
        pytest.warns(RuntimeWarning, match="not drawn.*file") as told,
        pytest.raises(KeyError) as caught,
    ):
        watch_one_change(failure, save_dir="file")
    assert caught.value is failure
    assert told[0].filename == __file__  # not somewhere inside of ours
    assert not flow.args().enabled


def test_a_chart_that_cannot_be_saved_is_an_error_of_watch() -> None:
    Path("file").write_text("")
    with pytest.raises(OSError, match="file"):
        watch_one_change(None, save_dir="file")


def test_watch_draws_what_led_to_an_exception() -> None:
    with pytest.raises(KeyError):
        watch_one_change(KeyError(), save_dir="d", file_prefix="w")
    assert len([*Path("d").glob("w_*")]) == 1


def test_watch_turns_off_when_an_exception_passes() -> None:
    with pytest.raises(KeyError, match="mine"), flow.watch() as runtime:
        raise KeyError("mine")
    assert not runtime.enabled
