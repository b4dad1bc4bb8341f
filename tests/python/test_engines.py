"""Engines that nobody here wrote, against the model that they were given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import tensortap as tt  # noqa: E402

KEEP = "stats,tokens"
LENGTHS = (17, 9, 23)


def sequences(vocabulary: int) -> list[list[int]]:
    g = torch.Generator().manual_seed(1)
    return [torch.randint(3, vocabulary, (n,), generator=g).tolist() for n in LENGTHS]


def padded(rows: list[list[int]]) -> dict[str, Any]:
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def qwen(seed: int = 0) -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.Qwen2Config(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.Qwen2ForCausalLM(config).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.08 + ("norm" in name))
    return model


@pytest.mark.heavy
def test_continuous_batching_of_transformers_is_its_own_model(tmp_path: Path) -> None:
    model = qwen()
    from transformers import ContinuousBatchingConfig, GenerationConfig

    batching = ContinuousBatchingConfig(
        page_size=32,
        num_blocks=16,
        max_batch_tokens=32,
        max_requests_per_batch=4,
        use_async_batching=False,
        allow_block_sharing=False,
    )
    options = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    rows = sequences(256)

    def generate() -> list[list[int]]:
        found = model.generate_batch(
            inputs=rows,
            generation_config=options,
            continuous_batching_config=batching,
            warmup=False,
        )
        return [one.generated_tokens for one in found.values()]

    plain = generate()
    with tt.record(tmp_path / "engine", model=model, keep=KEEP, inference=True, grads=None):
        watched = generate()
    assert watched == plain
    model.set_attn_implementation("sdpa")
    whole = padded([row + new for row, new in zip(rows, plain, strict=True)])
    with (
        torch.no_grad(),
        tt.record(tmp_path / "trainer", model=model, keep=KEEP, inference=True, grads=None),
    ):
        model(**whole)
    found = tt.diff(tmp_path / "trainer", tmp_path / "engine", align="tokens")
    assert found.verdict == "rounding", found
    assert found.tokens >= sum(LENGTHS) + 3 * 5
    assert len(found.pairs) > 30


# ---- vLLM, in a venv of its own: TENSORTAP_VLLM names its Python

SERVE = """
import json, os, sys
os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    HF_HUB_OFFLINE="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_CPU_OMP_THREADS_BIND="nobind",
)
if __name__ == "__main__":
    from vllm import LLM, SamplingParams

    folder, rows = sys.argv[1], json.loads(sys.argv[2])
    llm = LLM(folder, dtype="float32", enforce_eager=True, max_model_len=256,
              max_num_batched_tokens=32, max_num_seqs=4, enable_prefix_caching=False)
    done = llm.generate([{"prompt_token_ids": row} for row in rows],
                        SamplingParams(temperature=0, max_tokens=6, ignore_eos=True))
    print("TOKENS", json.dumps([list(one.outputs[0].token_ids) for one in done]))
"""


def save(model: Any, folder: Path) -> None:
    """Save a model with a tokenizer of bytes, as vLLM wants one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=letters[0]).save_pretrained(
        folder
    )
    model.save_pretrained(folder)


@pytest.mark.heavy
@pytest.mark.skipif("TENSORTAP_VLLM" not in os.environ, reason="TENSORTAP_VLLM names no Python")
def test_vllm_is_the_model_that_it_was_given_and_a_fault_is_named(tmp_path: Path) -> None:
    model, rows = qwen(), sequences(256)
    save(model, tmp_path / "model")
    script = tmp_path / "serve.py"
    script.write_text(SERVE)
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "tensortap").symlink_to(Path(tt.__file__).parent)
    python = os.environ["TENSORTAP_VLLM"]
    environment = os.environ | {"PYTHONPATH": str(packages), "TENSORTAP_PYTHON": python}
    program = [str(Path(sys.executable).parent / "tensortap"), "run", "--inference", "--keep", KEEP]

    def serve(*before: str) -> Any:
        words = [*before, str(script), str(tmp_path / "model"), json.dumps(rows)]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-2000:]
        line = next(x for x in done.stdout.splitlines() if x.startswith("TOKENS"))
        return json.loads(line.partition(" ")[2])

    new = serve(*program, "-o", "engine")
    assert new == serve(python)
    whole = padded([row + more for row, more in zip(rows, new, strict=True)])
    for name in ("trainer", "broken"):
        if name == "broken":
            model.model.layers[1].input_layernorm.variance_epsilon = 1e-3
        with (
            torch.no_grad(),
            tt.record(tmp_path / name, model=model, keep=KEEP, inference=True, grads=None),
        ):
            model(**whole)
    found = tt.diff(tmp_path / "trainer", tmp_path / "engine", align="tokens")
    assert found.verdict == "rounding", found
    assert found.tokens == sum(LENGTHS) + 3 * 5
    same, of, _ = found.parameters
    assert same == of
    names = {(pair.a, pair.b) for pair in found.pairs}
    at = "model.layers.1"
    assert (f"{at}.self_attn.q_proj|k_proj|v_proj", f"{at}.self_attn.qkv_proj") in {
        (a, b.partition("[")[0]) for a, b in names
    }
    assert (at, f"{at}[0]+[1]") in names
    first = tt.diff(tmp_path / "broken", tmp_path / "engine", align="tokens").first
    assert first is not None
    assert first.a == f"{at}.input_layernorm"


# ---- engines without modules


def test_arrays_of_any_library_are_compared_with_a_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 64), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)
    ).eval()
    ids = torch.randint(50, (2, 7))
    with torch.no_grad(), tt.record(tmp_path / "torch", model=model, keep=KEEP, inference=True):
        model(ids)
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    x = weights["0.weight"][ids.numpy()]
    y = x @ weights["1.weight"].T + weights["1.bias"]
    z = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    renamed = {
        "wte.table": weights["0.weight"],
        "dense.kernel": np.ascontiguousarray(weights["1.weight"].T),
        "dense.bias": weights["1.bias"],
    }
    for name, bad in (("good", 0.0), ("bad", 1e-2)):
        outputs = {"input_ids": ids.numpy(), "wte": x, "dense": y + bad, "norm": z + bad}
        tt.record_arrays(tmp_path / name, outputs, weights=renamed)
    good = tt.diff(tmp_path / "torch", tmp_path / "good", align="tokens")
    assert good.verdict == "rounding", good
    pairs = {pair.a: pair.b for pair in good.pairs}
    assert (pairs["0"], pairs["1"], pairs["2"]) == ("wte", "dense", "norm")
    first = tt.diff(tmp_path / "torch", tmp_path / "bad", align="tokens").first
    assert first is not None
    assert (first.a, first.b) == ("1", "dense")
