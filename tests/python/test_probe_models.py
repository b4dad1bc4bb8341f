"""Runs of common models, eager and compiled, have the same sites, and differ by noise at most."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import tensortap

import tensortap as tt

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from versions import needs_probes  # noqa: E402


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.head = nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(torch.relu(self.first(x))))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.norm(self.conv(x[:, None]))))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block, self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(checkpoint(self.block, x, use_reentrant=False))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def transformer() -> nn.Module:
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0), nn.Linear(8, 2))


def from_configuration(kind: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    if kind == "GPT2":
        of = transformers.GPT2Config(
            n_layer=2,
            n_head=2,
            n_embd=16,
            n_positions=32,
            resid_pdrop=0,
            embd_pdrop=0,
            attn_pdrop=0,
            **sizes,
        )
        return transformers.AutoModelForCausalLM.from_config(of)
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"hidden_size": 16, "intermediate_size": 32}
    if kind == "Llama":
        of = transformers.LlamaConfig(**sizes)
        return transformers.AutoModelForCausalLM.from_config(of)
    of = transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0, **sizes)
    return transformers.AutoModelForSequenceClassification.from_config(of)


def train(
    folder: Path, model: nn.Module, call: Callable[..., Any], seed: int, steps: int, **options: bool
) -> tt.Run:
    adam, sgd = torch.optim.AdamW, torch.optim.SGD
    is_adam = options.get("is_adam", False)
    optimizer = adam(model.parameters(), 1e-3) if is_adam else sgd(model.parameters(), 0.01)
    with tt.record(folder):
        handle = tt.watch(model.train())
        for step in range(steps):
            torch.manual_seed(1000 * seed + step)
            # Opened for each step: it caches the weights, where nothing is compiled.
            with torch.autocast("cpu", torch.bfloat16, enabled=options.get("is_bf16", False)):
                if hasattr(model, "config"):
                    is_bert = "Bert" in type(model).__name__
                    tokens = torch.randint(0, 64, (4 if is_bert else 2, 8))
                    # Not [0, 1]: gradients of two examples that are nearly equal would cancel.
                    labels = torch.randint(0, 2, (4,)) if is_bert else tokens
                    loss = call(input_ids=tokens, labels=labels).loss
                else:
                    x = torch.randn(2, 5, 8) if isinstance(model, Recurrent) else torch.randn(2, 8)
                    loss = call(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        handle.remove()
    return tt.open(folder)


def assert_same_points(eager: tt.Run, compiled: tt.Run) -> None:
    assert eager.names("activation/*") == compiled.names("activation/*")
    assert set(eager.names("*")) == set(compiled.names("*"))
    for name in eager.names("*"):
        assert (
            eager.series(name, "mean")[0].tolist() == compiled.series(name, "mean")[0].tolist()
        ), name
        assert [s.shape for s in eager.stats(name)] == [s.shape for s in compiled.stats(name)]


def assert_same(
    folder: Path,
    make: Callable[[], nn.Module],
    *,
    backend: str = "aot_eager",
    seeds: Sequence[int] = (0,),
    steps: int = 2,
    **options: bool,
) -> None:
    """Compare trainings from each seed, with a model that is compiled once."""
    eager, compiled = make(), make()
    call = torch.compile(compiled, backend=backend)
    for seed in seeds:
        torch.manual_seed(seed)
        weights = make().state_dict()
        eager.load_state_dict(weights)
        compiled.load_state_dict(weights)
        one, two = folder / f"{seed}-eager", folder / f"{seed}-compiled"
        assert_same_points(
            train(one, eager, eager, seed, steps, **options),
            train(two, compiled, call, seed, steps, **options),
        )
        done = tensortap("diff", one, two, folder=folder)
        assert done.returncode == 0, done.stdout


@needs_probes
def test_recurrent_networks_and_dropout_have_the_same_points(tmp_path: Path) -> None:
    assert_same(tmp_path / "lstm", Recurrent)
    assert_same(tmp_path / "dropout", Dropped)


@needs_probes
def test_a_model_under_autocast_has_the_same_points(tmp_path: Path) -> None:
    assert_same(tmp_path, Dropped, is_bf16=True)


MODELS = {
    "MLP": mlp,
    "batch norm": Convolutions,
    "transformer": transformer,
    "LSTM": Recurrent,
    "checkpoint": Checkpointed,
    "dropout": Dropped,
    **{kind: partial(from_configuration, kind) for kind in ("GPT2", "Llama", "Bert")},
}


@pytest.mark.heavy
@pytest.mark.parametrize("is_bf16", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", MODELS)
def test_what_inductor_computes_differs_by_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_bf16: bool
) -> None:
    if kind == "LSTM":  # oneDNN has none for bfloat16 on most CPUs, and torch then raises
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    with torch._inductor.config.patch(fallback_random=True):  # random numbers as in eager code
        for is_adam in (False, True):  # Adam makes whole steps of gradients that are rounding
            folder = tmp_path / ("AdamW" if is_adam else "SGD")
            assert_same(
                folder,
                MODELS[kind],
                backend="inductor",
                seeds=(1, 2),
                steps=24,
                is_bf16=is_bf16,
                is_adam=is_adam,
            )


RANK = """
import sys, torch, torch.distributed as dist, tensortap as tt
from torch import nn
from torch.nn.parallel import DistributedDataParallel
rank, kind, store = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}.store", rank=rank, world_size=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2))
if kind == "inside":
    model = torch.compile(model, backend="aot_eager")
model = DistributedDataParallel(model)
if kind == "around":
    model = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
torch.manual_seed(rank)
with tt.record(store):
    tt.watch(model)
    for _ in range(24):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.heavy
def test_ranks_of_ddp_have_the_same_points(tmp_path: Path) -> None:
    for kind in ("eager", "around", "inside"):
        ranks = [
            subprocess.Popen([sys.executable, "-c", RANK, str(rank), kind, str(tmp_path / kind)])
            for rank in range(2)
        ]
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    for kind in ("around", "inside"):
        done = tensortap("diff", "eager", kind, folder=tmp_path)
        assert done.returncode == 0, done.stdout
        assert tt.open(tmp_path / kind).names("*") == tt.open(tmp_path / "eager").names("*")
