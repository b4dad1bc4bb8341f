"""Pages of many runs: curves over each other, pinned, saved, with notes; layer to layer."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from commands import tensortap
from paged import Opened, browser, write_page
from served import serve

import tensortap as tt

HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def record(path: Path, number: int, steps: int = 30) -> Path:
    """Train with batches of 4 and a learning rate of its own; one run lacks `late`."""
    torch.manual_seed(number)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * (number + 1))
    with tt.record(path, model=model) as run:
        for step in range(steps):
            model(torch.ones(4, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log("train/loss", number + 1 / (step + 1))
            if number:
                run.log("late", float(step))
            if step == 10:
                run.note(f"half way {HOSTILE}")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("overlay")
    for number in range(6):
        record(made / (f"run{number}" if number < 5 else "run5 <b>bold"), number)
    return made


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:
    return write_page(*sorted(folder.glob("run*")), out=folder / "many.html")


@pytest.fixture
def page(chromium: Any, home: Path) -> Iterator[Opened]:
    opened = Opened(chromium, home)
    yield opened
    opened.close()


DATA = """(name) => {
    const chart = [...charts].find((one) => one.options.title === name && one.host.isConnected);
    return chart.plot.data.map((column) => Array.from(column));
}"""


def test_every_line_is_the_series_of_its_run(page: Opened, folder: Path) -> None:
    x, *lines = page.tab.evaluate(DATA, "train/loss")
    assert len(lines) == 6
    for path, line in zip(sorted(folder.glob("run*")), lines, strict=True):
        steps, values = tt.open(path).series("train/loss", "value")
        assert dict(zip(x, line, strict=True)) == pytest.approx(
            dict(zip(steps.tolist(), values, strict=True)), rel=1e-6
        )


def test_the_legend_names_runs_and_what_differs(page: Opened) -> None:
    text = page.text("#runs")
    assert "run3" in text
    assert "run5 <b>bold" in text
    head = page.tab.locator("#runs th").all_inner_texts()
    assert "optimizer/lr" in head
    assert "optimizer/momentum" not in head  # all have the same
    lines = page.tab.evaluate("runs.map((run) => JSON.stringify(lookOf(run.number)))")
    assert len(set(lines)) == 6
    twenty = page.tab.evaluate("Array.from({length: 20}, (_, i) => JSON.stringify(lookOf(i)))")
    assert len(set(twenty)) == 20


def test_a_run_without_the_series_is_named(page: Opened) -> None:
    remark = page.tab.locator("#curves .chart:has(h3:text-is('late')) .readout")
    assert "Not in" in remark.inner_text()
    assert "run0" in remark.inner_text()
    loss = page.tab.locator("#curves .chart:has(h3:text-is('train/loss')) .readout")
    assert "Not in" not in loss.inner_text()


def test_a_run_that_is_not_ticked_is_not_drawn(page: Opened) -> None:
    page.tab.uncheck("#runs tr:has-text('run2') input")
    assert len(page.tab.evaluate(DATA, "train/loss")) == 6
    page.tab.click("text=Draw none")
    page.tab.check("#runs tr:has-text('run2') input")
    _, line = page.tab.evaluate(DATA, "train/loss")
    assert min(v for v in line if v is not None) == pytest.approx(2 + 1 / 30)


def test_curves_are_drawn_by_samples_and_time(page: Opened, folder: Path) -> None:
    page.tab.select_option("#curves select[aria-label^='What']", "samples")
    x, *lines = page.tab.evaluate(DATA, "train/loss")
    assert len(lines) == 6
    last = [max(at for at, v in zip(x, line, strict=True) if v is not None) for line in lines]
    assert last == pytest.approx([4 * 30] * 6, rel=0.02)
    page.tab.select_option("#curves select[aria-label^='What']", "time")
    x, *lines = page.tab.evaluate(DATA, "train/loss")
    for path, line in zip(sorted(folder.glob("run*")), lines, strict=True):
        run = tt.open(path)
        times = run.series("train/loss", "time")[1]
        spread = (times[-1] - times[0]) / 1e9
        drawn = [at for at, v in zip(x, line, strict=True) if v is not None]
        assert drawn[-1] - drawn[0] == pytest.approx(spread, abs=0.02 + (x[-1] - x[0]) * 0.02)


def save(page: Opened, kind: str, to: Path) -> Path:
    select = "#curves .chart:has(h3:text-is('train/loss')) select"
    with page.tab.expect_download() as started:
        page.tab.select_option(select, kind)
    started.value.save_as(to)
    assert started.value.suggested_filename == f"train_loss.{kind.lower()}"
    return to


def test_a_chart_is_saved_as_csv_svg_and_png(page: Opened, folder: Path, tmp_path: Path) -> None:
    with save(page, "CSV", tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for path in sorted(folder.glob("run*")):
        name = next(key for key in rows[0] if key.endswith(path.name))
        steps, values = tt.open(path).series("train/loss", "value")
        assert [int(row["step"]) for row in rows] == steps.tolist()
        assert [float(row[name]) for row in rows] == pytest.approx(list(values), rel=1e-6)
    svg = ElementTree.parse(save(page, "SVG", tmp_path / "a.svg")).getroot()
    names = "{http://www.w3.org/2000/svg}"
    assert len(svg.findall(f"{names}polyline")) == 6
    texts = [text.text or "" for text in svg.iter(f"{names}text")]
    assert "train/loss" in texts
    assert any("run5 <b>bold" in text for text in texts)
    png = save(page, "PNG", tmp_path / "a.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height > 500) == (1920, True)


def test_pinned_charts_stay_at_the_top_and_in_the_address(page: Opened) -> None:
    page.tab.click("#curves .chart:has(h3:text-is('late')) .pin")
    assert page.text("#pinned h3") == "late"
    assert page.tab.evaluate("byId('pinned') === document.querySelector('main > section')")
    page.tab.click("#nav a:has-text('About')")
    address = page.tab.url
    assert address.endswith("#pin=number%3Alate")
    page.tab.goto("about:blank")
    page.tab.goto(address)
    page.tab.wait_for_selector("html[data-ready=true]", state="attached")
    page.tab.wait_for_selector("#pinned .uplot")
    assert len(page.tab.evaluate(DATA, "late")) == 6
    page.tab.click("#pinned .pin")
    page.wait("byId('pinned').hidden && !location.hash")


def test_a_chart_of_a_site_is_pinned(chromium: Any, folder: Path) -> None:
    page = Opened(chromium, write_page(folder / "run1", out=folder / "site.html"))
    page.tab.evaluate("change({site: runs[0].byName.get('parameter/weight')})")
    page.tab.click("#site .pin")
    page.tab.wait_for_selector("#pinned .uplot")
    x, line = page.tab.evaluate(DATA, "parameter/weight: root mean square")
    steps, values = tt.open(folder / "run1").series("parameter/weight", "rms")
    assert dict(zip(x, line, strict=True)) == pytest.approx(
        dict(zip(steps.tolist(), values, strict=True)), rel=0.01
    )
    assert page.text("#site .pin") == "Unpin"
    page.tab.click("#pinned .pin")
    assert page.text("#site .pin") == "Pin"
    page.close()


def test_one_tensor_is_laid_over_that_of_the_others(page: Opened, folder: Path) -> None:
    page.tab.fill("#site input", "parameter/weight")
    page.tab.dispatch_event("#site input", "change")
    page.tab.wait_for_selector("#site .uplot")
    x, *lines = page.tab.evaluate(DATA, "parameter/weight: root mean square")
    steps, values = tt.open(folder / "run1").series("parameter/weight", "rms")
    drawn = {at: v for at, v in zip(x, lines[1], strict=True) if v is not None}
    assert drawn == pytest.approx(dict(zip(steps.tolist(), values, strict=True)), rel=0.01)


def test_notes_stand_on_the_curves_as_text(page: Opened) -> None:
    marks = page.tab.locator("#curves .chart:has(h3:text-is('train/loss')) .note-mark")
    titles = [marks.nth(i).get_attribute("title") for i in range(marks.count())]
    assert any(f"step 10: half way {HOSTILE}" in title for title in titles)
    page.tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert f"half way {HOSTILE}" in page.text("#about")
    assert page.tab.evaluate("window.hacked") is None


def test_notes_of_one_run_stand_on_its_curves(chromium: Any, folder: Path) -> None:
    page = Opened(chromium, write_page(folder / "run1", out=folder / "one.html"))
    title = page.tab.get_attribute("#curves .note-mark[title*='half way']", "title")
    assert title is not None
    assert title.splitlines()[-1] == f"step 10: half way {HOSTILE}"
    page.close()


def test_a_spike_of_one_step_is_drawn_however_long_the_run(chromium: Any, tmp_path: Path) -> None:
    for number in range(3):
        with tt.record(tmp_path / f"long{number}") as run:
            for step in range(9000):
                run.log("loss", 50.0 if step == 4321 and number == 1 else 1.0)
                run.step()
    page = Opened(chromium, write_page(*sorted(tmp_path.glob("long*")), out=tmp_path / "long.html"))
    x, *lines = page.tab.evaluate(DATA, "loss")
    assert len(x) < 2000
    assert [max(v for v in line if v == v and v is not None) for line in lines] == [1, 50, 1]
    page.close()


def test_up_to_twenty_runs_fit(folder: Path) -> None:
    done = tensortap("report", *[folder / "run0"] * 21, folder=folder)
    assert (done.returncode, "up to 20 runs" in done.stderr) == (2, True)


def test_growth_from_layer_to_layer_has_its_picture(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(3):
            for layer in range(8):
                run.tensor(f"activation/h.{layer}.mlp", np.full((4, 8), 2.0**layer * (step + 1)))
            run.step()
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert "h.0-7.mlp" in page.text("#growth")
    assert "3 → 384: 128 times" in page.text("#growth")
    page.tab.evaluate("change({step: 0})")
    assert "1 → 128: 128 times" in page.text("#growth")
    drawn = page.tab.evaluate("""() => {
        const canvas = document.querySelector('#growth canvas'), {width, height} = canvas;
        const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
        const rows = (from, to) => {
            let sum = 0, n = 0;
            for (let y = 0; y < height; y++)
                for (let x = from; x < to; x++)
                    if (data[4 * (y * width + x) + 3] > 128) { sum += y; n++; }
            return sum / n;
        };
        const half = width / 2;
        return [rows(0, half / 2), rows(half - 40, half + 40), rows(1.5 * half, width)];
    }""")
    left, middle, right = drawn
    assert left > middle > right  # it rises, and on a log scale evenly
    assert middle == pytest.approx((left + right) / 2, abs=6)
    page.tab.click("#growth canvas", position={"x": 250, "y": 20})
    page.wait("byId('site-name') && byId('site-name').textContent === 'activation/h.7.mlp'")
    page.close()


# ---- served


def test_a_page_of_many_runs_follows_them(chromium: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        with tt.record(tmp_path / name) as run:
            for step in range(5):
                run.log("loss", float(step))
                run.step()
    with tt.record(tmp_path / "c") as run, serve(tmp_path) as started:
        run.log("loss", 100.0)
        run.flush()
        page = Opened(chromium, f"{started.address}?of=a&with=b&with=c")
        assert {"1 live", "2 finished"} <= set(page.text("#status")[2:].split(" · ")[0].split(", "))
        for step in range(1, 12):
            run.step()
            run.log("loss", 100.0 + step)
        run.flush()
        page.wait(f"Math.max(...({DATA})('loss')[3].map(Number)) === 111")
        assert "nothing found" in page.text("#runs")
        page.close()


def test_the_list_is_sorted_filtered_and_many_are_compared(chromium: Any, folder: Path) -> None:
    with serve(folder) as started:
        listed = json.loads(started.ask("runs")[1])["list"]
        run = next(one for one in listed if one["run"] == "run2")
        assert run["loss"] == pytest.approx(2 + 1 / 30)
        assert run["values"]["optimizer/lr"] == pytest.approx(0.03)
        assert run["values"]["late"] == 29
        page = Opened(chromium, started.address)
        names = "Array.from(document.querySelectorAll('#runs tbody a'), (a) => a.textContent)"
        page.tab.click("#runs th button:text-is('loss')")
        assert page.tab.evaluate(names)[:2] == ["run0", "run1"]
        page.tab.click("#runs th button:has-text('loss')")
        assert page.tab.evaluate(names)[-1] == "run0"
        for text, wanted in (
            ("lr<0.025", {"run0", "run1"}),
            ("lr<0.025 late>=0", {"run1"}),
            ("run~*b*", {"run5 <b>bold"}),
            ("loss>=4 un3", set()),
            ("weight_decay=0 batch=4 lr=0.04", {"run3"}),
        ):
            page.tab.fill("#runs input >> nth=0", text)
            assert set(page.tab.evaluate(names)) == wanted, text
        page.tab.fill("#runs input >> nth=0", "nonsense<3")
        assert "no run has nonsense" in page.text("#runs")
        page.tab.fill("#runs input >> nth=0", "")
        page.tab.fill("#runs input >> nth=1", "momentum")
        assert "momentum" in page.tab.locator("#runs th").all_inner_texts()
        for name in ("run1", "run2", "run5"):
            page.tab.check(f"#runs tr:has-text('{name}') input")
        page.tab.click("text=Compare 3 runs")
        page.tab.wait_for_selector("html[data-ready=true]", state="attached")
        assert len(page.tab.evaluate(DATA, "train/loss")) == 4
        page.close()
