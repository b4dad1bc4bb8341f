"""How well tt.compare_models names faults, on pairs that nobody looked at while it was made.

transformers' OPT and ViT against implementations of this file; new widths, depths and
seeds.  Prints counts: pairs that differ by rounding only and were called different, faults whose
layer and module were named.  A fault in bfloat16 counts as more than rounding if the output of its
module moves by more than 2^-8 of its size.
"""

import functools
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import OPTConfig, OPTModel, ViTConfig, ViTModel

import tensortap as tt

torch.set_num_threads(1)


class Block(nn.Module):
    """A layer with norms first; its q, k and v are one matrix."""

    def __init__(self, width: int, heads: int, inner: int, act: Callable[[Any], Any]) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.heads, self.act, self.scale, self.causal = heads, act, None, False

    def forward(self, x: Any) -> Any:
        b, t, w = x.shape
        q, k, v = (
            y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.causal, scale=self.scale
        )
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.down(self.act(self.up(self.n2(x))))


def fill(model: nn.Module, seed: int) -> None:
    """Give every parameter a content of its own."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_norm = "norm" in name.lower() and name.endswith("weight")
            p.copy_(torch.randn(p.shape, generator=g) * (0.3 / p.shape[-1] ** 0.5) + is_norm)


def copy(to: nn.Linear, *layers: Any) -> None:
    """Put the weights of some layers behind each other into one."""
    with torch.no_grad():
        to.weight.copy_(torch.cat([one.weight for one in layers]))
        to.bias.copy_(torch.cat([one.bias for one in layers]))


class Opt(nn.Module):
    """OPT with fused q, k, v."""

    def __init__(self, model: OPTModel) -> None:
        super().__init__()
        c, d = model.config, model.decoder
        self.tokens, self.places = (
            nn.Embedding(c.vocab_size, c.hidden_size),
            nn.Embedding(*d.embed_positions.weight.shape),
        )
        self.blocks = nn.ModuleList()
        for layer in d.layers:
            a = layer.self_attn
            block = Block(c.hidden_size, c.num_attention_heads, c.ffn_dim, functional.relu)
            block.causal = True
            copy(block.qkv, a.q_proj, a.k_proj, a.v_proj)
            copy(block.out, a.out_proj)
            copy(block.up, layer.fc1)
            copy(block.down, layer.fc2)
            copy_norm(block.n1, layer.self_attn_layer_norm)
            copy_norm(block.n2, layer.final_layer_norm)
            self.blocks.append(block)
        self.norm = nn.LayerNorm(c.hidden_size)
        copy_norm(self.norm, d.final_layer_norm)
        with torch.no_grad():
            self.tokens.weight.copy_(d.embed_tokens.weight)
            self.places.weight.copy_(d.embed_positions.weight)

    def forward(self, input_ids: Any) -> Any:
        x = self.tokens(input_ids) + self.places(torch.arange(input_ids.shape[1]) + 2)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def copy_norm(to: nn.LayerNorm, norm: Any) -> None:
    """Copy a norm."""
    to.eps = norm.eps
    with torch.no_grad():
        to.weight.copy_(norm.weight)
        to.bias.copy_(norm.bias)


def find(parts: dict[str, nn.Module], *words: str) -> Any:
    """Return the first module whose name ends like this."""
    return next(m for n, m in parts.items() if n.endswith(words))


class Vit(nn.Module):
    """ViT on torch's own encoder."""

    def __init__(self, model: ViTModel) -> None:
        super().__init__()
        c, e = model.config, model.embeddings
        self.patches = nn.Conv2d(3, c.hidden_size, c.patch_size, c.patch_size)
        self.first = nn.Parameter(e.cls_token.detach().clone())
        self.places = nn.Parameter(e.position_embeddings.detach().clone())
        copy(self.patches, e.patch_embeddings.projection)
        make = nn.TransformerEncoderLayer
        options = (c.hidden_size, c.num_attention_heads, c.intermediate_size, 0.0, functional.gelu)
        self.layers = nn.ModuleList(
            make(*options, c.layer_norm_eps, batch_first=True, norm_first=True)
            for _ in range(c.num_hidden_layers)
        )
        layers = model.layers if hasattr(model, "layers") else model.encoder.layer
        for mine, layer in zip(self.layers, layers, strict=True):
            parts = dict(layer.named_modules())
            pick = functools.partial(find, parts)
            q, k, v = pick("q_proj", "query"), pick("k_proj", "key"), pick("v_proj", "value")
            with torch.no_grad():
                mine.self_attn.in_proj_weight.copy_(torch.cat([q.weight, k.weight, v.weight]))
                mine.self_attn.in_proj_bias.copy_(torch.cat([q.bias, k.bias, v.bias]))
            copy(mine.self_attn.out_proj, pick("o_proj", "attention.output.dense"))
            copy(mine.linear1, pick("fc1", "intermediate.dense"))
            last = [m for n, m in parts.items() if n.endswith(("fc2", "output.dense"))]
            copy(mine.linear2, last[-1])
            copy_norm(mine.norm1, pick("layernorm_before"))
            copy_norm(mine.norm2, pick("layernorm_after"))
        self.norm = nn.LayerNorm(c.hidden_size)
        copy_norm(self.norm, model.layernorm)

    def forward(self, pixel_values: Any) -> Any:
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def opt(seed: int, width: int, layers: int) -> tuple[nn.Module, nn.Module, Any]:
    """Make a pair."""
    config = OPTConfig(
        vocab_size=97,
        hidden_size=width,
        ffn_dim=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=64,
        word_embed_proj_dim=width,
        dropout=0.0,
        pad_token_id=1,
    )
    a = OPTModel(config)
    fill(a, seed)
    ids = torch.randint(3, 97, (3, 19), generator=torch.Generator().manual_seed(seed))
    return a, Opt(a), {"input_ids": ids}


def vit(seed: int, width: int, layers: int) -> tuple[nn.Module, nn.Module, Any]:
    """Make a pair."""
    config = ViTConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        image_size=24,
        patch_size=4,
    )
    a = ViTModel(config, add_pooling_layer=False)
    fill(a, seed)
    g = torch.Generator().manual_seed(seed)
    return a, Vit(a), {"pixel_values": torch.randn(2, 3, 24, 24, generator=g)}


#: name -> (module of Opt's block that is changed, words that the named module must hold)
FAULTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "eps": ("n1", ("self_attn_layer_norm", "n1", "norm1", "layernorm_before")),
    "one row": ("down", ("fc2", "down", "linear2")),
    "stale": ("up", ("fc1", "up", "linear1")),
    "transposed": ("out", ("out_proj", "out", "self_attn", "attention")),
    "scale": ("scale", ("out_proj", "out", "self_attn", "attention")),
    "gelu": ("act", ("fc2", "down", "activation")),
    "no mask": ("causal", ("out_proj", "out", "self_attn")),
    "other norm": ("n2", ("final_layer_norm", "n2")),
    "no bias": ("up", ("fc1", "up")),
    "swapped q and k": ("qkv", ("out_proj", "out", "self_attn", "qkv", "q_proj")),
}


def plant(block: Block, fault: str) -> None:
    """Break one block of Opt."""
    with torch.no_grad():
        if fault == "eps":
            block.n1.eps = 3e-4
        elif fault == "one row":
            block.down.weight[5] *= 1.001
        elif fault == "stale":
            block.up.weight += 2e-4 * torch.randn(block.up.weight.shape).to(block.up.weight)
        elif fault == "transposed":
            block.out.weight.copy_(block.out.weight.T.clone())
        elif fault == "scale":
            block.scale = 1.0
        elif fault == "gelu":
            block.act = functional.gelu
        elif fault == "no mask":
            block.causal = False
        elif fault == "other norm":
            block.n2.weight.copy_(block.n1.weight)
        elif fault == "no bias":
            block.up.bias.zero_()
        elif fault == "swapped q and k":
            q, k, v = block.qkv.weight.clone().chunk(3)
            block.qkv.weight.copy_(torch.cat([k, q, v]))


def last_output(model: nn.Module, inputs: Any) -> torch.Tensor:
    """Return what the model computes."""
    with torch.no_grad():
        out = model.eval()(**inputs)
    return (out if torch.is_tensor(out) else out.last_hidden_state).float()


def main(seeds: int) -> None:
    """Measure."""
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(100, 100 + seeds):
        for make, width, layers in ((opt, 96, 3), (vit, 80, 4), (opt, 160, 5)):
            for dtype in (torch.float32, torch.bfloat16):
                a, b, inputs = make(seed, width, layers)
                given = {k: x.to(dtype) if x.is_floating_point() else x for k, x in inputs.items()}
                found = tt.compare_models(a.to(dtype), b.to(dtype), given)
                counts["benign"] += 1
                counts["benign, paired sites"] += len(found.pairs)
                if found.verdict not in ("bits", "rounding"):
                    counts["benign, false"] += 1
                    wrong.append((make.__name__, width, str(dtype), seed, str(found.first)))
                if make is not opt:
                    continue
                for i, fault in enumerate(FAULTS):
                    layer = (seed + i) % layers
                    a, b, inputs = make(seed, width, layers)
                    a, b = a.to(dtype), b.to(dtype)
                    before = last_output(b, inputs)
                    plant(b.blocks[layer], fault)
                    moved = (last_output(b, inputs) - before).norm() / before.norm()
                    kind = str(dtype).rpartition(".")[2]
                    if moved == 0:
                        counts[f"{kind}, no change at all"] += 1
                        continue
                    if dtype == torch.bfloat16 and moved < 2**-8:
                        kind += ", output moves by less than 2^-8"
                    found = tt.compare_models(a, b, inputs)
                    counts[f"{kind}, faults"] += 1
                    if found.first is None:
                        wrong.append((width, kind, fault, seed, "not named", f"{float(moved):.1e}"))
                        continue
                    name = f"{found.first.a} {found.first.b}"
                    is_layer = f"layers.{layer}." in name or f"blocks.{layer}" in name
                    counts[f"{kind}, right layer"] += is_layer
                    is_module = any(word in name for word in FAULTS[fault][1])
                    counts[f"{kind}, right module"] += is_layer and is_module
                    if not (is_layer and is_module):
                        wrong.append((width, kind, fault, seed, name))
    for name, count in sorted(counts.items()):
        print(f"{count:5d} {name}")
    for one in wrong[:30]:
        print("  ", *one)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
