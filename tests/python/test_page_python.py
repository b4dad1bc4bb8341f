"""`run.report()`, `run.plot()` and what a notebook shows of a run."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from charts import capture
from commands import tensortap

import tensortap as tt


@pytest.fixture
def run(tmp_path: Path) -> tt.Run:
    with tt.record(tmp_path / "run") as recording:
        for step in range(30):
            recording.log({"train/loss": math.nan if step == 20 else 1 / (step + 1), "a<b": 1})
            recording.tensor("activation/fc", np.full(4, float(step), np.float32))
            recording.step()
    return tt.open(tmp_path / "run")


def test_report_writes_the_same_page_as_the_command(run: tt.Run, tmp_path: Path) -> None:
    page = run.report(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "train/loss: the first NaN at step 20" in text


def test_report_names_the_page_after_the_run(
    run: tt.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run.report() == Path("run.html")
    assert Path("run.html").exists()


def test_a_notebook_shows_the_verdict_and_the_curves(run: tt.Run) -> None:
    shown = run._repr_html_()
    assert "train/loss: the first NaN at step 20" in shown
    assert shown.count("<svg") == 2
    assert "a&lt;b" in shown
    assert "a<b" not in shown


def test_a_notebook_shows_the_curve_of_a_loss_that_was_not_logged(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(9):
            run.tensor("loss/train.py:34", np.array(1 / (step + 1), np.float32))
            run.tensor("activation/fc", np.ones(3, np.float32))
            run.step()
    opened = tt.open(tmp_path / "run")
    assert opened._repr_html_().count("<polyline") == 1
    assert list(opened.series("loss")[1]) == list(opened.series("loss/train.py:34")[1])
    with tt.record(tmp_path / "two") as run:
        for name in ("loss/train.py:34", "loss/train.py:38"):
            run.tensor(name, np.array(0.5, np.float32))
    with pytest.raises(KeyError, match=r"did you mean 'loss/train.py:34' or 'loss/train.py:38'"):
        tt.open(tmp_path / "two").series("loss")


def test_plot_says_how_many_sites_it_draws(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for step in range(3):
            for i in range(12):
                run.log(f"x{i}", step)
            run.step()
    opened = tt.open(tmp_path / "run")
    assert "x*: rms (the first 8 of 12 sites)" in opened.plot("x*").svg
    assert "the first" not in opened.plot("x1*").svg


def test_the_deviation_of_one_element_is_left_out() -> None:
    assert repr(tt.stats(np.ones(1, np.float32))) == "Stats(float32[1], min=1, max=1, mean=1)"
    assert "std=0" in repr(tt.stats(np.ones(2, np.float32)))


def test_plot_draws_every_value_and_marks_what_is_not_finite(run: tt.Run, tmp_path: Path) -> None:
    chart = run.plot("train/loss")
    drawing = ElementTree.fromstring(chart.svg)
    line = drawing.find("{*}polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) == 29
    assert len(drawing.findall("{*}rect")) == 1
    chart.save(tmp_path / "loss.svg")
    assert (tmp_path / "loss.svg").read_text() == chart.svg
    mean = ElementTree.fromstring(run.plot("activation/*", "mean").svg)
    assert [label.text for label in mean.findall("{*}text")][1:3] == ["29", "0"]


def test_plot_refuses_what_is_not_there(run: tt.Run) -> None:
    with pytest.raises(KeyError, match=r"no site that matches 'nothing\*' has the field 'rms'"):
        run.plot("nothing*")


def test_a_spike_stays_in_a_long_plot(tmp_path: Path) -> None:
    with tt.record(tmp_path / "long") as recording:
        for step in range(5000):
            recording.log("x", 9.0 if step == 3210 else 1.0)
            recording.step()
    drawing = ElementTree.fromstring(tt.open(tmp_path / "long").plot("x").svg)
    assert [label.text for label in drawing.findall("{*}text")][1:3] == ["9", "1"]


@pytest.mark.usefixtures("flow_alone")
def test_charts_that_are_drawn_while_a_run_is_open_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pygraphviz")
    from tensortap.spy import build_tree, render_graph

    monkeypatch.chdir(tmp_path)

    def draw() -> None:
        capture(tmp_path, "import torch\nx = torch.ones(3)\nx = x * 2\n")
        render_graph(build_tree(["fc", "fc.relu"])).render("calls", format="svg")

    draw()
    assert not list(tmp_path.glob("**/charts"))  # nothing without a run
    with tt.record(tmp_path / "run"):
        draw()
    charts = sorted((tmp_path / "run" / "charts").iterdir())
    assert len(charts) == 2
    assert charts[0].name == "calls.svg"
    assert all(b"<svg" in chart.read_bytes() for chart in charts)
    page = tt.open(tmp_path / "run").report(tmp_path / "page.html").read_text()
    assert 'data-name="0/charts"' in page
    charts[0].unlink()
    charts[0].symlink_to(tmp_path / "mine.svg")  # is not written through
    with tt.record(tmp_path / "run", resume=True), pytest.warns(RuntimeWarning, match="calls.svg"):
        draw()
    assert not (tmp_path / "mine.svg").exists()
    charts[0].unlink()
    assert tensortap("rm", "--yes", "run", folder=tmp_path).returncode == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_a_real_notebook_shows_a_run_a_plot_and_writes_the_page(
    run: tt.Run, tmp_path: Path
) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = ["import tensortap as tt\nrun = tt.open('run')\nrun", "run.plot('train/*')"]
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in [*cells, "print(run.report())"]]
    )
    spec = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=spec).execute()
    shown, plot, page = (cell["outputs"][0] for cell in book["cells"])
    assert "train/loss: the first NaN at step 20" in shown["data"]["text/html"]
    assert "<svg" in "".join(map(str, plot["data"].values()))
    assert page["text"].strip() == "run.html"
    assert (tmp_path / "run.html").exists()
