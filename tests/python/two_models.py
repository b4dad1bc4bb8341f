"""One small transformer, written twice: its layers separate and fused, under other names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 3, 50


class RootMeanSquare(nn.Module):
    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(WIDTH)), eps

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x: Any, base: float, positions: Any) -> Any:
    half = x.shape[-1] // 2
    angles = positions[..., None] / base ** (torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attend(
    q: Any, k: Any, v: Any, base: float, scale: float | None, shift: int, causal: bool
) -> Any:
    batch, length, _ = q.shape
    q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in (q, k, v))
    positions = torch.arange(length)
    positions = torch.where(positions == 5, positions + shift, positions)
    q, k = rotate(q, base, positions), rotate(k, base, positions)
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return out.transpose(1, 2).reshape(batch, length, WIDTH)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in "qkv")
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        out = attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), 1e4, None, 0, True)
        return self.o_proj(out)


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in "gu")
        self.act_fn, self.down_proj = nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.self_attn = RootMeanSquare(), Attention()
        self.post_attention_layernorm, self.mlp = RootMeanSquare(), Feed()

    def forward(self, x: Any) -> Any:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Split(nn.Module):
    """As a trainer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.lm_head = RootMeanSquare(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class Norm(RootMeanSquare):
    """With the residual stream inside, as engines have it."""

    def forward(self, x: Any, residual: Any = None) -> Any:
        if residual is None:
            return super().forward(x)
        return super().forward(x + residual), x + residual


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.qkv, self.wo = (
            Norm(),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH, bias=False),
        )
        self.n2, self.gu = Norm(), nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.base, self.scale, self.shift, self.causal = 1e4, None, 0, True
        self.activation: Any = functional.silu

    def forward(self, x: Any, residual: Any) -> Any:
        normed, residual = self.n1(x, residual)
        q, k, v = self.qkv(normed).chunk(3, -1)
        x = self.wo(attend(q, k, v, self.base, self.scale, self.shift, self.causal))
        normed, residual = self.n2(x, residual)
        gate, up = self.gu(normed).chunk(2, -1)
        return self.down(self.activation(gate) * up), residual


class Fused(nn.Module):
    """As an inference engine has it."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final, self.head = Norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.emb(ids)
        residual = torch.zeros_like(x)
        for block in self.blocks:
            x, residual = block(x, residual)
        return self.head(self.final(x + residual))


def split(seed: int = 0, spread: bool = True) -> Split:
    """Return a model; *spread*: norms are not all ones."""
    torch.manual_seed(seed)
    model = Split()
    if spread:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def fused(model: Split) -> Fused:
    """Return the other implementation, with the same weights."""
    other = Fused()
    with torch.no_grad():
        other.emb.weight.copy_(model.embed_tokens.weight)
        other.final.weight.copy_(model.norm.weight)
        other.head.weight.copy_(model.lm_head.weight)
        for layer, block in zip(model.layers, other.blocks, strict=True):
            attention, feed = layer.self_attn, layer.mlp
            parts = (attention.q_proj, attention.k_proj, attention.v_proj)
            block.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            block.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            block.wo.weight.copy_(attention.o_proj.weight)
            block.gu.weight.copy_(torch.cat([feed.gate_proj.weight, feed.up_proj.weight]))
            block.down.weight.copy_(feed.down_proj.weight)
            block.n1.weight.copy_(layer.input_layernorm.weight)
            block.n2.weight.copy_(layer.post_attention_layernorm.weight)
    return other.to(next(model.parameters()).dtype)
