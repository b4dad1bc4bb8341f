"""The pages of `tensortap serve` in a real browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paged import Opened, browser
from served import serve

import tensortap as tt


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def add_steps(run: Any, first: int, last: int, bad: int = -1) -> None:
    for step in range(first, last):
        run.log("train/loss", 1 / (step + 1))
        for name in ("activation/a", "activation/b"):
            value = np.arange(4, dtype=np.float32) + step % 3
            value[0] = math.nan if step == bad else value[0]
            run.tensor(name, value)
        run.step()
    run.flush()


def test_a_page_follows_a_run_that_grows(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run, serve(tmp_path) as started:
        add_steps(run, 0, 20)
        page = Opened(chromium, f"{started.address}?of=run")
        assert "live" in page.text("#status")
        assert page.text("#step-value") == "19"
        assert "finite" in page.text("#findings")
        page.tab.evaluate("change({ site: runs[0].byName.get('activation/b') })")
        page.tab.wait_for_selector("#site-at")
        add_steps(run, 20, 50, bad=33)
        page.wait("byId('step-value').textContent === '49'")
        page.wait("byId('findings').textContent.includes('activation/a: the first NaN')")
        page.wait("byId('site-latest').textContent.includes('step 49')")
        shown = page.tab.evaluate("Array.from(runs[0].numbers.columns.value.slice(0, 50))")
        assert shown == pytest.approx([1 / (step + 1) for step in range(50)])
        run.log("later", 1.0)  # a new curve
        run.flush()
        page.wait("document.querySelectorAll('#curves .uplot').length === 2")
        run.close()
        page.wait("byId('status').textContent.startsWith('finished')")
        page.close()


def test_a_map_that_grew_equals_a_new_one(chromium: Any, tmp_path: Path) -> None:
    def add(run: Any, first: int, last: int) -> None:
        for step in range(first, last):
            value = np.arange(16, dtype=np.float32) < step % 16
            run.tensor("activation/0.always", value)
            if step % 5 == 0:
                run.tensor("activation/1.sometimes", ~value)
                run.tensor("activation/2.sometimes", np.zeros(16, np.float32))
            run.step()
        run.flush()

    draw = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
        () => done(document.querySelector('#map canvas').toDataURL()))))"""
    with tt.record(tmp_path / "run") as run, serve(tmp_path / "run") as started:
        add(run, 0, 400)
        page = Opened(chromium, started.address)
        page.tab.evaluate("change({stat: 'zeros'})")
        for last in (410, 2500, 2501):  # so many are joined on the way
            add(run, page.tab.evaluate("runs[0].tensors.last") + 1, last)
            page.wait(f"runs[0].tensors.last === {last - 1} && view.step === lastStep()")
            fresh = Opened(chromium, started.address)
            fresh.tab.evaluate("change({stat: 'zeros'})")
            fresh.wait("document.querySelector('#map .readout').textContent.includes('zeros')")
            assert page.tab.evaluate(draw) == fresh.tab.evaluate(draw), last
            fresh.close()
        assert page.tab.evaluate("runs[0].tensors.width") > 1
        page.tab.evaluate("change({stat: 'mean'})")
        page.wait("document.querySelector('#map .legend').textContent.includes('middle: 0')")
        texts = "(at) => Array.from(at.childNodes, (x) => x.textContent)"
        low, _, high, _ = page.tab.locator("#map .legend span").first.evaluate(texts)
        assert float(low) == -float(high)
        page.close()


def test_the_list_is_searched_and_two_runs_are_compared(chromium: Any, tmp_path: Path) -> None:
    for name in ("one", "two", "three <b>"):
        with tt.record(tmp_path / name) as run:
            add_steps(run, 0, 12, bad=5 if name == "two" else -1)
    with serve(tmp_path) as started:
        page = Opened(chromium, started.address)
        assert page.tab.locator("#runs tbody tr").count() == 3
        assert "three <b>" in page.text("#runs")
        page.tab.fill("#runs input[type=search]", "hree finished")
        assert page.tab.locator("#runs tbody tr").count() == 1
        page.tab.fill("#runs input[type=search]", "")
        page.tab.check("#runs tr:has-text('one') input")
        page.tab.check("#runs tr:has-text('two') input")
        page.tab.click("text=Compare two runs")
        page.tab.wait_for_selector("html[data-ready=true]", state="attached")
        assert "diverge at step 5" in page.text("#findings")
        assert page.tab.locator("#compare .uplot").count() == 2
        page.tab.click("text=All runs")
        page.tab.wait_for_selector("#runs tbody tr")
        page.close()


@pytest.mark.heavy
def test_a_long_run_keeps_its_spike_while_it_grows(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run, serve(tmp_path / "run") as started:
        for step in range(3000):
            run.log("loss", 1000.0 if step == 1234 else 1.0)
            run.step()
        run.flush()
        page = Opened(chromium, started.address)
        for step in range(3000, 20000):
            run.log("loss", 500.0 if step == 15000 else 1.0)
            run.step()
        run.flush()
        page.wait("runs[0].numbers.last === 19999")
        high = "(v) => Array.from(runs[0].numbers.columns.high).filter((x) => x === v).length"
        assert [page.tab.evaluate(high, value) for value in (1000, 500)] == [1, 1]
        assert page.tab.evaluate("runs[0].numbers.steps.length") <= 2048
        page.close()


@pytest.mark.heavy
def test_a_thousand_runs_are_shown(chromium: Any, tmp_path: Path) -> None:
    import shutil

    with tt.record(tmp_path / "run0") as run:
        add_steps(run, 0, 3)
    for i in range(1, 1000):
        shutil.copytree(tmp_path / "run0", tmp_path / f"run{i}")
    with serve(tmp_path) as started:
        page = Opened(chromium, started.address, viewport={"width": 380, "height": 720})
        assert page.tab.locator("#runs tbody tr").count() == 1000
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= 380
        cells = "[...document.querySelectorAll('#runs tbody tr:first-child td')]"
        assert page.tab.evaluate(f"{cells}.every((x) => x.getBoundingClientRect().right <= 380)")
        page.tab.fill("#runs input[type=search]", "run777")
        assert page.tab.locator("#runs tbody tr").count() == 1
        page.tab.focus("#runs tbody a")
        page.tab.keyboard.press("Enter")
        page.tab.wait_for_selector("html[data-ready=true]", state="attached")
        assert "run777" in page.text("#title")
        page.close()


@pytest.mark.heavy
def test_a_run_that_is_removed_is_said_to_be_gone(chromium: Any, tmp_path: Path) -> None:
    import shutil

    with tt.record(tmp_path / "run") as run:
        add_steps(run, 0, 12)
    with serve(tmp_path) as started:
        page = Opened(chromium, f"{started.address}?of=run")
        shutil.rmtree(tmp_path / "run")
        page.wait("byId('status').textContent.includes('no run')")
        assert page.tab.locator("#curves .uplot").count() == 1
        page.context.close()  # Chromium logs the answer 404


@pytest.fixture
def bad_run(tmp_path: Path) -> Iterator[Any]:
    """Serve a run that is being written and holds a NaN."""
    with tt.record(tmp_path / "run") as run, serve(tmp_path) as started:
        add_steps(run, 0, 30, bad=17)
        yield started


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("width", "scale", "scheme"), [(380, 1, "dark"), (640, 2, "light"), (1280, 1, "dark")]
)
def test_a_live_page_fits_a_phone_and_a_zoom_in_light_and_dark(
    chromium: Any, bad_run: Any, width: int, scale: int, scheme: str
) -> None:
    for address in (bad_run.address, f"{bad_run.address}?of=run"):
        page = Opened(
            chromium,
            address,
            viewport={"width": width, "height": 720},
            device_scale_factor=scale,
            color_scheme=scheme,
        )
        ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(20, 23, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        assert page.tab.pdf().startswith(b"%PDF")
        page.close()


@pytest.mark.heavy
def test_a_live_page_is_used_by_keyboard_alone(chromium: Any, bad_run: Any) -> None:
    page = Opened(chromium, bad_run.address)
    keys = page.tab.keyboard

    def tab_to(is_there: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if page.tab.evaluate(f"(at => {is_there})(document.activeElement)"):
                assert page.tab.evaluate("document.activeElement.matches(':focus-visible')")
                return
        pytest.fail(f"never reached: {is_there}")

    tab_to("at.textContent === 'run' && at.tagName === 'A'")
    with page.tab.expect_navigation():
        keys.press("Enter")
    page.tab.wait_for_selector("html[data-ready=true]", state="attached")
    assert "the first NaN" in page.text("#findings")
    tab_to("at.id === 'step'")
    keys.press("Home")
    assert page.text("#step-value") == "0"
    tab_to("at.textContent.startsWith('Open this site at step 17')")
    keys.press("Enter")
    page.wait("byId('site-name') && byId('site-name').textContent === 'activation/a'")
    assert page.text("#step-value") == "17"
    tab_to("at.matches('#map .scroll')")
    keys.press("ArrowRight")
    assert "step 18" in page.text("#map .readout")
    page.close()


@pytest.mark.heavy
def test_eight_ranks_are_followed(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    monkeypatch.setenv("WORLD_SIZE", "8")
    for rank in range(8):
        monkeypatch.setenv("RANK", str(rank))
        runs.append(tt.record(tmp_path / "run"))
    with serve(tmp_path / "run") as started:

        def add(first: int, last: int) -> None:
            for rank, run in enumerate(runs):
                for step in range(first, last):
                    run.log("loss", 1 / (step + 1) + (rank == 5 and step > 15))
                    run.step()
                run.flush()

        add(0, 12)
        page = Opened(chromium, started.address)
        assert "No rank differs much" in page.text("#ranks")
        add(12, 40)
        page.wait("byId('ranks').textContent.includes('Rank 5 differs most')")
        page.close()
    for run in runs:
        run.close()
