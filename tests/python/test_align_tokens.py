"""Two recorded runs of one model: which tokens are the same, and where do they part?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from test_compare_models import FAULTS, IDS, change  # noqa: E402
from two_models import LAYERS, VOCABULARY, fused, split  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.implementations.stream import Tracker, given_by  # noqa: E402

KEEP = "stats,tokens"


def record(path: Path, model: Any, *forwards: Any, **options: Any) -> Path:
    """Run a model and record it."""
    model.eval()
    with (
        torch.no_grad(),
        tt.record(path, model=model, keep=KEEP, inference=True, grads=None, **options),
    ):
        for inputs in forwards:
            model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return path


def both(folder: Path, a: Any, b: Any) -> tt.Comparison:
    """Record both and compare the runs."""
    record(folder / "a", a, IDS)
    record(folder / "b", b, IDS)
    return tt.diff(folder / "a", folder / "b", align="tokens")


# ---- sketches


def sketch_of(rows: Any, run_folder: Path) -> Any:
    with tt.record(run_folder) as run:
        run.tensor("x", rows, keep="tokens")
    return tt.open(run_folder).tokens("x", 0)


def test_a_sketch_has_the_norm_of_each_token_and_estimates_distances(tmp_path: Path) -> None:
    x, y = torch.randn(2, 300, 256)
    y = x + 1e-3 * y
    a, b = sketch_of(x, tmp_path / "a"), sketch_of(y, tmp_path / "b")
    assert a.shape == (300, 17)
    assert np.allclose(a[:, 0], x.norm(dim=1).numpy(), rtol=1e-6)
    found = np.linalg.norm((a - b)[:, 1:], axis=1) / (x - y).norm(dim=1).numpy()
    assert 0.9 < np.median(found) < 1.1
    assert 0.4 < found.min() < found.max() < 2


def test_leading_dimensions_are_tokens_and_whole_numbers_have_none(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.tensor("deep", torch.zeros(2, 3, 5), keep="tokens")
        run.tensor("ids", torch.zeros(2, 3, dtype=torch.int64), keep="tokens")
    opened = tt.open(tmp_path / "run")
    assert opened.tokens("deep", 0).shape == (6, 17)
    with pytest.raises(KeyError, match="sketches of tokens"):
        opened.tokens("ids", 0)


def test_modules_inside_a_compiled_graph_have_the_same_sketches(tmp_path: Path) -> None:
    model = split(0)
    record(tmp_path / "eager", model, IDS)
    compiled = torch.compile(model, backend="aot_eager")
    record(tmp_path / "compiled", compiled, IDS)
    found = tt.diff(tmp_path / "eager", tmp_path / "compiled", align="tokens")
    assert found.verdict == "rounding"
    assert found.tokens == IDS.numel()
    assert len(found.pairs) > 8 * LAYERS


# ---- the same answer as for living models


@pytest.mark.parametrize("fault", FAULTS)
def test_recorded_runs_part_where_living_models_do(fault: str, tmp_path: Path) -> None:
    a = split(1)
    b = fused(a)
    site = change(b.blocks[1], fault)
    first = both(tmp_path, a, b).first
    assert first is not None
    assert first.a == f"layers.1.{site}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seed", range(3))
def test_recorded_runs_that_differ_by_rounding_are_the_same(
    seed: int, dtype: Any, tmp_path: Path
) -> None:
    a = split(seed).to(dtype)
    found = both(tmp_path, a, fused(a))
    assert found.verdict == "rounding", found
    assert found.unpaired_a == [f"layers.{i}.mlp.act_fn" for i in range(LAYERS)]
    same, of, _ = found.parameters
    assert same == of


def test_equal_sketches_are_not_called_equal_bits(tmp_path: Path) -> None:
    found = both(tmp_path, split(0), split(0))
    assert found.verdict == "rounding"
    assert "equal in every bit" not in found.text


def test_an_unrelated_model_has_nothing_to_compare(tmp_path: Path) -> None:
    found = both(tmp_path, split(0), split(5))
    assert (found.verdict, found.pairs) == ("nothing to compare", [])


def test_a_run_without_sketches_is_refused_with_what_to_do(tmp_path: Path) -> None:
    record(tmp_path / "a", split(0), IDS)
    with tt.record(tmp_path / "b") as run:
        run.log("loss", 1.0)
    with pytest.raises(ValueError, match="keep='stats,tokens'"):
        tt.diff(tmp_path / "a", tmp_path / "b", align="tokens")
    with pytest.raises(ValueError, match="align must be"):
        tt.diff(tmp_path / "a", tmp_path / "a", align="words")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="rtol does not go with"):
        tt.diff(tmp_path / "a", tmp_path / "a", rtol=1.0, align="tokens")  # type: ignore[call-overload]


def test_ids_are_kept_whatever_is_recorded_of_tensors(tmp_path: Path) -> None:
    record(tmp_path / "a", split(0), IDS, only="activation/layers.0*")
    found = tt.open(tmp_path / "a")
    assert torch.equal(found.tensor("tensortap/tokens/input_ids", 0), IDS)
    assert all(name.startswith("activation/layers.0") for name in found.names())


# ---- which token is which


def keys_of(forwards: list[dict[str, Any]], known: Any = frozenset()) -> list[list[Any]]:
    tracker = Tracker(known)
    found = []
    for one in forwards:
        given = given_by({name: np.asarray(value) for name, value in one.items()})
        assert given is not None
        found.append(tracker.forward(given))
    return found


def flat(keys: list[list[Any]]) -> list[Any]:
    return [key for some in keys for key in some if key is not None]


SEQUENCES = [list(range(5, 5 + n)) for n in (17, 9, 23)]
SEQUENCES[1] = [*SEQUENCES[0][:4], 40, 41, 42, 43, 44]  # they begin alike


def padded(is_left: bool) -> dict[str, Any]:
    longest = max(map(len, SEQUENCES))
    gaps = [[0] * (longest - len(s)) for s in SEQUENCES]
    ids = [g + s if is_left else s + g for g, s in zip(gaps, SEQUENCES, strict=True)]
    ones = [[1] * len(s) for s in SEQUENCES]
    mask = [g + o if is_left else o + g for g, o in zip(gaps, ones, strict=True)]
    return {"input_ids": ids, "attention_mask": mask}


def interleaved(chunk: int, order: list[int]) -> list[dict[str, Any]]:
    """Every request in chunks, all that are left in one flat batch."""
    forwards, done = [], [0] * len(SEQUENCES)
    while any(d < len(s) for d, s in zip(done, SEQUENCES, strict=True)):
        ids, positions = [], []
        for i in order:
            part = SEQUENCES[i][done[i] : done[i] + chunk]
            ids += part
            positions += range(done[i], done[i] + len(part))
            done[i] += len(part)
        forwards.append({"input_ids": ids, "positions": positions})
    return forwards


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("chunk", [1, 5, 7])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_tokens_of_padded_chunked_and_interleaved_runs_are_the_same(
    is_left: bool, chunk: int, order: list[int]
) -> None:
    whole = flat(keys_of([padded(is_left)]))
    parts = flat(keys_of(interleaved(chunk, order), set(whole)))
    assert sorted(parts) == sorted(whole)


def test_packed_rows_begin_where_positions_or_lengths_say() -> None:
    ids = [token for s in SEQUENCES for token in s]
    positions = [i for s in SEQUENCES for i in range(len(s))]
    whole = sorted(flat(keys_of([padded(False)])))
    assert sorted(flat(keys_of([{"input_ids": [ids], "position_ids": [positions]}]))) == whole
    lengths = np.cumsum([0, *map(len, SEQUENCES)])
    assert sorted(flat(keys_of([{"input_ids": [ids], "cu_seq_lens_q": lengths}]))) == whole


def test_a_model_with_a_cache_is_compared_with_whole_sequences(tmp_path: Path) -> None:
    class Causal(torch.nn.Module):
        """Sums what it has seen, so that chunks need what was before them."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(VOCABULARY, 64)
            self.out = torch.nn.Linear(64, 64)

        def forward(self, input_ids: Any, position_ids: Any, before: Any = 0.0) -> Any:
            return self.out(self.embed(input_ids).cumsum(1) + before)

    torch.manual_seed(0)
    model = Causal()
    ids = torch.randint(VOCABULARY, (1, 12))
    record(tmp_path / "whole", model, {"input_ids": ids, "position_ids": torch.arange(12)[None]})
    chunks = [
        {
            "input_ids": ids[:, a : a + 5],
            "position_ids": torch.arange(a, min(a + 5, 12))[None],
            "before": model.embed(ids[:, :a]).sum(1, keepdim=True).detach(),
        }
        for a in range(0, 12, 5)
    ]
    record(tmp_path / "chunks", model, *chunks)
    assert list(tt.open(tmp_path / "chunks").steps) == [0, 1, 2]
    found = tt.diff(tmp_path / "whole", tmp_path / "chunks", align="tokens")
    assert (found.verdict, found.tokens) == ("rounding", 12)
    assert {pair.a for pair in found.pairs} >= {"out", "embed"}


# ---- inference


def test_each_forward_in_evaluation_is_a_step_and_outputs_are_as_without(tmp_path: Path) -> None:
    model = split(0).eval()
    with torch.inference_mode():
        plain = [model(IDS) for _ in range(3)]
        with tt.record(tmp_path / "run", model=model, keep=KEEP, inference=True):
            watched = [model(IDS) for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    run = tt.open(tmp_path / "run")
    assert list(run.steps) == [0, 1, 2]
    assert not [note for note in run.notes if "optimizer" in note.text]


def test_a_model_that_runs_in_another_thread_is_recorded(tmp_path: Path) -> None:
    model = split(0).eval()

    def work() -> None:
        with torch.no_grad():
            model(IDS)

    with tt.record(tmp_path / "thread", model=model, keep=KEEP, inference=True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    record(tmp_path / "here", model, IDS)
    found = tt.diff(tmp_path / "here", tmp_path / "thread", align="tokens")
    assert (found.verdict, found.tokens) == ("rounding", IDS.numel())


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import torch
from two_models import split, fused
from test_compare_models import IDS
model = {make}
model.eval()
with torch.inference_mode():
    for _ in range(2):
        print(float(model(IDS).sum()))
"""


def run_command(*words: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tensortap", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_records_an_engine_and_names_the_layer(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    broken = "fused(split(0)); model.blocks[1].n1.eps = 1e-2"
    for name, make in (("a", "split(0)"), ("b", "fused(split(0))"), ("c", broken)):
        script = tmp_path / f"{name}.py"
        script.write_text(PROGRAM.format(folder=here, make=make))
        options = ("--inference", "--keep", KEEP, "-o", f"run_{name}")
        done = run_command("run", *options, script, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        if name == "a":
            plain = [sys.executable, script]
            without = subprocess.run(plain, capture_output=True, text=True, timeout=60)
            assert done.stdout == without.stdout
    same = run_command("diff", "--align", "tokens", "run_a", "run_b", folder=tmp_path)
    assert same.returncode == 0, same.stderr
    assert "the same but for rounding" in same.stdout
    words = ("diff", "--align", "tokens", "--write-map", "map.json", "run_a", "run_c")
    parts = run_command(*words, folder=tmp_path)
    assert parts.returncode == 1
    assert "they part at layers.1.input_layernorm = blocks.1.n1" in parts.stdout
    assert "look at eps" in parts.stdout
    pairs = json.loads((tmp_path / "map.json").read_text())["pairs"]
    assert pairs["layers.1.self_attn.o_proj"] == "blocks.1.wo"
    words = ("diff", "--align", "tokens", "--map", "map.json", "--json", "run_a", "run_c")
    answer = json.loads(run_command(*words, folder=tmp_path).stdout)
    assert answer["first"]["a"] == "layers.1.input_layernorm"
    by_name = run_command("diff", "run_a", "run_c", folder=tmp_path)
    assert "\ntensortap diff --align tokens run_a run_c\n" in by_name.stdout
    weights = run_command("diff", "--weights", "run_a", "run_c", folder=tmp_path)
    assert weights.returncode == 0, weights.stdout


DIES = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import torch, tensortap as tt
from two_models import fused, split
from test_compare_models import IDS
model = fused(split(0)).eval()
def die(*_):
    run.flush()
    os.kill(os.getpid(), signal.SIGKILL)
with torch.no_grad(), tt.record("dead", model=model, keep="stats,tokens", inference=True) as run:
    model(IDS)
    model.blocks[1].down.register_forward_hook(die)
    model(IDS.flip(1))
"""


def test_an_engine_that_dies_leaves_what_it_had_done(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text(DIES.format(folder=str(Path(__file__).parent)))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    record(tmp_path / "whole", split(0), {"input_ids": IDS}, {"input_ids": IDS.flip(1)})
    found = tt.diff(tmp_path / "whole", tmp_path / "dead", align="tokens")
    assert (found.verdict, found.tokens) == ("rounding", IDS.numel()), found
    assert f"; {IDS.numel()} only in {tmp_path / 'whole'}" in found.shared
    text = "it ended in the middle of forward 1, whose tokens are left out"
    assert f"{tmp_path / 'dead'}: {text}" in found.notes
    assert len(found.pairs) > 25


# ---- weights


def weights_of(folder: Path, a: Any, b: Any) -> str:
    record(folder / "a", a, IDS)
    record(folder / "b", b, IDS)
    done = run_command("diff", "--weights", "a", "b", folder=folder)
    return f"{done.returncode}: {done.stdout}{done.stderr}"


def test_weights_are_equal_rounded_different_or_missing(tmp_path: Path) -> None:
    a, b = split(0), split(0)
    with torch.no_grad():
        b.layers[0].mlp.down_proj.weight[3] += 1
        b.layers[1].input_layernorm.weight.copy_(
            b.layers[1].input_layernorm.weight.to(torch.bfloat16).float()
        )
        b.layers[2].self_attn.o_proj.weight.normal_()
    text = weights_of(tmp_path, a, b)
    assert text.startswith("1: ")
    assert "1 are equal after rounding to bfloat16" in text
    assert "layers.0.mlp.down_proj.weight: 1 of 64 rows differ" in text
    assert "layers.2.self_attn.o_proj.weight: its content differs" in text


def test_fused_and_renamed_weights_are_found(tmp_path: Path) -> None:
    a = split(0)
    text = weights_of(tmp_path, a, fused(a))
    assert text.startswith("0: ")
    assert "no counterpart" not in text
