"""How well tt.compare_models names faults, on pairs that nobody looked at while it was made.

    held_out.py SET [SEEDS] [FIRST SEED]

Models of transformers and timm against the implementations of ports.py.  Each set has its own
architectures: `first` were known when the rule was made, the others were each measured before they
were looked at.  Prints
counts: pairs that differ by rounding only and were called different, faults whose layer and module
were named.  In bfloat16, a fault is more than rounding if the median token of what its module
returns moves by more than 2^-7, which is two roundings.
SPDX-License-Identifier: Apache-2.0
"""

import copy
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ports
import torch
from torch import nn
from torch.nn import functional

import tensortap as tt
from tensortap.implementations.comparison import folded

SETS: dict[str, dict[str, Callable[[int, int, int], ports.Pair]]] = {
    "first": {
        "GPT-2": ports.gpt2,
        "LLaMA": partial(ports.llama_like, "Llama"),
        "Qwen2": partial(ports.llama_like, "Qwen2"),
        "BERT": ports.bert,
        "OPT": ports.opt,
        "ViT": ports.vit,
    },
    "second": {
        "GPT-NeoX": ports.neox,
        "Mistral": partial(ports.llama_like, "Mistral"),
        "DistilBERT": ports.distilbert,
        "timm ViT": ports.timm_vit,
        "timm ResNet": ports.resnet,
    },
    "third": {
        "Phi": ports.phi,
        "Gemma": partial(ports.llama_like, "Gemma"),
        "T5": ports.t5,
        "Qwen3": partial(ports.llama_like, "Qwen3"),
        "timm mixer": ports.mixer,
    },
    "fourth": {
        "Starcoder2": partial(ports.decoder, "Starcoder2"),
        "StableLM": partial(ports.decoder, "StableLm"),
        "Nemotron": partial(ports.decoder, "Nemotron"),
        "RoBERTa": partial(ports.bert, kind="Roberta"),
        "timm DeiT": partial(ports.timm_vit, is_distilled=True),
    },
}
KEEP = "stats,tokens"
BF16, F32 = torch.bfloat16, torch.float32
counts: Counter[str] = Counter()
wrong: list[tuple[Any, ...]] = []
left: Counter[tuple[str, ...]] = Counter()  # sites of the port without a partner
folder = Path(tempfile.mkdtemp())


def recorded(model: nn.Module, *calls: dict[str, Any], threads: int = 1) -> Path:
    """Record calls of a model; a cache that one returns goes to the next."""
    path = folder / str(counts["runs"])
    counts["runs"] += 1
    torch.set_num_threads(threads)
    cache = None
    with (
        torch.no_grad(),
        tt.record(path, model=model.eval(), keep=KEEP, inference=True, grads=None),
    ):
        for call in calls:
            out = model(**call, **({} if cache is None else {"past_key_values": cache}))
            cache = getattr(out, "past_key_values", None)
    torch.set_num_threads(1)
    return path


def differ(a: Path, b: Path) -> tt.Comparison:
    """Compare two runs and remove them."""
    found = tt.diff(a, b, align="tokens")
    for path in (a, b):
        shutil.rmtree(path)
    return found


def given(pair: ports.Pair, dtype: torch.dtype = F32) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of both models."""
    x = pair.x if pair.is_text else pair.x.to(dtype)
    return {pair.name: x}, {"ids" if pair.is_text else "x": x}


def layouts(pair: ports.Pair) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield other layouts of the same tokens, for the first model."""
    ids = pair.x
    pad = torch.zeros(len(ids), 5, dtype=ids.dtype)
    ones = torch.ones_like(ids)
    right = {"input_ids": torch.cat([ids, pad + 7], 1), "attention_mask": torch.cat([ones, pad], 1)}
    yield "padded right", right
    if pair.has_positions:
        mask = torch.cat([pad, ones], 1)
        at = (mask.cumsum(1) - 1).clamp(min=0)
        left = torch.cat([pad + 7, ids], 1)
        yield "padded left", {"input_ids": left, "attention_mask": mask, "position_ids": at}
        at = torch.arange(ids.shape[1]).repeat(len(ids))[None]
        # With a cache, transformers takes what is packed for one sequence.
        packed = {"input_ids": ids.reshape(1, -1), "position_ids": at, "use_cache": False}
        yield "packed", packed


def benign(make: Callable[[], ports.Pair], *, is_compiled: bool) -> Iterator[tuple[str, Any]]:
    """Yield comparisons of pairs that differ by rounding only."""
    for name, left, right in (("f32", F32, F32), ("bf16", BF16, BF16), ("f32 bf16", F32, BF16)):
        pair = make()
        a, b = pair.a.to(left), pair.b.to(right)
        x, y = given(pair, left)[0], given(pair, right)[1]
        yield f"port, {name}", tt.compare_models(a, b, x, y)
        yield f"port, recorded, {name}", differ(recorded(a, x), recorded(b, y))
        if name != "f32 bf16":
            threads = recorded(a, x), recorded(a, x, threads=2)
            yield f"threads, {name}", differ(*threads)
        if hasattr(a, "set_attn_implementation") and name != "f32 bf16":
            eager = copy.deepcopy(a)
            eager.set_attn_implementation("eager")
            yield f"eager, {name}", tt.compare_models(a, eager, x)
        if not pair.is_text:
            continue
        for layout, other in layouts(pair):
            yield f"{layout}, {name}", tt.compare_models(a, b, other, y)
        if pair.has_cache and left == right:
            parts = [{"input_ids": part, "use_cache": True} for part in pair.x.split(6, 1)]
            yield f"chunked, {name}", differ(recorded(a, x), recorded(a, *parts))
    if is_compiled:
        pair = make()
        x, y = given(pair)
        compiled = torch.compile(pair.b)
        yield "compiled, f32", differ(recorded(pair.a, x), recorded(compiled, y))


#: name -> the modules of a block of ports.py of which one must be named
FAULTS: dict[str, tuple[str, ...]] = {
    "eps": ("n1",),
    "one row": ("down",),
    "stale": ("up",),
    "transposed": ("attn.out", "attn"),
    "scale": ("attn.out", "attn"),
    "other activation": ("down",),
    "no mask": ("attn.out", "attn"),
    "other norm": ("n2",),
    "no bias": ("up",),
    "swapped q and k": ("attn.out", "attn", "attn.qkv"),
    "swapped gate and up": ("down", "up"),
    "rotary base": ("attn.out", "attn"),
    "position of one token": ("attn.out", "attn"),
}


def plant(block: ports.Block, fault: str) -> bool:
    """Break one block; return False if it has no such part."""
    plan, attn = block.plan, block.attn
    with torch.no_grad():
        if fault == "eps":
            block.n1.eps = 100 * max(block.n1.eps, 1e-5)
        elif fault == "one row":
            block.down.weight[5] *= 1.001
        elif fault == "stale":
            block.up.weight += 2e-4 * torch.randn(block.up.weight.shape).to(block.up.weight)
        elif fault == "transposed":
            if attn.out.in_features != attn.out.out_features:
                return False
            attn.out.weight.copy_(attn.out.weight.T.clone())
        elif fault == "scale":
            attn.scale = 1.0 if attn.scale is None else 0.3
        elif fault == "other activation":
            block.act = functional.gelu if plan.act is not functional.gelu else ports.gelu_tanh
        elif fault == "no mask":
            if not attn.is_causal:
                return False
            attn.is_causal = False
        elif fault == "other norm":
            if plan.order == "shared":
                return False
            block.n2.weight.copy_(block.n1.weight)
        elif fault == "no bias":
            if block.up.bias is None:
                return False
            block.up.bias.zero_()
        elif fault == "swapped q and k":
            if plan.groups:
                return False
            q, k, v = attn.qkv.weight.clone().chunk(3)
            attn.qkv.weight.copy_(torch.cat([k, q, v]))
        elif fault == "swapped gate and up":
            if not plan.is_gated:
                return False
            block.up.weight.copy_(block.up.weight.roll(plan.inner, 0))
        elif not plan.rotary:
            return False
        elif fault == "rotary base":
            attn.base = 2e4
        else:
            attn.shift = 1
    return True


def returned(model: nn.Module, site: str, inputs: dict[str, Any]) -> torch.Tensor:
    """Return what a module of a port returns, a row a token."""
    found = []
    hook = model.get_submodule(site).register_forward_hook(lambda _m, _x, out: found.append(out))
    with torch.no_grad():
        model.eval()(**inputs)
    hook.remove()
    return found[0].double().flatten(0, 1)


def measure_faults(
    name: str, make: Callable[[], ports.Pair], dtype: torch.dtype, seed: int
) -> None:
    """Plant each fault in one layer."""
    kind = str(dtype).rpartition(".")[2]
    pair = make()
    x, y = given(pair, dtype)
    sound = tt.compare_models(pair.a.to(dtype), pair.b.to(dtype), x, y)
    usual = {one.b: one.deviation for one in sound.pairs}
    for i, (fault, sites) in enumerate(FAULTS.items()):
        pair = make()
        blocks = getattr(pair.b, "blocks", ())
        if not blocks or not isinstance(blocks[0], ports.Block):
            return
        layer = (seed + i) % len(blocks)
        at = f"blocks.{layer}."
        a, b = pair.a.to(dtype), pair.b.to(dtype)
        x, y = given(pair, dtype)
        if not hasattr(blocks[layer], sites[0].partition(".")[0]):
            continue
        before = returned(b, at + sites[0], y)
        if not plant(blocks[layer], fault):
            continue
        after = returned(b, at + sites[0], y)
        rows = (after - before).norm(dim=1) / before.norm(dim=1)
        moved = float(rows.max() if fault == "position of one token" else rows.median())
        label = kind
        if moved == 0:
            counts[f"{kind}, no change at all"] += 1
            continue
        if dtype == BF16 and moved <= 2**-7:
            label += ", moved by less than two roundings"
        found = tt.compare_models(a, b, x, y)
        counts[f"{label}, faults"] += 1
        if dtype == F32:
            again = differ(recorded(a, x), recorded(b, y))
            places = [one.first and (one.first.a, one.first.b) for one in (found, again)]
            counts["recorded, faults"] += 1
            counts["recorded, the same first place"] += places[0] == places[1]
            if places[0] != places[1]:
                wrong.append((name, kind, fault, seed, "recorded:", *places))
        if found.first is None:
            by = f"moved by {moved:.1e}, where {usual.get(at + sites[0], -1):.1e} is usual"
            wrong.append((name, label, fault, seed, "not named", by))
            continue
        is_layer = found.first.b.startswith(at)
        is_site = is_layer and found.first.b.partition("[")[0] in {at + one for one in sites}
        counts[f"{label}, right layer"] += is_layer
        counts[f"{label}, right module"] += is_site
        if not is_site:
            where = f"{found.first.a} = {found.first.b}"
            wrong.append((name, label, fault, seed, layer, where, f"moved {moved:.1e}"))


def main(names: str, seeds: int, first: int) -> None:
    """Measure."""
    torch.set_num_threads(1)
    chosen = {name: make for one in names.split(",") for name, make in SETS[one].items()}
    for name, maker in chosen.items():
        for number, seed in enumerate(range(first, first + seeds)):
            width, layers = ((64, 3), (160, 2), (96, 4), (192, 3))[seed % 4]
            make = partial(maker, seed, width, layers)
            for label, found in benign(make, is_compiled=number == 0):
                counts["benign"] += 1
                counts["benign, sites"] += len(found.pairs)
                if found.verdict not in ("bits", "rounding"):
                    counts["benign, false"] += 1
                    wrong.append((name, "benign", label, seed, found.verdict, found.first))
                if found.unpaired_b:
                    counts["benign, sites of the port without a partner"] += len(found.unpaired_b)
                    for one in folded(found.unpaired_b):
                        left[name, one, label.partition(",")[0]] += 1
            for dtype in (F32, BF16):
                measure_faults(name, make, dtype, seed)
        print(name, "done", flush=True)
    del counts["runs"]
    for key, count in sorted(counts.items()):
        print(f"{count:5d} {key}")
    for one in wrong:
        print("  ", *one)
    for where, count in left.items():
        print("  without a partner:", *where, count)
    shutil.rmtree(folder)


if __name__ == "__main__":
    words = [*sys.argv[1:], *("first", "2", "500")[len(sys.argv) - 1 :]]
    main(words[0], int(words[1]), int(words[2]))
