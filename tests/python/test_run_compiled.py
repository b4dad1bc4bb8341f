"""Compiled programs compute the same under `tensortap run`, with the same graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import tensortap
from programs import forked
from recorded import EVAL, TRAIN

import tensortap as tt

torch = pytest.importorskip("torch")

from versions import needs_probes  # noqa: E402

PROGRAM = """
import hashlib
import torch
from torch import nn
from torch._dynamo.utils import counters, get_compilation_metrics

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.drop = nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(0.3)
    def forward(self, x):
        return x + self.drop(torch.relu(self.fc(self.norm(x))))

class Net(nn.Module):
    def __init__(self, hook=False, breaks=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 2)
        self.breaks = breaks
        if hook:  # Dynamo then traces nn.Module.__call__ and not forward
            self.head.register_forward_hook(lambda module, inputs, output: output * 2)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if self.breaks:
                torch._dynamo.graph_break()
        return self.head(x)

def compiled(model, **options):
    return torch.compile(model, backend=BACKEND, **options)

def by_method(model, **options):
    model.compile(backend=BACKEND, **options)
    return model

def inside(model):
    for i in range(2):
        model.blocks[i] = compiled(model.blocks[i])
    return model

def inside_by_method(model):
    for block in model.blocks:
        block.compile(backend=BACKEND)
    return model

def function(model):
    @torch.compile(backend=BACKEND, fullgraph=True)
    def run(x):
        return nn.Sequential(nn.ReLU(), nn.Tanh())(model(x))  # modules are made there too
    return run

def train(kind, model, call):
    torch._dynamo.reset()
    counters.clear()
    before = len(get_compilation_metrics())
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    losses = []
    for step in range(3):
        if step % 2 == 0:
            model.eval()
            with torch.no_grad():
                losses.append(call(torch.ones(4, 8)).mean().item())
            model.train()
        optimizer.zero_grad()
        loss = call(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(kind, losses, hashlib.sha1(weights).hexdigest(), torch.rand(1).item())
    print(kind, sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"],
          dict(counters["frames"]), len(get_compilation_metrics()) - before)
"""

# One class for each, so that each has a name of its own.
KINDS = {
    "Wrapped": "compiled(model)",
    "Whole": "compiled(model, fullgraph=True)",
    "Method": "by_method(model)",
    "Inside": "inside(model)",
    "InsideMethod": "inside_by_method(model)",
    "Function": "function(model)",
}

EACH = """
class {name}(Net):
    pass
torch.manual_seed(0)
model = {name}({options})
train("{name}", model, {call})
"""


def test_compiled_programs_give_the_same_and_are_compiled_the_same(tmp_path: Path) -> None:
    parts = [EACH.format(name=name, call=call, options="") for name, call in KINDS.items()]
    parts.append(EACH.format(name="Hooked", call=KINDS["Method"], options="hook=True"))
    parts.append(EACH.format(name="Broken", call=KINDS["Method"], options="breaks=True"))
    script = tmp_path / "script.py"
    script.write_text("BACKEND = 'eager'\n" + PROGRAM + "".join(parts))
    plain = forked("import runpy; runpy.run_path('script.py', run_name='__main__')", tmp_path)
    assert plain.returncode == 0, plain.stderr
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == plain.stdout.splitlines()
    others = [line for line in done.stderr.splitlines() if not line.startswith("tensortap: ")]
    assert others == plain.stderr.splitlines()
    run = tt.open(tmp_path / "run")
    steps = {name: len(run.series(name, "mean")[0]) for name in run.names("gradient/*head.weight")}
    assert len(steps) == len(parts)
    assert set(steps.values()) == {3}


@pytest.mark.heavy
def test_a_program_compiled_by_inductor_gives_the_same(tmp_path: Path) -> None:
    each = EACH.format(name="Wrapped", call=KINDS["Wrapped"], options="")
    script = tmp_path / "script.py"
    script.write_text("BACKEND = 'inductor'\n" + PROGRAM + each)
    plain = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert plain.returncode == 0, plain.stderr
    done = tensortap("run", "-o", "run", script, folder=tmp_path)
    assert done.stdout.splitlines() == plain.stdout.splitlines(), done.stderr


WHOLE_STEP = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)])
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.1)

@torch.compile(backend="eager")
def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

for _ in range(2):
    step(torch.ones(1, 2))
"""


@needs_probes
def test_a_model_that_dynamo_keeps_until_the_interpreter_ends_is_freed_safely(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.py").write_text(WHOLE_STEP)
    # Freed memory is overwritten, so that reading it is sure to fail.
    done = tensortap("run", "-o", "run", "script.py", folder=tmp_path, PYTHONMALLOC="debug")
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    assert list(run.series("activation/blocks.1", "mean")[0]) == [0, 1]
    assert run.notes == []  # a list of modules is never called: it is not missing


EVALUATED_FIRST = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    model.eval()
    with torch.no_grad():
        compiled(torch.ones(1, 2))
    model.train()
    compiled(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


@needs_probes
def test_code_that_torch_compiles_for_another_phase_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(EVALUATED_FIRST)
    done = tensortap("run", "-o", "run", "script.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tt.open(tmp_path / "run")
    steps, phases = run.series("activation/0", "phase")
    assert (list(steps), list(phases)) == ([0, 0, 1], [TRAIN, EVAL, TRAIN])
    assert run.notes == []


def test_evaluation_of_a_compiled_model_is_not_taken_for_training(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    compiled = torch.compile(model, backend="eager")
    with tt.record(tmp_path / "run", model=compiled):
        compiled.eval()
        compiled(torch.ones(1, 2))
        compiled.train()
        compiled(torch.ones(1, 2))
    phases = tt.open(tmp_path / "run").series("activation/(root)", "phase")[1]
    assert list(phases) == [EVAL, TRAIN]


@needs_probes
def test_calls_past_the_wrapper_of_a_compiled_model_are_recorded(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    compiled = torch.compile(model, backend="eager")
    with tt.record(tmp_path / "run", model=compiled) as run:
        for _ in range(2):
            compiled(torch.ones(1, 2))
            model.eval()(torch.ones(1, 2))  # as Trainer of transformers evaluates
            model.train()
            run.step()
    recorded = tt.open(tmp_path / "run")
    for name in ("activation/(root)", "activation/0"):
        steps, phases = recorded.series(name, "phase")
        assert (list(steps), list(phases)) == ([0, 0, 1, 1], [TRAIN, EVAL] * 2), name


@needs_probes
def test_a_compiled_step_of_an_optimizer_is_recorded_as_an_eager_one(tmp_path: Path) -> None:
    runs = []
    for kind in ("eager", "compiled"):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        is_compiled = kind == "compiled"
        step = torch.compile(optimizer.step, backend="eager") if is_compiled else optimizer.step
        with tt.record(tmp_path / kind, model=model):
            for _ in range(3):
                model(torch.randn(4, 2)).square().sum().backward()
                step()
                optimizer.zero_grad()
        runs.append(tt.open(tmp_path / kind))
    eager, compiled = runs
    assert eager.names("*") == compiled.names("*")
    for name in eager.names("*"):
        for field in ("mean", "call"):
            a, b = eager.series(name, field), compiled.series(name, field)
            assert [x.tolist() for x in a] == [x.tolist() for x in b], name
    assert list(compiled.series("gradient/weight", "mean")[0]) == [0, 1, 2]
