"""Whole programs that train compiled models: recorded from outside, with the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import tensortap

import tensortap as tt

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

pytestmark = pytest.mark.heavy

#: As nanoGPT trains: accumulation, clipping, a schedule, an evaluation now and then.
NANO = """
import sys, torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(self, x):
        b, t, d = x.shape
        parts = self.c_attn(self.ln_1(x)).split(d, 2)
        q, k, v = (part.view(b, t, 2, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, vocabulary=32, d=16, t=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(t, d)
        self.h = nn.ModuleList(Block(d) for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight
    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if sys.argv[1] == "compiled":
    model = torch.compile(model, backend="aot_eager")

def batch():
    x = torch.randint(0, 32, (2, 9))
    return x[:, :-1], x[:, 1:]

@torch.no_grad()
def evaluate():
    model.eval()
    loss = model(*batch())[1].item()
    model.train()
    return loss

for step in range(4):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 / (step + 1)
    if step % 2 == 0:
        print(evaluate())
    for _ in range(2):
        logits, loss = model(*batch())
        (loss / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(step, loss.item())
"""

TRAINER = """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=16, n_positions=16, vocab_size=32,
    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=1))
rows = torch.randint(0, 32, (16, 8))
is_compiled = sys.argv[1] == "compiled"
arguments = TrainingArguments("out", per_device_train_batch_size=2, max_steps=3, logging_steps=1,
    report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
    torch_compile=is_compiled, torch_compile_backend="aot_eager" if is_compiled else None)
trainer = Trainer(model, arguments, train_dataset=[{"input_ids": r, "labels": r} for r in rows])
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
"""


def results(text: str) -> list[str]:
    return [line for line in text.splitlines() if "train_runtime" not in line]


@pytest.mark.parametrize("program", [NANO, TRAINER], ids=["nanoGPT", "Trainer"])
def test_a_compiled_training_is_recorded_as_the_eager_one(tmp_path: Path, program: str) -> None:
    if program is TRAINER:
        pytest.importorskip("transformers")
        pytest.importorskip("accelerate")
    script = tmp_path / "train.py"
    script.write_text(program)
    plain = subprocess.run(
        [sys.executable, script, "compiled"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert plain.returncode == 0, plain.stderr
    for kind in ("eager", "compiled"):
        done = tensortap("run", "-o", kind, script, kind, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert kind == "eager" or results(done.stdout) == results(plain.stdout)
    eager, compiled = tt.open(tmp_path / "eager"), tt.open(tmp_path / "compiled")
    assert len(eager.names("activation/*")) > 10
    assert eager.names("activation/*") == compiled.names("activation/*")
    for name in eager.names("activation/*"):
        steps = eager.series(name, "mean")[0].tolist()
        assert compiled.series(name, "mean")[0].tolist() == steps, name
    compared = tensortap("diff", "eager", "compiled", folder=tmp_path)
    assert compared.returncode == 0, compared.stdout


WITHOUT = """
import sys, torch, tensortap as tt
from tensortap import _core
if sys.argv[2] == "without":  # a torch without the stable C interface
    _core._probe_register = lambda: False
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
call = torch.compile(model, backend="aot_eager", fullgraph=True)
with tt.record(sys.argv[1], keep="stats,hist,value"):
    tt.watch(model, grads="all", inputs=True)
    for _ in range(2):
        call(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_torch_without_the_c_interface_records_the_same(tmp_path: Path) -> None:
    for kind in ("with", "without"):
        command = [sys.executable, "-c", WITHOUT, str(tmp_path / kind), kind]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    here, there = tt.open(tmp_path / "with"), tt.open(tmp_path / "without")
    assert here.names("*") == there.names("*")
    assert len(here.names("activation_gradient/*")) == 4
    for name in here.names("*/*"):
        assert repr(here.stats(name)) == repr(there.stats(name)), name
    for name in here.names("activation*/*"):
        assert here.histogram(name, 1) == there.histogram(name, 1)
