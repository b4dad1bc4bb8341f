"""`tensortap run` behaves as Python does, and records what is trained."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import venv
from pathlib import Path

import pytest
from commands import PROGRAM, tensortap
from programs import ANY_FREE_PORT, forked

import tensortap as tt

torch = pytest.importorskip("torch")

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print(sum(float(p.detach().sum()) for p in model.parameters()))
"""

#: The same program, which makes our warnings errors, and has an Inf at step 2.
STRICT = TRAIN.replace(
    "torch.manual", "__import__('warnings').simplefilter('error', RuntimeWarning)\ntorch.manual"
)
STRICT = STRICT.replace("torch.ones(3, 4)", "torch.ones(3, 4) / (2 - step)")

USUAL = "/usr/bin:/bin"  # a path without the program
NO_TORCH = "tensortap: nothing recorded: this process did not import torch\n"

SEVERAL = """
import torch
from torch.nn.modules.module import _global_forward_pre_hooks as hooks

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        print(len(hooks), end=" ")
"""


def write(folder: Path, text: str, name: str = "script.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return name


def python(*arguments: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def plain_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What TRAIN prints under plain Python."""
    return forked(TRAIN, tmp_path_factory.mktemp("plain")).stdout


Done = tuple[Path, "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A training without -o, with secrets in its arguments, and torch imported before it starts."""
    folder = tmp_path_factory.mktemp("unnamed")
    write(folder, "import torch", "sitecustomize.py")
    script = write(folder, "import sys; print(sys.argv)\n" + TRAIN)
    secrets = ("--api-key=s3cret", "--hf_token", "s3cret", "--lr", "0.1", "wandb.api_key=s3cret")
    done = tensortap("run", script, *secrets, folder=folder, PYTHONPATH=str(folder))
    return folder, done


#: A model as in Lightning: its own forward is never called.  Its __init__ calls a part.
PARTS = """
import torch

class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        width = self.encoder(torch.zeros(1, 4)).shape[1]
        self.decoder = torch.nn.Sequential(torch.nn.Linear(width, 4))

    def training_step(self, x):
        return self.decoder(self.encoder(x)).square().mean()

model = Pair()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model.training_step(torch.ones(2, 4)).backward()
    optimizer.step()
print(*sorted(model.state_dict()))
"""


def test_parts_of_a_model_that_is_never_called_have_their_names_in_it(tmp_path: Path) -> None:
    script = write(tmp_path, PARTS)
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    parameters = [name.removeprefix("parameter/") for name in run.names("parameter/*")]
    assert sorted(parameters) == done.stdout.split()
    outputs = {"encoder", "encoder.0", "encoder.1", "decoder", "decoder.0"}
    assert set(run.names("activation/*")) == {f"activation/{name}" for name in outputs}
    assert list(run.steps) == [0, 1, 2]


def test_a_training_is_recorded_from_its_first_step_and_computes_the_same(
    tmp_path: Path, plain_output: str
) -> None:
    script = write(tmp_path, TRAIN)
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain_output != ""
    last = done.stderr.splitlines()[-2:]
    assert last[0] == "tensortap: recorded; see: tensortap show run"
    assert last[1].startswith("tensortap: watching took ")
    run = tt.open(tmp_path / "run")
    assert list(run.steps) == [0, 1, 2, 3, 4]
    for name in ("activation/(root)", "activation/2", "gradient/0.weight", "parameter/2.bias"):
        assert len(run.series(name, "mean")[0]) == 5
        assert set(run.series(name, "phase")[1]) == {1}, name  # train, from the first step on


def test_options_choose_what_is_recorded(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN)
    options = ("--every", "2", "--only", "parameter/*", "--keep", "stats,value")
    assert tensortap("run", "-o", "run", *options, script, folder=tmp_path).returncode == 0
    run = tt.open(tmp_path / "run")
    recorded = [name for name in run.names("*/*") if len(run.series(name, "mean")[0])]
    assert {name.split("/")[0] for name in recorded} == {"parameter"}
    assert list(run.series("parameter/0.weight", "mean")[0]) == [0, 2, 4]
    assert run.tensor("parameter/0.weight", 2, as_numpy=True).shape == (8, 4)


def test_options_choose_how_it_is_watched(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN)
    options = ("--inputs", "--grads", "all", "--exclude", "*.bias", "--budget", "0.9")
    done = tensortap("run", "-o", "run", *options, script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    recorded = {name for name in run.names("*/*") if len(run.series(name, "mean")[0])}
    assert {"input/2", "activation_gradient/2", "gradient/2.weight"} <= recorded
    assert not [name for name in recorded if name.endswith(".bias")]
    options = ("--resume", "--grads", "none", "--on-nonfinite", "warn", "--only", "activation/*,no")
    script = write(tmp_path, STRICT)
    done = tensortap("run", "-o", "run", *options, script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()  # these are no warnings of the program
    assert [line for line in lines if not line.startswith("tensortap: ")] == []
    (found,) = (line for line in lines if " in activation/0 at step 7" in line)
    assert found.endswith(f"({tmp_path / script}, line 9)")
    assert sum("only='no' matches none" in line for line in lines) == 1
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/2", "mean")[0]) == list(range(10))
    assert list(run.series("gradient/2.weight", "mean")[0]) == list(range(5))


def test_a_program_is_stopped_where_its_first_nan_appears(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN.replace("torch.ones(3, 4)", "torch.ones(3, 4) / (2 - step)"))
    done = tensortap("run", "-o", "run", "--on-nonfinite", "raise", script, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("NonFiniteError: ") == 1
    assert " in activation/0 at step 2" in done.stderr
    assert f'File "{tmp_path / script}", line 8' in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("option", "word"),
    [
        (("--budget", "2"), "--budget takes a share of the time between 0 and 1"),
        (("--budget", "much"), "not 'much'"),
        (("--grads", "some"), "--grads takes parameters, activations, all or none, not 'some'"),
        (("--on-nonfinite", "stop"), "--on-nonfinite takes warn or raise, not 'stop'"),
        (("--resume",), "--resume needs the run to go on with: -o RUN"),
    ],
)
def test_a_wrong_option_says_what_it_takes(
    tmp_path: Path, option: tuple[str, ...], word: str
) -> None:
    script = write(tmp_path, "print('ran')")
    done = tensortap("run", *option, script, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr


def test_a_folder_that_cannot_take_the_run_stops_the_program_before_it_starts(
    tmp_path: Path,
) -> None:
    script = write(tmp_path, "print('ran')")
    with tt.record(tmp_path / "there"):
        pass
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "rank0.tap").write_text("no run at all" * 100)
    answers = {
        ("there",): "it holds a run already; give another folder, or --resume to continue it",
        ("file",): "is a file; a run is a folder",
        ("file/below",): "Not a directory",
        ("/proc/self/run",): "No such file or directory",
        ("broken", "--resume"): "broken",
    }
    for given, why in answers.items():
        done = tensortap("run", "-o", *given, script, folder=tmp_path)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert done.stderr.startswith(f"tensortap: cannot record into '{given[0]}': ")
        assert why in done.stderr
    assert tensortap("run", "-o", "a/b/new", script, folder=tmp_path).stdout == "ran\n"
    assert not (tmp_path / "a").exists(), "nothing was trained"


def test_a_run_may_be_in_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(3):\n    model(torch.ones(1, 2)).sum().backward()\n    optimizer.step()\n"
    )
    name = os.fsdecode(b"r\xffun")
    done = tensortap("run", "-o", name, "train.py", folder=tmp_path, PYTHONIOENCODING="utf-8")
    assert done.returncode == 0, done.stderr
    assert "cannot record" not in done.stderr
    run = tt.open(tmp_path / name)
    assert run.series("loss")[0].tolist() == [0, 1, 2]
    shown = subprocess.run(
        [PROGRAM, "show", tmp_path / name], capture_output=True, timeout=300, check=True
    )
    assert b"steps 0 to 2" in shown.stdout


def test_secrets_on_the_command_line_stay_out_of_the_run(unnamed: Done) -> None:
    folder, done = unnamed
    (made,) = (folder / "runs").iterdir()
    assert done.stdout.count("s3cret") == 3, "the program gets them"
    assert b"s3cret" not in (made / "rank0.tap").read_bytes()
    masked = "script.py --api-key=*** --hf_token *** --lr 0.1 wandb.api_key=***"
    assert masked in tensortap("show", made, folder=folder).stdout


@pytest.mark.parametrize(
    "text",
    [
        "import sys; print(sys.argv, __name__, __file__, sys.path[0]); sys.exit(3)",
        "import sys; print(sys.stdin.read()); raise SystemExit('bye')",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--x'); p.parse_args()",
        "def f():\n    1 / 0\nf()",
        "this is not Python",
        "import sys; sys.excepthook = lambda *a: print('own hook', a[0].__name__)\n1 / 0",
        "import atexit, sys; atexit.register(print, 'late'); print('torch' in sys.modules)",
        "import pickle, __main__\nclass A: pass\nprint(pickle.dumps(A)[-20:], __main__.A is A)",
    ],
)
def test_a_script_does_what_it_does_under_python(tmp_path: Path, text: str) -> None:
    script = write(tmp_path, text)
    arguments = (script, "--every", "x", "-o", "y")
    ours = tensortap("run", *arguments, folder=tmp_path, stdin="some\ninput")
    theirs = python(*arguments, folder=tmp_path, stdin="some\ninput")
    assert (ours.stdout, ours.stderr.replace(NO_TORCH, "")) == (theirs.stdout, theirs.stderr)
    assert ours.stderr.count(NO_TORCH) == 1
    assert ours.returncode == theirs.returncode
    assert not (tmp_path / "runs").exists()


def test_a_module_is_run_as_python_m_does(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(tmp_path, "", "package/__init__.py")
    write(tmp_path, "import sys; print(sys.argv, __name__, __package__)", "package/__main__.py")
    ours = tensortap("run", "-m", "package", "--flag", folder=tmp_path)
    theirs = python("-m", "package", "--flag", folder=tmp_path)
    assert (ours.stdout, ours.returncode) == (theirs.stdout, 0)


def test_multiprocessing_finds_the_script_again(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import multiprocessing as mp
        def square(x): return x * x
        if __name__ == "__main__":
            for method in ("spawn", "fork", "forkserver"):
                with mp.get_context(method).Pool(2) as pool:
                    print(pool.map(square, [1, 2, 3]))
        """,
    )
    done = tensortap("run", script, folder=tmp_path)
    assert (done.stdout, done.returncode) == ("[1, 4, 9]\n" * 3, 0)
    assert [line for line in done.stderr.splitlines() if not line.startswith("tensortap: ")] == []


def test_workers_of_a_data_loader_do_not_record(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import torch
        class Data(torch.utils.data.Dataset):
            inner = torch.nn.Linear(2, 2)
            def __len__(self): return 8
            def __getitem__(self, i): return self.inner(torch.ones(2)).detach()
        if __name__ == "__main__":
            model = torch.nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for batch in torch.utils.data.DataLoader(Data(), 2, num_workers=2):
                model(batch).sum().backward()
                optimizer.step()
        """,
    )
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["rank0.tap"]
    assert len(tt.open(tmp_path / "run").steps) == 4


def test_two_models_with_two_optimizers_are_both_watched(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import torch
        from torch import nn
        g, d = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 1))
        og, od = torch.optim.SGD(g.parameters(), 0.1), torch.optim.SGD(d.parameters(), 0.1)
        for step in range(3):
            for sign, optimizer in ((1, od), (-1, og)):
                loss = sign * d(g(torch.randn(8, 4))).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
    )
    assert tensortap("run", "-o", "run", script, folder=tmp_path).returncode == 0
    run = tt.open(tmp_path / "run")
    assert list(run.steps) == [0, 1, 2]
    for name in ("gradient/Linear:weight", "gradient/Sequential:0.weight"):
        assert sorted(set(run.series(name, "mean")[0])) == [0, 1, 2]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Trainings of three models, one after the other."""
    folder = tmp_path_factory.mktemp("several")
    later = """
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)
    train(first)
    train(second)
    def in_a_function():
        train(torch.nn.Sequential(torch.nn.Linear(2, 4)))
    in_a_function()
    """
    script = write(folder, SEVERAL + textwrap.dedent(later))
    return folder, tensortap("run", "-o", "run", script, folder=folder)


def test_torch_has_no_forward_hook_of_ours(several: Done) -> None:
    done = several[1]
    assert done.stdout.split() == ["0"] * 9, done.stderr


def test_a_model_that_is_made_or_trained_later_is_seen_from_its_first_step(several: Done) -> None:
    folder, done = several
    assert done.returncode == 0, done.stderr
    run = tt.open(folder / "run")
    for name in ("weight", "Linear2:weight", "Sequential:0.weight"):
        assert len(run.series(f"gradient/{name}", "mean")[0]) == 3
    for name in ("(root)", "Linear2:(root)", "Sequential:0"):
        assert len(run.series(f"activation/{name}", "mean")[0]) == 3


def test_a_model_in_the_place_of_one_that_is_gone_is_watched_too(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        """
        import torch
        def train(seen):
            model = torch.nn.Linear(2, 2, bias=False)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            is_again = id(model.weight) in seen
            seen.add(id(model.weight))
            return is_again
        seen, models = set(), 1
        while not train(seen):
            models += 1
        print(models)
        """,
    )
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    last = int(done.stdout)
    assert last > 1
    names = tt.open(tmp_path / "run").names("gradient/*")
    assert f"gradient/Linear{last}:weight" in names


def test_without_a_name_runs_lie_in_runs_by_date(unnamed: Done) -> None:
    folder, done = unnamed
    (made,) = (folder / "runs").iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d.\d\d.?\d\d.?\d\d", made.name), made.name
    assert f"tensortap show runs/{made.name}" in done.stderr


def test_an_exception_shows_the_scripts_frames_only_and_keeps_the_run(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN + "\nraise ValueError('boom')\n")
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 1
    assert "ValueError: boom" in done.stderr
    assert done.stderr.count('  File "') == 1
    run = tt.open(tmp_path / "run")
    assert (run.state, run.files[0].stopped) == ("stopped", "stopped by ValueError: boom")
    assert " stopped " in tensortap("ls", folder=tmp_path).stdout


def test_control_c_ends_it_as_it_ends_python(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        TRAIN.replace("range(5)", "range(10**9)").replace(
            "    optimizer.step()", "    optimizer.step()\n    print(step, flush=True)"
        ),
    )
    process = subprocess.Popen(
        [PROGRAM, "run", "-o", "run", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert "commands/run.py" not in errors
    assert tt.open(tmp_path / "run").state == "stopped"


@pytest.mark.parametrize("file", ["commands/run.py", "runs/steps.py"])
def test_control_c_within_our_hooks_shows_lines_of_the_program(tmp_path: Path, file: str) -> None:
    groups = f"""
    import signal, sys
    class Groups(list):
        def __iter__(self):
            if step == 3 and sys._getframe(1).f_code.co_filename.endswith("tensortap/{file}"):
                print("interrupted there", flush=True)
                signal.raise_signal(signal.SIGINT)
            return super().__iter__()
    optimizer.param_groups = Groups(optimizer.param_groups)
    """
    script = write(tmp_path, TRAIN.replace("for step", f"{textwrap.dedent(groups)}\nfor step"))
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.stdout == "interrupted there\n"
    assert done.returncode == -signal.SIGINT
    assert "optimizer.step()\n" in done.stderr
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert file not in done.stderr
    assert tt.open(tmp_path / "run").state == "stopped"


def test_an_error_in_a_closure_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    closure = """
    def closure():
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        return 1 // (3 - step)
    """
    script = write(
        tmp_path,
        TRAIN.replace("for step", f"{textwrap.dedent(closure)}\nfor step").replace(
            "    optimizer.step()", "    optimizer.step(closure)"
        ),
    )
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    shown = [line for line in done.stderr.splitlines() if not line.startswith("tensortap: ")]
    assert shown == python(script, folder=tmp_path).stderr.splitlines()
    assert shown[-1].startswith("ZeroDivisionError")


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "ValueError('x')", "ImportError('x')"])
def test_an_import_of_torch_that_fails_is_shown_as_python_shows_it(
    tmp_path: Path, error: str
) -> None:
    (tmp_path / "torch").mkdir()
    write(tmp_path, f"def fail():\n    raise {error}\nfail()", "torch/__init__.py")
    script = write(tmp_path, "def start():\n    import torch\nstart()")
    ours = tensortap("run", script, folder=tmp_path)
    theirs = python(script, folder=tmp_path)
    shown = ours.stderr.replace(NO_TORCH, "")
    assert (shown, ours.returncode) == (theirs.stderr, theirs.returncode)
    assert "fail()" in ours.stderr


def test_a_run_that_cannot_be_made_does_not_stop_the_program(
    tmp_path: Path, plain_output: str
) -> None:
    script = write(tmp_path, "open('run', 'a').close()  # in the way\n" + TRAIN)
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout == plain_output
    assert done.stderr.startswith("tensortap: cannot record: ")


def test_a_run_that_recorded_nothing_says_why_and_what_to_do(tmp_path: Path) -> None:
    evaluation = "import torch\nprint(torch.nn.Linear(2, 2).eval()(torch.ones(1, 2)).shape)"
    done = tensortap("run", write(tmp_path, evaluation), folder=tmp_path)
    assert done.stderr == (
        "tensortap: nothing recorded: no model ran in training mode in this process\n"
        "tensortap: (--inference records models in evaluation, too)\n"
    )
    children = """
    import torch
    import torch.multiprocessing as mp
    def work(rank):
        print(rank, flush=True)
    if __name__ == "__main__":
        mp.spawn(work, nprocs=1)
    """
    done = tensortap("run", write(tmp_path, children), folder=tmp_path)
    assert (done.stdout, done.returncode) == ("0\n", 0)
    assert done.stderr.splitlines()[2:] == [
        "tensortap: to record the processes that it starts, call tt.record where they train"
    ]


def test_commands_that_a_shell_ran_before_are_not_taken_for_the_programs(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"ls; exec {PROGRAM} run {write(tmp_path, 'import os')}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == "tensortap: nothing recorded: this process did not import torch\n"


def test_a_torch_that_a_sitecustomize_imported_is_seen(unnamed: Done) -> None:
    folder, done = unnamed
    assert done.returncode == 0, done.stderr
    (made,) = (folder / "runs").iterdir()
    assert list(tt.open(made).steps) == [0, 1, 2, 3, 4]


def test_a_model_from_a_pickle_is_found_when_its_optimizer_steps(tmp_path: Path) -> None:
    copied = TRAIN.replace("optimizer =", "import copy\nmodel = copy.deepcopy(model)\noptimizer =")
    done = tensortap("run", "-o", "run", write(tmp_path, copied), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    assert list(run.series("gradient/0.weight", "mean")[0]) == [0, 1, 2, 3, 4]
    assert list(run.series("activation/(root)", "mean")[0]) == [1, 2, 3, 4]


def test_training_forwards_are_the_steps_of_a_program_without_an_optimizer(tmp_path: Path) -> None:
    by_hand = """
    import torch
    model = torch.nn.Linear(2, 1)
    for step in range(4):
        model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        model.eval()
        model(torch.ones(1, 2))
        model.train()
    """
    done = tensortap("run", "-o", "run", write(tmp_path, by_hand), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/(root)", "mean")[0]) == [0, 0, 1, 1, 2, 2, 3, 3]
    said = "no optimizer holds the parameters: each training forward of a model is a step"
    assert done.stderr.splitlines()[-1] == f"tensortap: {said}"
    assert said in [note.text for note in run.notes]


def test_a_single_forward_without_an_optimizer_is_said_to_be_a_step(tmp_path: Path) -> None:
    once = """
    import torch
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    """
    done = tensortap("run", "-o", "run", write(tmp_path, once), folder=tmp_path)
    assert "each training forward of a model is a step" in done.stderr


def test_every_rank_records_under_torchrun(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN)
    done = python(
        "-m", "torch.distributed.run", "--nproc-per-node=2", *ANY_FREE_PORT, "--no-python",
        str(PROGRAM), "run", "-o", "run", script, folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert tt.open(tmp_path / "run").ranks == [0, 1]


RANKS = r"""
import os, sys
os.write(1, f"{os.environ['RANK']} {sys.argv[1:]}\n".encode())
"""


@pytest.mark.parametrize(
    "before",
    [
        ("--nproc", "2"),
        ("-m", "torch.distributed.run", "--nproc-per-node=2", *ANY_FREE_PORT),
        (str(PROGRAM.parent / "torchrun"), "--nproc-per-node", "2", *ANY_FREE_PORT),
    ],
)
@pytest.mark.parametrize("is_module", [False, True])
def test_run_starts_ranks_that_record_themselves(
    tmp_path: Path, before: tuple[str, ...], is_module: bool
) -> None:
    script = write(tmp_path, RANKS + textwrap.dedent(TRAIN))
    program = ("-m", Path(script).stem) if is_module else (script,)
    own = ("-o", "run", "--inputs", "--every", "2")
    done = tensortap("run", *own, *before, *program, "--lr", "a b", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[:2] == ["0 ['--lr', 'a b']", "1 ['--lr', 'a b']"]
    run = tt.open(tmp_path / "run")
    assert run.ranks == [0, 1]
    assert run.names("input/*")


def test_a_rank_that_fails_fails_the_command_that_started_it(tmp_path: Path) -> None:
    script = write(tmp_path, "import os, sys; sys.exit(int(os.environ['RANK']) * 7)")
    done = tensortap("run", "--nproc", "2", script, folder=tmp_path)
    assert done.returncode == 1


@pytest.mark.parametrize(
    "text", ["raise ImportError('not this one')", "__version__ = 'not this one'"]
)
def test_a_python_without_the_same_tensortap_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tensortap").mkdir()
    write(tmp_path, text, "tensortap/__init__.py")
    done = tensortap("run", "x.py", folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "not this one" in done.stderr
    assert "TENSORTAP_PYTHON" in done.stderr


def run_by_name(folder: Path, active: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in an active environment, the program by its name and not by its path."""
    return subprocess.run(
        ["tensortap", "run", script],
        executable=PROGRAM,
        cwd=folder,
        env={"PATH": USUAL, "VIRTUAL_ENV": str(active)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_active_environment_runs_the_program_if_it_has_tensortap(tmp_path: Path) -> None:
    script = write(tmp_path, "import sys; print(sys.prefix); import nowhere")
    active = tmp_path / "env"
    venv.create(active)
    done = run_by_name(tmp_path, active, script)
    assert done.stdout == f"{sys.prefix}\n"  # that of the program itself
    assert f"{active}/bin/python3 does not have tensortap {tt.__version__}" in done.stderr
    assert ("which has no module 'nowhere'; to use " in done.stderr) == bool(
        shutil.which("python3", path=USUAL)
    )
    site = next(active.glob("lib/python*/site-packages"))
    (site / "ours.pth").write_text(os.path.dirname(os.path.dirname(tt.__file__)))
    done = run_by_name(tmp_path, active, script)
    assert done.stdout == f"{active}\n"
    assert "does not have" not in done.stderr


def test_python_m_tensortap_is_the_program_with_that_python(tmp_path: Path) -> None:
    script = write(tmp_path, "import sys; print(sys.executable)")
    done = python("-m", "tensortap", "run", script, folder=tmp_path)
    assert done.stdout == f"{sys.executable}\n", done.stderr


def test_a_script_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    done = tensortap("run", "nowhere.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("tensortap: no script 'nowhere.py'; give a file, or -m and a module\n")
    done = tensortap("run", "python", "x.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tensortap: no script 'python'; leave it out\n"
