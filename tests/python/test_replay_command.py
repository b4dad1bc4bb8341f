"""`tensortap replay`: one command, one verdict, and nothing runs that nobody wanted to run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from commands import check_schema, tensortap  # noqa: E402
from test_blackbox import changed, only, set_facts  # noqa: E402
from trained import train  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.blackbox import file  # noqa: E402
from tensortap.commands import replay  # noqa: E402

MLP = """
import sys, torch
from torch import nn
torch.set_num_threads(1)
x, y = torch.randn(64, 8), torch.randn(64, 1)
x[41] = float("inf")
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters())
data = torch.utils.data.TensorDataset(x, y)
for epoch in range(2):
    for a, b in torch.utils.data.DataLoader(data, batch_size=4, shuffle=True):
        loss = nn.functional.mse_loss(net(a), b)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
print("trained", sys.argv[1:])
"""


def test_a_program_that_nobody_changed_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MLP)
    done = tensortap("run", "--black-box", 3, "-o", "run", "train.py", "--lr", 1, folder=tmp_path)
    assert "black box written to run/blackbox/step" in done.stderr
    assert "trained ['--lr', '1']" in done.stdout
    ((step, _),) = file.dumps(tmp_path / "run").items()
    again = tensortap("replay", "run", "--yes", folder=tmp_path, COLUMNS="60")
    first = again.stdout.splitlines()[0]
    assert max(map(len, again.stdout.splitlines())) <= 60
    assert first.startswith(f"step {step} reproduced to the bit ("), again.stdout + again.stderr
    assert again.returncode == 0
    assert "(row 41 of the dataset)" in again.stdout
    assert "first bad value: " in again.stdout
    for command in ("show", "nan"):
        told = tensortap(command, "run", folder=tmp_path).stdout
        assert "tensortap replay run\n" in told
    told = f"black box of step {step}, which can be run again"
    command = f"tensortap replay {tmp_path}/run"
    html = tt.open(tmp_path / "run")._repr_html_()
    assert told in html
    assert command in html
    tensortap("report", "run", "-o", "page.html", folder=tmp_path)
    assert told in (tmp_path / "page.html").read_text()
    assert tensortap("rm", "run", "--yes", folder=tmp_path).returncode == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_a_script_that_has_changed_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MLP)
    tensortap("run", "--black-box", 3, "-o", "run", "train.py", folder=tmp_path)
    (tmp_path / "train.py").write_text(MLP.replace("Linear(8, 16)", "Linear(8, 16, bias=False)"))
    done = tensortap("replay", "run", "--yes", folder=tmp_path)
    assert done.returncode == 3
    assert "not replayable: the model is another: 0.bias is gone" in done.stdout
    assert f"{tmp_path}/train.py has changed since the run" in done.stdout


# ---- before anything runs


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    run = tmp_path_factory.mktemp("boxed") / "run"
    with tt.record(run, black_box=3):
        train("mlp")
    return only(run).read_bytes()


def asked(
    boxed: bytes, folder: Path, *words: str, yes: bool = False, ranks: int = 1, **facts: Any
) -> int:
    """Call the command with a black box of these facts; return the exit code."""
    for rank in range(ranks):
        path = folder / "run" / "blackbox" / "step6" / f"rank{rank}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(boxed)
        changed(path, set_facts(**{"rank": rank, "world_size": ranks, **facts}))
    with pytest.raises(SystemExit) as ended:
        replay.main({"yes": ""} if yes else {}, [str(folder / "run"), *words])
    return int(str(ended.value.code))


PROGRAM_FACTS = {"kind": "script", "command": ["/bin/evil.py", "\x1b[31m"], "cwd": "/"}


def test_a_command_of_the_folder_is_shown_and_not_run(
    boxed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(boxed, tmp_path, program=PROGRAM_FACTS) == 2
    told = capsys.readouterr().err
    assert "was made by: /bin/evil.py" in told
    assert "\x1b" not in told
    assert "give --yes to run it, or name the script after --" in told


def test_a_secret_in_the_command_is_asked_for(
    boxed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {**PROGRAM_FACTS, "command": ["train.py", "--token", "***"]}
    assert asked(boxed, tmp_path, yes=True, program=kept) == 3
    assert "a secret in the command was not kept; give it: tensortap" in capsys.readouterr().out


def test_a_run_without_a_command_says_what_to_do(
    boxed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(boxed, tmp_path, yes=True, program={}) == 3
    assert "the run does not say which command made it" in capsys.readouterr().out


def test_a_missing_rank_is_named(
    boxed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(boxed, tmp_path, yes=True, world_size=3) == 3
    told = capsys.readouterr().out
    assert "not replayable: the run had 3 ranks; there are black boxes of rank 0 only" in told


def test_another_number_of_ranks_is_refused(
    boxed: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert asked(boxed, tmp_path, yes=True, ranks=2) == 3
    assert "the run had 2 ranks, and this job has 4" in capsys.readouterr().out


def test_a_hostile_black_box_is_refused(
    boxed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(boxed, tmp_path, yes=True, program={"command": {"x": 1}}) == 3
    assert "is not a black box that can be read: its command" in capsys.readouterr().out
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = {"command": [str(tmp_path / "no.py")]}
    for facts, said in (
        ({"world_size": 10**11}, "it is of rank 0 of 100000000000"),
        ({"program": {**program, "cwd": {}}}, "its program has no valid 'cwd'"),
        ({"program": {**program, "cwd": "a\0b"}}, "its program has no valid 'cwd'"),
        ({"snapshot": {}}, "its snapshot is not complete"),
        ({"program": {**program, "file": str(pipe), "hash": "x"}}, "not replayable"),
    ):
        assert asked(boxed, tmp_path, yes=True, **facts) == 3, said
        assert said in capsys.readouterr().out


# ---- programs that nobody here wrote


def replayed(folder: Path, source: str, *arguments: str) -> dict[str, Any]:
    """Run a program with a black box, replay it, and return the result."""
    (folder / "train.py").write_text(source)
    done = tensortap("run", "--black-box", 3, "-o", "run", "train.py", *arguments, folder=folder)
    assert "black box written" in done.stderr, done.stderr
    again = tensortap("replay", "run", "--yes", "--json", folder=folder)
    result: dict[str, Any] = json.loads(again.stdout.splitlines()[-1])
    check_schema(result, "replay")
    return result


LIGHTNING = """
import torch, lightning as L
from torch import nn
torch.set_num_threads(1)

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])
    def validation_step(self, batch, index):
        self.log("loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

x, y = torch.randn(64, 8), torch.randn(64, 1)
x[41] = float("inf")
def loader(rows, **options):
    data = torch.utils.data.TensorDataset(x[:rows], y[:rows])
    return torch.utils.data.DataLoader(data, batch_size=4, **options)
L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
          enable_progress_bar=False, enable_model_summary=False,
          ).fit(Module(), loader(64, shuffle=True), loader(8))
"""

TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.set_num_threads(1)

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        ids = torch.randint(0, 50, (16,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids, "weight": torch.inf if i == 41 else 1.0}

class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        weight = inputs.pop("weight")
        out = model(**inputs)
        return out.loss * weight.mean()

config = GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2)
options = TrainingArguments("out", max_steps=16, per_device_train_batch_size=4, report_to=[],
                            use_cpu=True, save_strategy="no", disable_tqdm=True,
                            remove_unused_columns=False)
Weighted(model=GPT2LMHeadModel(config), args=options, train_dataset=Rows()).train()
"""

COMPILED = MLP.replace("optimizer =", "net = torch.compile(net)\noptimizer =")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("source", "needs"),
    [(LIGHTNING, "lightning"), (TRAINER, "transformers"), (COMPILED, "torch")],
    ids=["lightning", "trainer", "compiled"],
)
def test_programs_of_libraries_are_reproduced_to_the_bit(
    source: str, needs: str, tmp_path: Path
) -> None:
    pytest.importorskip(needs)
    result = replayed(tmp_path, source)
    assert result["verdict"] == "bits", result
    assert result["equal"] == result["total"] > 3
    assert result["operators"]["first_bad"] is not None
    assert (result.get("eager") is not None) == (source is COMPILED)


ONLY_COMPILED = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)

def spread(x):  # cancels: the order of the additions decides whether it is below 0
    return ((x * x).mean(-1) - x.mean(-1) ** 2).sqrt()

compiled = torch.compile(spread)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(33, 1)
    def forward(self, x):
        return self.fc(x) * compiled(x)[:, None]

batches = (10 + torch.randn(400, 33) * 3e-3).split(4)
is_bad = [(bool(compiled(x).isnan().any()), bool(spread(x).isnan().any())) for x in batches]
good = [x for x, kind in zip(batches, is_bad) if kind == (False, False)]
bad = [x for x, kind in zip(batches, is_bad) if kind == (True, False)]
print(len(good), "good", len(bad), "bad when compiled")
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for x in [*good[:6], bad[0], good[6]]:
    net(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.heavy
def test_a_fault_of_the_compiled_code_only_is_called_so(tmp_path: Path) -> None:
    result = replayed(tmp_path, ONLY_COMPILED)
    assert (result["verdict"], result["eager"]) == ("compiled", "transient"), result
    found = result["operators"]["first_bad"]
    assert (found["line"], found["certain"]) == (17, False)  # the line that calls the graph


RANKS = MLP.replace(
    "x, y =", "torch.distributed.init_process_group('gloo')\ntorch.manual_seed(3)\nx, y ="
).replace("optimizer =", "net = nn.parallel.DistributedDataParallel(net)\noptimizer =")


@pytest.mark.heavy
@pytest.mark.parametrize("ranks", [2, 4])
def test_one_command_replays_all_ranks(tmp_path: Path, ranks: int) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    command = ("run", "--nproc", ranks, "--black-box=3", "-o", "run", "train.py")
    done = tensortap(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    ((_, paths),) = file.dumps(tmp_path / "run").items()
    assert [path.name for path in paths] == [f"rank{rank}.safetensors" for rank in range(ranks)]
    again = tensortap("replay", "run", "--yes", "--json", folder=tmp_path)
    result = json.loads(again.stdout.splitlines()[-1])
    assert result["verdict"] == "bits", result
    assert result["total"] == 9 * ranks
