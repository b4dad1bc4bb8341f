"""What goes into a run from Python, and what its options do."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import answer, tensortap
from programs import forked

import tensortap as tt
from tensortap.runs.program import masked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_run_holds_every_step_of_a_tensor(folder: Path) -> None:
    with tt.record(folder) as run:
        for step in range(3):
            run.tensor("w", np.full(3, float(step)))
            run.step()
    assert [s.max for s in tt.open(folder).stats("w")] == [0.0, 1.0, 2.0]


def test_numbers_come_back_as_they_went_in(folder: Path) -> None:
    values = [0.1, 1, True, np.float32(2.5), np.int64(7), -0.0, float("inf")]
    with tt.record(folder) as run:
        for value in values:
            run.log("x", value)
            run.step()
    steps, got = tt.open(folder).series("x")
    np.testing.assert_array_equal(steps, range(len(values)))
    np.testing.assert_array_equal(got, np.array(values, float))


def test_a_dict_logs_each_of_its_numbers(folder: Path) -> None:
    with tt.record(folder) as run:
        run.log({"loss": 1.5, "accuracy": 0.25})
    run_read = tt.open(folder)
    assert run_read.names() == ["loss", "accuracy"]
    assert run_read.series("accuracy")[1].tolist() == [0.25]


def test_a_loss_that_requires_grad_is_logged_without_a_warning(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tt.record(folder) as run:
            run.log("loss", torch.tensor(0.75, requires_grad=True))
            run.log("bf16", torch.tensor([2.5], dtype=torch.bfloat16))
    assert tt.open(folder).series("loss")[1].tolist() == [0.75]
    assert tt.open(folder).series("bf16")[1].tolist() == [2.5]


@pytest.mark.parametrize("value", ["1.0", None, [1.0], np.zeros(3), 1j])
def test_what_is_no_number_is_refused_by_name(folder: Path, value: object) -> None:
    with tt.record(folder) as run, pytest.raises(TypeError, match="'loss' must be a number"):
        run.log("loss", value)


@pytest.mark.parametrize("joined", ["|", ",", ", ", " | "])
def test_every_product_can_be_kept_and_read_back(folder: Path, joined: str) -> None:
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    with tt.record(folder) as run:
        run.tensor("x", x, keep=joined.join(["stats", "hist", "digest", "sample", "value"]))
    run_read = tt.open(folder)
    assert run_read.stats("x", 0) == tt.stats(x)
    assert run_read.digest("x", 0) == tt.digest(x)
    assert sum(count for *_, count in run_read.histogram("x", 0)) == x.size
    np.testing.assert_array_equal(run_read.sample("x", 0).slices[0].data, x)
    np.testing.assert_array_equal(run_read.tensor("x", 0, as_numpy=True), x)


def test_a_tensor_given_twice_in_a_step_has_two_calls(folder: Path) -> None:
    with tt.record(folder, keep="value") as run:
        for step in range(2):
            run.tensor("x", np.array([step]))
            run.tensor("x", np.array([step + 10]))
            run.step()
    run_read = tt.open(folder)
    assert run_read.tensor("x", 1, call=0, as_numpy=True).tolist() == [1]
    assert run_read.tensor("x", 1, call=1, as_numpy=True).tolist() == [11]


def test_every_and_globs_decide_about_tensors_and_never_about_numbers(folder: Path) -> None:
    with tt.record(folder, every=3, only="a*,b*", exclude="*.bias") as run:
        for step in range(7):
            for name in ("a", "b.weight", "b.bias", "c"):
                run.tensor(name, np.array([step]))
            run.log("c.loss", step)
            run.step()
    run_read = tt.open(folder)
    assert run_read.series("a", "max")[0].tolist() == [0, 3, 6]
    assert run_read.series("b.weight", "max")[0].tolist() == [0, 3, 6]
    assert run_read.series("c.loss")[0].tolist() == list(range(7))
    for name in ("b.bias", "c"):
        assert name not in run_read or not len(run_read.series(name, "max")[0])


@pytest.mark.parametrize(
    ("only", "hint"),
    [
        ("activaton/fc", "did you mean 'activation/fc'?"),
        ("fc*", "did you mean '*fc*', which matches 'activation/fc'?"),
        ("activation/*,zzz", "only='zzz' matches none of the 2 names seen in the first step"),
    ],
)
def test_a_glob_that_matches_nothing_is_warned_about(folder: Path, only: str, hint: str) -> None:
    run = tt.record(folder, only=only)
    run.tensor("activation/fc", np.ones(2))
    run.log("loss", 1.0)
    with pytest.warns(RuntimeWarning, match=re.escape(hint)) as caught:
        run.close()
    assert len(caught) == 1


def test_a_wrong_glob_is_warned_about_after_the_first_step(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train() -> None:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    with tt.record(folder, model=model, only="gradent/*"):
        train()
        with pytest.warns(
            RuntimeWarning, match="only='gradent/.*did you mean 'gradient/[*]'"
        ) as caught:
            train()
        train()
    assert caught[0].filename == __file__


def test_only_leaves_out_the_numbers_of_optimizers_too(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with tt.record(folder, model=model, only="activation/*"):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert tt.open(folder).names() == ["activation/(root)"]


@pytest.mark.filterwarnings("error")
def test_a_glob_that_matches_is_not_warned_about(folder: Path) -> None:
    with tt.record(folder, only="x*,loss") as run:
        run.tensor("x1", np.ones(2))
        run.tensor("y1", np.ones(2))
        run.log("loss", 1.0)
    with tt.record(folder.with_name("empty"), only="z"):
        pass


def test_options_of_watching_are_options_of_recording(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with tt.record(folder, model=model, inputs=True, grads="all"):
        model(torch.ones(1, 2)).sum().backward()
    assert {"input/0", "activation_gradient/0"} <= set(tt.open(folder).names("*"))
    run = tt.record(folder.with_name("other"), model=model, on_nonfinite="raise")
    with pytest.raises(tt.NonFiniteError), run:
        model(torch.full((1, 2), torch.nan))
    for option in ({"inputs": True}, {"grads": None}, {"on_nonfinite": "warn"}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} needs model"):
            tt.record(folder.with_name("none"), **option)


def test_an_existing_run_is_an_error_that_says_what_to_do(folder: Path) -> None:
    tt.record(folder).close()
    with pytest.raises(FileExistsError, match="resume=True"):
        tt.record(folder)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_is_never_written_through_a_link(folder: Path, resume: bool) -> None:
    folder.mkdir()
    (folder / "rank0.tap").symlink_to("elsewhere")
    with pytest.raises((OSError, ValueError), match=r"rank0\.tap is"):
        tt.record(folder, resume=resume)
    assert not (folder / "elsewhere").exists()


def test_resume_goes_on_at_the_next_step(folder: Path) -> None:
    for _ in range(2):
        with tt.record(folder, resume=True) as run:
            for _ in range(3):
                run.log("x", run.current_step)
                run.step()
    steps, values = tt.open(folder).series("x")
    assert steps.tolist() == values.tolist() == list(range(6))


def test_without_a_path_each_run_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with tt.record() as first, tt.record() as second:
        assert first.path != second.path
        assert first.path.parent == second.path.parent == Path("runs")
        assert (first.path / "rank0.tap").exists()


def test_the_innermost_open_run_is_the_one_watched_into(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    with tt.record(tmp_path / "outer"):
        with tt.record(tmp_path / "inner"):
            tt.watch(model)
            model(torch.ones(1, 2))
        tt.watch(model)
        model(torch.ones(3, 2))
    assert [s.shape for s in tt.open(tmp_path / "inner").stats("activation/(root)")] == [(1, 2)]
    assert [s.shape for s in tt.open(tmp_path / "outer").stats("activation/(root)")] == [(3, 2)]


def test_watching_without_a_run_shows_the_remedy() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match=r"with tt\.record"):
        tt.watch(torch.nn.Linear(2, 2))


def test_model_and_optimizer_are_watched(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    norms = []
    with tt.record(folder, model=model, optimizer=optimizer) as run:
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(2, 3)).square().mean()
            loss.backward()
            norms.append(float(model.weight.grad.norm()))
            optimizer.step()
            run.log("loss", loss)
    run_read = tt.open(folder)
    assert run_read.steps.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(run_read.series("gradient/weight", "l2")[1], norms, rtol=1e-5)
    assert run_read.series("loss")[0].tolist() == [0, 1, 2, 3]
    assert "_compiled_call_impl" not in model.__dict__


def test_the_run_says_where_it_comes_from(folder: Path) -> None:
    tt.record(folder).close()
    info = tt.open(folder).info
    assert info["argv"] == sys.argv
    assert info["pid"] == os.getpid()
    assert info["rank"] == 0
    assert info["world_size"] == 1
    assert info["python"] == sys.version.split()[0]
    assert {"host", "start", "tensortap", "numpy"} <= info.keys()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")
def test_the_commit_is_the_one_that_git_names(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    (tmp_path / "train.py").write_text("import tensortap as tt; tt.record('run').close()")
    said = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    for packs in (False, True):
        if packs:
            subprocess.run([*git, "pack-refs", "--all"], check=True)
            (tmp_path / "run" / "rank0.tap").unlink()
        subprocess.run([sys.executable, "train.py"], check=True, cwd=tmp_path)
        assert tt.open(tmp_path / "run").info["commit"] == said.stdout.strip()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("--password x", "--password ***"),
        ("--db-passwd-file=x", "--db-passwd-file=***"),
        ("--client_secret x y", "--client_secret *** y"),
        ("--apiKey x=", "--apiKey ***"),
        ("--use-auth --lr 1", "--use-auth --lr 1"),
        ("--tokenizer x --max-tokens=9 --key-dim 8", "--tokenizer x --max-tokens=9 --key-dim 8"),
        ("key x", "key x"),
        ("--db-pass x --pw=y --bypass 3", "--db-pass *** --pw=*** --bypass 3"),
        ("--openai-api-key-2 x", "--openai-api-key-2 ***"),
        ("postgres://me:s3cret@host/db git@host:a", "postgres://me:***@host/db git@host:a"),
        ("https://host/?token=s3cret&lr=1", "https://host/?token=***&lr=1"),
        ("hf_AbCdEf123 sk-proj-Ab12cd34", "hf_*** sk-***"),
        ("ghp_AbCdEf123 AKIAIOSFODNN7EXAMPLE", "ghp_*** AKIA***"),
        ("hf_model sk-learn-model", "hf_model sk-learn-model"),
        ("--set={'wandb.api_key':'s3cret','lr':1}", "--set={'wandb.api_key':'***','lr':1}"),
        ("Authorization:Basic", "Authorization:***"),
    ],
)
def test_values_of_options_named_like_secrets_are_masked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str, kept: str
) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", *given.split()])
    with tt.record(folder):
        pass
    assert tt.open(folder).info["argv"] == ["train.py", *kept.split()]


def test_a_header_keeps_its_name_and_loses_its_secret() -> None:
    given = ["-H", "Authorization: Bearer abc.def", "-H", "authorization: Basic abc", "bearer x y"]
    kept = ["-H", "Authorization: Bearer ***", "-H", "authorization: ***", "bearer *** y"]
    assert masked(given) == kept


def test_private_runs_tell_neither_host_nor_arguments_nor_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORTAP_PRIVATE", "1")
    tt.record(folder).close()
    assert not {"host", "argv", "commit", "cwd"} & tt.open(folder).info.keys()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"every": 0}, ValueError, "every must be .* not 0"),
        ({"every": 1.5}, TypeError, r"every must be .* not 1\.5"),
        ({"keep": "mean"}, ValueError, "keep must be .*'stats'.* not 'mean'"),
        ({"keep": "stats,mean|hist"}, ValueError, "keep must be .*'stats'.* not 'mean'"),
        ({"keep": "stats,"}, ValueError, "keep must be .*'stats'.* not ''"),
        ({"keep": 3}, TypeError, "keep must be .* not 3"),
        ({"only": None}, TypeError, "only must be .* not None"),
        ({"exclude": 1}, TypeError, "exclude must be .* not 1"),
        ({"budget": 5}, ValueError, "budget must be .* not 5"),
        ({"budget": "2%"}, TypeError, "budget must be .* not '2%'"),
        ({"overflow": "block"}, ValueError, "overflow must be 'wait' or 'drop', not 'block'"),
        ({"max_bytes": -1}, ValueError, "max_bytes must be .* not -1"),
        ({"optimizer": object()}, ValueError, "optimizer needs model"),
    ],
)
def test_wrong_options_are_named_with_what_is_accepted(
    folder: Path, options: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        tt.record(folder, **options)  # type: ignore[arg-type]
    assert not folder.exists()


def test_a_tensor_is_refused_what_a_run_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="keep must be") as of_run:
        tt.record(folder, keep="stats,mean")
    with tt.record(folder) as run, pytest.raises(ValueError, match="keep must be") as of_tensor:
        run.tensor("x", np.zeros(3), keep="stats,mean")
    assert str(of_run.value) == str(of_tensor.value)


def test_a_path_below_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        tt.record(tmp_path / "file" / "run")
    with pytest.raises(OSError, match="is a file"):
        tt.record(tmp_path / "file")


def test_notes_keep_text_and_step(folder: Path) -> None:
    with tt.record(folder) as run:
        run.step()
        run.note("größer ✓")
    (note,) = tt.open(folder).notes
    assert (note.step, note.text, note.rank) == (1, "größer ✓", 0)
    assert abs(note.time - time.time()) < 60


def test_a_closed_run_refuses_more_and_closing_twice_is_fine(folder: Path) -> None:
    run = tt.record(folder)
    run.close()
    run.close()
    for call in (lambda: run.log("x", 1), lambda: run.tensor("x", np.ones(1)), run.step):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_an_exception_is_noted_and_goes_through(folder: Path) -> None:
    def work() -> None:
        with tt.record(folder) as run:
            run.log("x", 1)
            raise ZeroDivisionError("bad luck")

    with pytest.raises(ZeroDivisionError):
        work()
    run_read = tt.open(folder)
    assert run_read.state == "stopped"
    assert run_read.files[0].stopped == "stopped by ZeroDivisionError: bad luck"
    assert [note.text for note in run_read.notes] == ["stopped by ZeroDivisionError: bad luck"]


def test_a_run_that_went_on_after_an_exception_is_finished(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), tt.record(folder):
        raise ZeroDivisionError("bad luck")
    with tt.record(folder, resume=True) as run:
        run.log("x", 1)
        assert tt.open(folder).state == "live"
    assert tt.open(folder).state == "finished"


def test_an_exit_without_an_error_is_no_exception(folder: Path) -> None:
    with pytest.raises(SystemExit), tt.record(folder):
        sys.exit(0)
    assert tt.open(folder).state == "finished"


def test_names_are_those_that_have_points(folder: Path) -> None:
    with tt.record(folder, only="kept*") as run:
        run.tensor("kept", np.ones(3))
        run.tensor("other", np.ones(3))
    read = tt.open(folder)
    assert read.names() == ["kept"]
    assert "1 site," in repr(read)
    shown = answer("show", folder, folder=folder.parent)
    assert [site["site"] for site in shown["sites"]] == ["kept"]
    assert "  1 site  " in tensortap("show", folder, folder=folder.parent).stdout


def test_a_tensor_may_be_of_training_or_of_evaluation(folder: Path) -> None:
    with tt.record(folder) as run:
        for phase in (None, "train", "eval"):
            run.tensor("x", np.ones(3), phase=phase)
        with pytest.raises(ValueError, match="phase must be 'train', 'eval' or None, not 'test'"):
            run.tensor("x", np.ones(3), phase="test")
    assert tt.open(folder).series("x", "phase")[1].tolist() == [0, 1, 2]


def test_a_recording_cannot_be_pickled(folder: Path) -> None:
    with tt.record(folder) as run, pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(run)


def test_tensors_that_cannot_be_read_are_refused(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    with tt.record(folder) as run, pytest.raises(TypeError, match="meta"):
        run.tensor("x", torch.empty(3, device="meta"))


def test_tensors_of_a_device_are_recorded_through_torch(folder: Path) -> None:
    pytest.importorskip("torch")
    code = (
        "import torch, tensortap as tt\n"
        "with tt.record('run') as run:\n"
        "    run.tensor('s', torch.arange(6.0))\n"
        "    run.tensor('v', torch.arange(6.0), keep='value')\n"
    )
    done = forked(code, folder.parent, TENSORTAP_DEVICE_PATH="1")
    assert done.returncode == 0, done.stderr
    run_read = tt.open(folder)
    assert run_read.stats("s", 0).sum == 15
    assert run_read.tensor("v", 0, as_numpy=True).tolist() == [0, 1, 2, 3, 4, 5]


def test_nothing_recorded_means_no_thread_and_no_file(tmp_path: Path) -> None:
    code = (
        "import os, threading, tensortap\n"
        "print(len(os.listdir('/proc/self/task')), os.listdir('.'))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert said.stdout.strip() == "1 []"
