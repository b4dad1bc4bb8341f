"""The page that `tensortap report` writes, in a real browser."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import tensortap
from paged import Opened, browser, write_page

import tensortap as tt

SITES = [f"activation/layers.{i}.{part}" for i in range(4) for part in ("attn", "mlp")]
HOSTILE = [
    "activation/<script>window.hacked = 1</script>",
    "activation/\"quoted\" 'name' & <b>bold</b>",
    "activation/</script><img src=x onerror=alert(1)>",
    "activation/\x1b[31mred\x1b[0m",
    "activation/\u202eright to left",
    "activation/" + "long" * 1000,
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def record(path: Path, steps: int = 40, bad: int | None = None, shift: float = 0) -> Path:
    numbers = np.random.default_rng(0)
    with tt.record(path) as run:
        for step in range(steps):
            run.log({"train/loss": 2 / (step + 1), "lr": 0.1})
            for site in SITES:
                value = numbers.normal(size=(4, 8)).astype(np.float32) * (1 + shift * (step >= 10))
                if step == bad and site == SITES[3]:
                    value[0, 0] = math.nan
                run.tensor(site, value)
            run.step()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page")
    record(made / "good")
    record(made / "bad", bad=23)
    record(made / "shifted", shift=0.5)
    return made


@pytest.fixture
def bad(chromium: Any, folder: Path) -> Iterator[Opened]:
    page = Opened(chromium, write_page(folder / "bad", out=folder / "bad.html"))
    yield page
    page.close()


def test_the_verdict_names_the_first_nan_and_leads_to_it(bad: Opened) -> None:
    said = bad.text("#findings li:first-child")
    assert f"{SITES[3]}: the first NaN at step 23" in said
    bad.tab.click("#findings li:first-child button:text('Open this site')")
    assert bad.text("#site-name") == SITES[3]
    bad.tab.wait_for_function("byId('site').getBoundingClientRect().top < innerHeight / 3")
    assert bad.text("#step-value") == "23"
    assert "NaN" in bad.text("#site-at")


def test_values_equal_those_that_open_reads(bad: Opened, folder: Path) -> None:
    run = tt.open(folder / "bad")
    for site, step in [(SITES[0], 0), (SITES[2], 17), (SITES[5], 39), ("train/loss", 7)]:
        names = ["value"] if site == "train/loss" else ["min", "max", "mean", "std", "rms"]
        bad.tab.evaluate(
            "([name, step]) => change({ site: runs[0].byName.get(name), step })", [site, step]
        )
        bad.tab.wait_for_function("(name) => byId('site-name').textContent === name", arg=site)
        bad.tab.wait_for_selector("#site-at")
        cells = bad.tab.eval_on_selector_all("#site-at td", "all => all.map(td => td.textContent)")
        for name, cell in zip(names, cells, strict=False):
            steps, values = run.series(site, name)
            assert float(cell) == pytest.approx(values[list(steps).index(step)], rel=1e-6)
        latest = bad.tab.eval_on_selector_all(
            "#site-latest td", "all => all.map(td => td.textContent)"
        )
        for name, cell in zip(names, latest, strict=False):
            assert float(cell) == pytest.approx(run.series(site, name)[1][-1], rel=1e-6)


def test_the_map_is_used_by_keyboard_alone(bad: Opened) -> None:
    bad.tab.focus("#map .scroll")
    assert bad.text("#map .readout").startswith("layers.0-3.attn \u00d74, step 23")
    bad.tab.keyboard.press("ArrowDown")
    assert "mlp \u00d74, step 23" in bad.text("#map .readout")
    assert "holds NaN" in bad.text("#map .readout")
    bad.tab.keyboard.press("ArrowRight")
    assert "step 24" in bad.text("#map .readout")
    bad.tab.keyboard.press(" ")
    bad.tab.keyboard.press("ArrowDown")
    bad.tab.wait_for_function(
        "byId('map').querySelector('.readout').textContent.startsWith('layers.0.mlp')"
    )
    bad.tab.keyboard.press("Enter")
    bad.tab.wait_for_function("byId('site-name').textContent === 'activation/layers.0.mlp'")


def test_a_bad_cell_is_seen_in_the_map(bad: Opened) -> None:
    seen = bad.tab.evaluate(
        """() => {
            const canvas = byId('map').querySelector('canvas'), ctx = canvas.getContext('2d');
            const { data } = ctx.getImageData(0, 0, canvas.width, canvas.height);
            let n = 0;
            for (let i = 0; i < data.length; i += 4)
                n += data[i] === 227 && data[i + 1] === 0 && data[i + 2] === 111;
            return n;
        }"""
    )
    assert seen > 20
    values = "[Float32Array.from({length: 500}, (_, i) => i === 7 ? 1e29 : 1 + i / 500)]"
    low, _, high = bad.tab.evaluate(f"scaleOf({values}, 'log').texts")
    assert (low, high) == ("1", "\u2265 2")  # one huge value does not take all colours


def test_scrubbing_and_zooming_move_all_views(bad: Opened) -> None:
    bad.tab.evaluate(
        "() => { const s = byId('step'); s.value = '5'; s.dispatchEvent(new Event('input')); }"
    )
    assert bad.text("#step-value") == "5"
    assert "step 5" in bad.text("#tree > p")
    bad.tab.evaluate("() => change({ range: [10, 20] })")
    assert bad.tab.is_visible("#unzoom")
    bad.tab.click("#unzoom")
    assert not bad.tab.is_visible("#unzoom")


def test_rows_of_the_tree_show_the_step_where_they_are_in_sight(bad: Opened, folder: Path) -> None:
    run, label = tt.open(folder / "bad"), SITES[0].rpartition(".")[2]
    alike = [run.series(site, "rms")[1] for site in SITES if site.endswith(label)]
    row = bad.tab.locator("#tree li", has_text=label).last  # one for all of them
    for step in (7, 31):
        bad.tab.evaluate("(step) => change({ step })", step)
        row.scroll_into_view_if_needed()
        bad.tab.wait_for_function("(row) => row.lastChild.textContent", arg=row.element_handle())
        shown = float(row.locator(".n").last.text_content() or "nan")
        assert shown == pytest.approx(max(values[step] for values in alike), rel=1e-2)
    assert bad.tab.pdf().startswith(b"%PDF")  # on paper all rows are in sight
    texts = bad.tab.locator("#tree li:has(button) .n:last-child").all_text_contents()
    assert texts
    assert all(texts)


def test_every_statistic_is_shown_in_the_map_and_in_the_tree(bad: Opened) -> None:
    bad.tab.evaluate("byId('tree').scrollIntoView()")
    at = "#tree li:has(button) .n:last-child"
    choice = bad.tab.locator("#map label", has_text="Colour").locator("select")
    for name, text in [
        ("absmax", "largest"),
        ("mean", "mean"),
        ("std", "standard"),
        ("rms", "rms"),
    ]:
        choice.select_option(name)
        bad.wait(f"byId('tree').textContent.includes('Coloured by {text}')")
        assert re.search(rf"{text}[a-z ]* -?\d", bad.text("#map .readout")), name
        bad.wait(f"document.querySelector('{at}').textContent")
        assert all(bad.tab.locator(at).all_text_contents()), name


def test_two_runs_show_where_they_diverge(chromium: Any, folder: Path) -> None:
    out = write_page(folder / "good", folder / "shifted", out=folder / "two.html")
    page = Opened(chromium, out)
    assert "diverge at step 10" in page.text("#findings")
    assert "8 differs" in page.text("#compare")
    assert page.tab.locator("#compare .uplot").count() == 2
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(chromium: Any, folder: Path, scheme: str) -> None:
    out = write_page(folder / "bad", out=folder / f"{scheme}.html")
    page = Opened(chromium, out, viewport={"width": 380, "height": 720}, color_scheme=scheme)
    assert page.tab.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 380
    page.close()


def test_hostile_names_are_text(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(2):
            for site in HOSTILE:
                run.tensor(site, np.full(4, math.nan if step else 1.0, np.float32))
            run.log("</script><script>window.hacked = 2</script>", 1.0)
            run.note("<img src=x onerror=alert(2)>" + "long" * 2500)
            run.step()
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert page.tab.evaluate("window.hacked === undefined")
    assert page.tab.locator("main img").count() == 0
    shown = page.tab.evaluate("document.body.innerText")
    assert "<script>window.hacked = 1</script>" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    page.close()


def test_pictures_of_the_run_are_images_in_which_nothing_runs(
    chromium: Any, folder: Path, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(folder / "good", tmp_path / "run")
    charts = tmp_path / "run" / "charts"
    charts.mkdir()
    (charts / "flow.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='10' onload='hacked = 2'>"
        "<script>parent.hacked = 1</script></svg>"
    )
    (charts / "notes.txt").write_text("swordfish")
    (charts / "link.svg").symlink_to("/etc/passwd")
    (charts / "huge.svg").write_bytes(b" " * 600_000)
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert page.tab.locator("#pictures figcaption").all_inner_texts() == [
        "flow.svg",
        "huge.svg",
        "link.svg",
    ]
    assert page.tab.evaluate("document.querySelector('#pictures img').naturalWidth") == 20
    assert page.tab.locator("#pictures img").count() == 1
    assert page.tab.evaluate("window.hacked === undefined")
    page.close()


def test_runs_with_little_in_them_have_a_page(chromium: Any, tmp_path: Path) -> None:
    tt.record(tmp_path / "empty").close()
    with tt.record(tmp_path / "one") as run:
        run.tensor("x", np.ones(3, np.float32))
    with tt.record(tmp_path / "numbers") as run:
        for step in range(5):
            run.log("loss", step)
            run.step()
    with tt.record(tmp_path / "nan") as run:
        for _ in range(5):
            run.tensor("activation/a", np.full(3, math.nan, np.float32))
            run.log("loss", math.nan)
            run.step()
    said = {}
    for name in ("empty", "one", "numbers", "nan"):
        page = Opened(chromium, write_page(tmp_path / name, out=tmp_path / f"{name}.html"))
        said[name] = page.text("#findings")
        page.close()
    assert "nothing has been recorded" in said["empty"]
    assert "finite" in said["one"]
    assert "finite" in said["numbers"]
    assert "NaN" in said["nan"]


def test_a_damaged_run_has_a_page_of_what_can_be_read(chromium: Any, tmp_path: Path) -> None:
    record(tmp_path / "run", steps=300)
    file = tmp_path / "run" / "rank0.tap"
    data = bytearray(file.read_bytes())
    for at in range(len(data) // 4, len(data) // 2, 997):
        data[at] ^= 0x55
    file.write_bytes(data)
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert page.tab.locator("#findings li").count() > 0
    page.close()


def test_a_spike_of_one_step_is_in_the_page(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(20000):
            run.log("loss", 1000.0 if step == 12345 else 1.0)
            run.step()
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    most = page.tab.evaluate("Math.max(...runs[0].numbers.columns.high)")
    assert most == 1000
    page.tab.evaluate("change({step: 12345})")  # the slider names all steps of its bin
    first, last = (int(x.replace("\u202f", "")) for x in page.text("#step-value").split(" to "))
    assert first < last
    assert first <= 12345 <= last
    page.close()


def test_the_slider_at_a_finding_shows_what_the_finding_says(chromium: Any, tmp_path: Path) -> None:
    """Bins of numbers and of tensors are of different widths."""
    with tt.record(tmp_path / "run") as run:
        for step in range(30_000):
            if step % 10 == 0:
                run.log("loss", 1.0)
            if step % 7 == 0:
                run.tensor("activation/a", np.full(4, np.nan if step >= 21_777 else 1.0))
            run.step()
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    at = page.tab.evaluate("facts.answers[0].first_step")
    assert at == 21_777
    is_bad = page.tab.evaluate(
        """(step) => {
          const slider = byId("step"), tensors = runs[0].tensors;
          slider.value = String(runs[0].numbers.binOf(step));
          slider.dispatchEvent(new Event("input"));
          return tensors.badOf(tensors.series[0])[tensors.binOf(view.step)];
        }""",
        at,
    )
    assert is_bad
    page.close()


def test_secrets_and_private_facts_stay_out(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import tensortap as tt\nwith tt.record('run') as run:\n    run.log('loss', 1.0)\n"
    )
    import subprocess
    import sys

    hostile = "</script><script>hacked()</script>"
    command = [sys.executable, script, "--api-key", "swordfish", "--name", hostile]
    subprocess.run(command, cwd=tmp_path, check=True)
    page = write_page(tmp_path / "run", out=tmp_path / "run.html").read_text()
    assert "train.py" in page
    assert "swordfish" not in page
    assert "hacked()" in page
    assert hostile not in page
    assert "<script>hacked" not in page
    private = write_page(tmp_path / "run", out=tmp_path / "p.html", TENSORTAP_PRIVATE="1")
    assert "train.py" not in private.read_text()


def test_the_command_names_the_page_after_the_run(folder: Path) -> None:
    done = tensortap("report", "good", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("good.html  ")
    assert (folder / "good.html").stat().st_size < 1_000_000


@pytest.mark.heavy
def test_eight_ranks_show_the_one_that_differs(chromium: Any, tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    script = tmp_path / "rank.py"
    script.write_text(
        "import os, sys\nimport tensortap as tt\nrank = int(os.environ['RANK'])\n"
        "with tt.record('run') as run:\n    for step in range(30):\n"
        "        run.log('loss', 1 / (step + 1) + (rank == 5 and step > 15))\n        run.step()\n"
    )
    for rank in range(8):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "8"}
        subprocess.run([sys.executable, script], cwd=tmp_path, env=env, check=True)
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert "Rank 5 differs most" in page.text("#ranks")
    assert page.tab.locator("#ranks canvas").count() == 2
    page.close()


@pytest.mark.heavy
def test_fifty_sites_show_what_open_reads(chromium: Any, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1)
    names = [f"activation/layers.{i}.{part}" for i in range(40) for part in ("a", "b", "c")]
    with tt.record(tmp_path / "run") as run:
        for _ in range(60):
            for name in names:
                scale = 10.0 ** numbers.integers(-6, 6)
                run.tensor(name, (numbers.normal(size=64) * scale).astype(np.float32))
            run.step()
    read = tt.open(tmp_path / "run")
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    for name in numbers.choice(names, 50, replace=False):
        step = int(numbers.integers(60))
        shown = page.tab.evaluate(
            """async ([name, step]) => {
                const { bins, series } = runs[0].seriesOf(runs[0].byName.get(name));
                await bins.load(['min', 'max', 'mean', 'std', 'rms', 'zeros']);
                const at = (column) => bins.values(series, column)[bins.binOf(step)];
                return [at('min'), at('max'), at('mean'), at('std'), at('rms')];
            }""",
            [str(name), step],
        )
        for field, value in zip(("min", "max", "mean", "std", "rms"), shown, strict=True):
            assert value == pytest.approx(read.series(str(name), field)[1][step], rel=2e-5)
    page.close()


@pytest.mark.heavy
def test_a_spike_in_a_million_steps_is_drawn(chromium: Any, tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(1_000_000):
            run.log("loss", 1000.0 if step == 612_345 else 1.0)
            run.step()
    page = Opened(chromium, write_page(tmp_path / "run", out=tmp_path / "run.html"))
    assert page.tab.evaluate("Math.max(...runs[0].numbers.columns.high)") == 1000
    assert page.tab.evaluate("[...document.querySelectorAll('#curves .uplot')].length") == 1
    coloured = page.tab.evaluate(
        """() => { /* columns of the chart's upper half that hold a line */
            const canvas = document.querySelector('#curves canvas'), columns = new Set();
            const ctx = canvas.getContext('2d'), { width, height } = canvas;
            const { data } = ctx.getImageData(0, 0, width, Math.floor(height / 2));
            for (let i = 0; i < data.length; i += 4) {
                const [r, g, b, a] = data.slice(i, i + 4);
                if (a && Math.max(r, g, b) - Math.min(r, g, b) > 40) columns.add((i / 4) % width);
            }
            return [...columns].map((x) => x / width).filter((x) => x > 0.2); /* not labels */
        }"""
    )
    assert coloured, "the spike is not drawn"
    assert max(coloured) - min(coloured) < 0.05
    assert 0.5 < min(coloured) < 0.8  # at step 612 345 of a million
    page.close()


@pytest.mark.heavy
def test_it_prints_and_zooms(chromium: Any, folder: Path) -> None:
    out = write_page(folder / "bad", out=folder / "print.html")
    page = Opened(chromium, out, viewport={"width": 640, "height": 450}, device_scale_factor=2)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 640
    assert page.tab.pdf().startswith(b"%PDF")
    page.close()
