"""Other implementations of public models, for held_out.py: fused, renamed, written plainly.

`Port` is a stack of layers that a `Plan` describes; each function at the end makes a pair: a model
of transformers or timm, its port with the same weights, and inputs for both.
SPDX-License-Identifier: Apache-2.0
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import transformers as hf
from torch import nn
from torch.nn import functional

VOCABULARY = 97


def silu(x: Any) -> Any:
    """Return SiLU, written by hand."""
    return x * torch.sigmoid(x)


def gelu_tanh(x: Any) -> Any:
    """Return GELU's approximation."""
    return functional.gelu(x, approximate="tanh")


@dataclass
class Plan:
    """What a layer of a port is made of."""

    width: int
    heads: int
    inner: int
    groups: int = 0  # heads of keys and values; 0: as many as heads
    act: Callable[[Any], Any] = functional.gelu
    is_gated: bool = False
    norm: str = "layer"  # or "rms", "layer+1", "rms+1"
    order: str = "pre"  # or "post", "parallel", "shared" (parallel, with one norm)
    eps: float = 1e-5
    bias: bool = True
    rotary: float = 0.0  # the share of a head that is turned
    is_causal: bool = True
    head_norm: bool = False  # norms of queries and keys
    scale: float | None = None
    head: int = 0  # features of a head; 0: width / heads


class Norm(nn.Module):
    """A layer norm or a root mean square norm, written by hand."""

    def __init__(self, width: int, kind: str, eps: float) -> None:
        super().__init__()
        self.weight, self.kind, self.eps = nn.Parameter(torch.ones(width)), kind, eps
        self.bias = nn.Parameter(torch.zeros(width)) if "layer" in kind else None

    def forward(self, x: Any) -> Any:
        """Norm each token, in float32."""
        y = x.float()
        if "layer" in self.kind:
            y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        if self.kind == "rms+1":
            return (y * (1 + self.weight.float())).to(x.dtype)
        if self.kind == "layer+1":
            return (y * (1 + self.weight.float()) + self.bias.float()).to(x.dtype)
        y = y.to(x.dtype) * self.weight
        return y if self.bias is None else y + self.bias


class Attention(nn.Module):
    """Attention with queries, keys and values from one weight."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.groups = plan.groups or plan.heads
        self.head = plan.head or plan.width // plan.heads
        sizes = plan.heads * self.head, self.groups * self.head
        self.sizes = [sizes[0], sizes[1], sizes[1]]
        self.qkv = nn.Linear(plan.width, sum(self.sizes), bias=plan.bias)
        self.out = nn.Linear(sizes[0], plan.width, bias=plan.bias)
        if plan.head_norm:
            self.qn, self.kn = (Norm(self.head, plan.norm, plan.eps) for _ in "qk")
        self.base, self.scale, self.is_causal, self.shift = 1e4, plan.scale, plan.is_causal, 0

    def turn(self, x: Any) -> Any:
        """Turn pairs of features by an angle that grows with the position."""
        n = int(self.head * self.plan.rotary)
        if n == 0:
            return x
        at = torch.arange(x.shape[-2])
        at = torch.where(at == 4, at + self.shift, at).float()
        angles = at[:, None] / self.base ** (torch.arange(0, n, 2).float() / n)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b, rest = x[..., : n // 2], x[..., n // 2 : n], x[..., n:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def forward(self, x: Any, bias: Any = None) -> Any:
        """Gather."""
        b, t, _ = x.shape
        q, k, v = (
            y.view(b, t, -1, self.head).transpose(1, 2) for y in self.qkv(x).split(self.sizes, -1)
        )
        if self.plan.head_norm:
            q, k = self.qn(q), self.kn(k)
        q, k = self.turn(q), self.turn(k)
        k, v = (y.repeat_interleave(self.plan.heads // self.groups, 1) for y in (k, v))
        y = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, is_causal=self.is_causal and bias is None, scale=self.scale
        )
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Block(nn.Module):
    """One layer."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.act = plan, plan.act
        self.n1 = Norm(plan.width, plan.norm, plan.eps)
        self.attn = Attention(plan)
        if plan.order != "shared":
            self.n2 = Norm(plan.width, plan.norm, plan.eps)
        self.up = nn.Linear(plan.width, plan.inner * (1 + plan.is_gated), bias=plan.bias)
        self.down = nn.Linear(plan.inner, plan.width, bias=plan.bias)

    def feed(self, x: Any) -> Any:
        """Return what the perceptron adds."""
        y = self.up(x)
        if self.plan.is_gated:
            gate, y = y.chunk(2, -1)
            return self.down(self.act(gate) * y)
        return self.down(self.act(y))

    def forward(self, x: Any, bias: Any = None) -> Any:
        """Add what attention and perceptron find."""
        if self.plan.order == "post":
            x = self.n1(x + self.attn(x, bias))
            return self.n2(x + self.feed(x))
        if self.plan.order == "shared":
            y = self.n1(x)
            return x + self.attn(y, bias) + self.feed(y)
        if self.plan.order == "parallel":
            return x + self.attn(self.n1(x), bias) + self.feed(self.n2(x))
        x = x + self.attn(self.n1(x), bias)
        return x + self.feed(self.n2(x))


class Port(nn.Module):
    """A stack of layers behind an embedding of tokens."""

    def __init__(self, plan: Plan, layers: int, table: Any, places: Any = None) -> None:
        super().__init__()
        self.tokens = nn.Embedding(*table.weight.shape)
        self.places = None if places is None else nn.Embedding(*places.weight.shape)
        put(self.tokens, table)
        if self.places is not None:
            put(self.places, places)
        self.blocks = nn.ModuleList(Block(plan) for _ in range(layers))
        self.first: Norm | None = None  # a norm of the embeddings
        self.norm: Norm | None = None
        self.offset, self.factor = 0, 1.0
        self.distances: nn.Embedding | None = None  # T5's

    def forward(self, ids: Any) -> Any:
        """Return the last hidden states."""
        x = self.tokens(ids)
        x = x * torch.tensor(self.factor, dtype=x.dtype) if self.factor != 1 else x
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1]) + self.offset)
        x = x if self.first is None else self.first(x)
        bias = None
        if self.distances is not None:
            at = torch.arange(ids.shape[1])
            bucket = hf.models.t5.modeling_t5.T5Attention._relative_position_bucket
            bias = self.distances(bucket(at[None] - at[:, None], True, 32, 128)).permute(2, 0, 1)
        for block in self.blocks:
            x = block(x, bias)
        return x if self.norm is None else self.norm(x)


class Picture(nn.Module):
    """A stack of layers behind patches of a picture."""

    def __init__(self, plan: Plan, layers: int, patch: Any, first: Any, places: Any) -> None:
        super().__init__()
        out, channels, size, _ = patch.weight.shape
        self.patches = nn.Conv2d(channels, out, size, size)
        put(self.patches, patch)
        self.first = nn.Parameter(first.detach().clone())
        self.places = nn.Parameter(places.detach().clone())
        self.blocks = nn.ModuleList(Block(plan) for _ in range(layers))
        self.norm = Norm(plan.width, plan.norm, plan.eps)

    def forward(self, x: Any) -> Any:
        """Return the last hidden states."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def put(to: Any, *layers: Any) -> None:
    """Put the weights of some layers behind each other into one."""
    with torch.no_grad():
        to.weight.copy_(torch.cat([one.weight for one in layers]))
        if getattr(to, "bias", None) is not None:
            to.bias.copy_(torch.cat([one.bias for one in layers]))


def fill(model: nn.Module, seed: int) -> None:
    """Give every parameter a content of its own, of the size that training leaves."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_norm = p.ndim == 1 and "norm" in name.lower() and name.endswith("weight")
            is_norm = is_norm or (p.ndim == 1 and "ln_" in name and name.endswith("weight"))
            size = 0.25 if p.ndim == 1 else 1.5 / math.prod(p.shape[1:]) ** 0.5
            p.copy_(torch.randn(p.shape, generator=g) * size * (0.4 if is_norm else 1) + is_norm)


@dataclass
class Pair:
    """A model, its port, and inputs for both."""

    a: nn.Module
    b: nn.Module
    x: torch.Tensor
    name: str = "input_ids"  # of the argument of the first
    has_positions: bool = False
    has_cache: bool = False
    only: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_text(self) -> bool:
        """Whether it is given ids."""
        return not self.x.is_floating_point()


def ids_of(seed: int, rows: int = 3, length: int = 17) -> torch.Tensor:
    """Return random ids."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (rows, length), generator=g)


def text(model: Any, port: Port, seed: int, **options: Any) -> Pair:
    """Return a pair of language models."""
    return Pair(model, port, ids_of(seed), **options)


def copy_blocks(port: Any, layers: Any, parts: dict[str, tuple[str, ...]]) -> None:
    """Copy weights: name in a block -> names in a layer, which stand behind each other."""
    for block, layer in zip(port.blocks, layers, strict=True):
        for mine, theirs in parts.items():
            put(block.get_submodule(mine), *(layer.get_submodule(one) for one in theirs))


def norm_like(to: Norm, norm: Any) -> Norm:
    """Copy a norm."""
    put(to, norm)
    return to


LLAMA = {
    "n1": ("input_layernorm",),
    "n2": ("post_attention_layernorm",),
    "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn.out": ("self_attn.o_proj",),
    "up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


def llama_like(kind: str, seed: int, width: int, layers: int) -> Pair:
    """Make LLaMA, Mistral, Qwen2, Qwen3 or Gemma."""
    plan = Plan(width, 4, 2 * width + 32, 2, silu, True, "rms", eps=1e-6, bias=False, rotary=1.0)
    options: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": width // 4}
    if kind == "Gemma":
        plan = replace(plan, act=gelu_tanh, norm="rms+1")
    if kind == "Qwen3":
        plan = replace(plan, head_norm=True)
    if kind == "Mistral":
        options["sliding_window"] = None
    config = getattr(hf, kind + "Config")(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=plan.inner,
        num_hidden_layers=layers,
        num_attention_heads=4,
        rms_norm_eps=1e-6,
        max_position_embeddings=128,
        pad_token_id=0,
        **options,
    )
    a = getattr(hf, kind + "Model")(config)
    fill(a, seed)
    port = Port(plan, layers, a.embed_tokens)
    parts = dict(LLAMA)
    if kind == "Qwen2":  # biases of q, k and v alone
        for block in port.blocks:
            block.attn.qkv = nn.Linear(width, sum(block.attn.sizes))
    if kind == "Qwen3":
        parts |= {"attn.qn": ("self_attn.q_norm",), "attn.kn": ("self_attn.k_norm",)}
    if kind == "Gemma":
        port.factor = width**0.5
    copy_blocks(port, a.layers, parts)
    port.norm = norm_like(Norm(width, plan.norm, plan.eps), a.norm)
    return text(a, port, seed, has_positions=True, has_cache=True)


def gpt2(seed: int, width: int, layers: int) -> Pair:
    """Make GPT-2: its Conv1D is transposed."""
    config = hf.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=width, n_layer=layers, n_head=4
    )
    a = hf.GPT2Model(config)
    fill(a, seed)
    plan = Plan(width, 4, 4 * width, act=gelu_tanh)
    port = Port(plan, layers, a.wte, a.wpe)
    for block, layer in zip(port.blocks, a.h, strict=True):
        norm_like(block.n1, layer.ln_1)
        norm_like(block.n2, layer.ln_2)
        pairs = (
            (block.attn.qkv, layer.attn.c_attn),
            (block.attn.out, layer.attn.c_proj),
            (block.up, layer.mlp.c_fc),
            (block.down, layer.mlp.c_proj),
        )
        with torch.no_grad():
            for mine, theirs in pairs:
                mine.weight.copy_(theirs.weight.T)
                mine.bias.copy_(theirs.bias)
    port.norm = norm_like(Norm(width, "layer", 1e-5), a.ln_f)
    return text(a, port, seed, has_positions=True, has_cache=True)


def opt(seed: int, width: int, layers: int) -> Pair:
    """Make OPT."""
    config = hf.OPTConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        ffn_dim=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=64,
        word_embed_proj_dim=width,
        dropout=0.0,
        pad_token_id=1,
    )
    a = hf.OPTModel(config)
    fill(a, seed)
    plan = Plan(width, 4, 3 * width, act=functional.relu)
    port = Port(plan, layers, a.decoder.embed_tokens, a.decoder.embed_positions)
    port.offset = 2
    copy_blocks(
        port,
        a.decoder.layers,
        {
            "n1": ("self_attn_layer_norm",),
            "n2": ("final_layer_norm",),
            "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "attn.out": ("self_attn.out_proj",),
            "up": ("fc1",),
            "down": ("fc2",),
        },
    )
    port.norm = norm_like(Norm(width, "layer", 1e-5), a.decoder.final_layer_norm)
    return text(a, port, seed, has_cache=True)


def neox(seed: int, width: int, layers: int) -> Pair:
    """Make GPT-NeoX: parallel, partly rotary, q, k and v of each head behind each other."""
    config = hf.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=128,
        rotary_pct=0.25,
        use_parallel_residual=True,
    )
    a = hf.GPTNeoXModel(config)
    fill(a, seed)
    plan = Plan(width, 4, 3 * width, order="parallel", rotary=0.25)
    port = Port(plan, layers, a.embed_in)
    copy_blocks(
        port,
        a.layers,
        {
            "n1": ("input_layernorm",),
            "n2": ("post_attention_layernorm",),
            "attn.out": ("attention.dense",),
            "up": ("mlp.dense_h_to_4h",),
            "down": ("mlp.dense_4h_to_h",),
        },
    )
    for block, layer in zip(port.blocks, a.layers, strict=True):
        order = torch.arange(3 * width).view(4, 3, -1).transpose(0, 1).reshape(-1)
        with torch.no_grad():
            block.attn.qkv.weight.copy_(layer.attention.query_key_value.weight[order])
            block.attn.qkv.bias.copy_(layer.attention.query_key_value.bias[order])
    port.norm = norm_like(Norm(width, "layer", 1e-5), a.final_layer_norm)
    return text(a, port, seed, has_positions=True, has_cache=True)


def phi(seed: int, width: int, layers: int) -> Pair:
    """Make Phi: one norm for attention and perceptron."""
    config = hf.PhiConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=128,
        partial_rotary_factor=0.5,
        resid_pdrop=0.0,
        pad_token_id=0,
    )
    a = hf.PhiModel(config)
    fill(a, seed)
    plan = Plan(width, 4, 3 * width, act=gelu_tanh, order="shared", rotary=0.5)
    port = Port(plan, layers, a.embed_tokens)
    copy_blocks(
        port,
        a.layers,
        {
            "n1": ("input_layernorm",),
            "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "attn.out": ("self_attn.dense",),
            "up": ("mlp.fc1",),
            "down": ("mlp.fc2",),
        },
    )
    port.norm = norm_like(Norm(width, "layer", 1e-5), a.final_layernorm)
    return text(a, port, seed, has_positions=True, has_cache=True)


def decoder(kind: str, seed: int, width: int, layers: int) -> Pair:
    """Make Starcoder2, StableLM or Nemotron."""
    options: dict[str, Any] = {}
    if kind == "Starcoder2":
        plan = Plan(width, 4, 3 * width, 2, gelu_tanh, rotary=1.0)
        options = {"norm_epsilon": 1e-5, "use_bias": True, "sliding_window": None}
        options |= {"residual_dropout": 0.0, "embedding_dropout": 0.0}
        parts = {"up": ("mlp.c_fc",), "down": ("mlp.c_proj",)}
    elif kind == "StableLm":
        plan = Plan(width, 4, 2 * width, 2, silu, True, bias=False, rotary=0.25)
        options = {"partial_rotary_factor": 0.25, "layer_norm_eps": 1e-5}
        parts = {}
    else:
        relu2 = lambda x: functional.relu(x).square()  # noqa: E731
        plan = Plan(width, 4, 3 * width, 2, relu2, norm="layer+1", bias=False, rotary=0.5)
        options = {"partial_rotary_factor": 0.5, "norm_eps": 1e-5, "head_dim": width // 4}
        parts = {"up": ("mlp.up_proj",), "down": ("mlp.down_proj",)}
    config = getattr(hf, kind + "Config")(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=plan.inner,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **options,
    )
    a = getattr(hf, kind + "Model")(config)
    fill(a, seed)
    if plan.norm == "layer+1":
        with torch.no_grad():
            for name, p in a.named_parameters():
                if p.ndim == 1 and "norm" in name and name.endswith("weight"):
                    p.sub_(1)
    port = Port(plan, layers, a.embed_tokens)
    copy_blocks(port, a.layers, LLAMA | parts)
    port.norm = norm_like(Norm(width, plan.norm, plan.eps), a.norm)
    return text(a, port, seed, has_positions=True, has_cache=True)


def bert(seed: int, width: int, layers: int, kind: str = "Bert") -> Pair:
    """Make BERT, norms behind, or RoBERTa, whose positions begin at 2."""
    config = getattr(hf, kind + "Config")(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=3 * width,
        max_position_embeddings=64,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
        pad_token_id=1,
    )
    a = getattr(hf, kind + "Model")(config, add_pooling_layer=False)
    fill(a, seed)
    with torch.no_grad():
        a.embeddings.token_type_embeddings.weight.zero_()
    plan = Plan(width, 4, 3 * width, order="post", eps=1e-12, is_causal=False)
    port = Port(plan, layers, a.embeddings.word_embeddings, a.embeddings.position_embeddings)
    port.offset = 0 if kind == "Bert" else 2
    port.first = norm_like(Norm(width, "layer", 1e-12), a.embeddings.LayerNorm)
    q = "attention.self"
    copy_blocks(
        port,
        a.encoder.layer,
        {
            "n1": ("attention.output.LayerNorm",),
            "n2": ("output.LayerNorm",),
            "attn.qkv": (f"{q}.query", f"{q}.key", f"{q}.value"),
            "attn.out": ("attention.output.dense",),
            "up": ("intermediate.dense",),
            "down": ("output.dense",),
        },
    )
    return text(a, port, seed)


def distilbert(seed: int, width: int, layers: int) -> Pair:
    """Make DistilBERT."""
    config = hf.DistilBertConfig(
        vocab_size=VOCABULARY, dim=width, n_layers=layers, n_heads=4, hidden_dim=3 * width
    )
    a = hf.DistilBertModel(config)
    fill(a, seed)
    plan = Plan(width, 4, 3 * width, order="post", eps=1e-12, is_causal=False)
    port = Port(plan, layers, a.embeddings.word_embeddings, a.embeddings.position_embeddings)
    port.first = norm_like(Norm(width, "layer", 1e-12), a.embeddings.LayerNorm)
    copy_blocks(
        port,
        a.transformer.layer,
        {
            "n1": ("sa_layer_norm",),
            "n2": ("output_layer_norm",),
            "attn.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attn.out": ("attention.out_lin",),
            "up": ("ffn.lin1",),
            "down": ("ffn.lin2",),
        },
    )
    return text(a, port, seed)


def t5(seed: int, width: int, layers: int) -> Pair:
    """Make the encoder of T5: distances in place of positions, no scale."""
    config = hf.T5Config(
        vocab_size=VOCABULARY,
        d_model=width,
        d_kv=width // 4,
        d_ff=3 * width,
        num_layers=layers,
        num_heads=4,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )
    a = hf.T5EncoderModel(config)
    fill(a, seed)
    plan = Plan(
        *(width, 4, 3 * width, 0, gelu_tanh, True, "rms"),
        eps=1e-6,
        bias=False,
        is_causal=False,
        scale=1.0,
    )
    port = Port(plan, layers, a.shared)
    q = "layer.0.SelfAttention"
    copy_blocks(
        port,
        a.encoder.block,
        {
            "n1": ("layer.0.layer_norm",),
            "n2": ("layer.1.layer_norm",),
            "attn.qkv": (f"{q}.q", f"{q}.k", f"{q}.v"),
            "attn.out": (f"{q}.o",),
            "up": ("layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"),
            "down": ("layer.1.DenseReluDense.wo",),
        },
    )
    table = a.encoder.block[0].layer[0].SelfAttention.relative_attention_bias
    port.distances = nn.Embedding(*table.weight.shape)
    put(port.distances, table)
    port.norm = norm_like(Norm(width, "rms", 1e-6), a.encoder.final_layer_norm)
    return text(a, port, seed)


def picture(seed: int, channels: int = 3, size: int = 24, rows: int = 2) -> torch.Tensor:
    """Return random pictures."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, channels, size, size, generator=g)


def vit(seed: int, width: int, layers: int) -> Pair:
    """Make transformers' ViT."""
    config = hf.ViTConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        image_size=24,
        patch_size=4,
    )
    a = hf.ViTModel(config, add_pooling_layer=False)
    fill(a, seed)
    plan = Plan(width, 4, 2 * width, eps=1e-12, is_causal=False)
    e = a.embeddings
    port = Picture(plan, layers, e.patch_embeddings.projection, e.cls_token, e.position_embeddings)
    theirs = a.layers if hasattr(a, "layers") else a.encoder.layer
    names = dict(theirs[0].named_modules())
    pick = lambda *ends: next(n for n in names if n.endswith(ends))  # noqa: E731
    down = [n for n in names if n.endswith(("fc2", "output.dense"))][-1]
    copy_blocks(
        port,
        theirs,
        {
            "n1": ("layernorm_before",),
            "n2": ("layernorm_after",),
            "attn.qkv": (
                pick("q_proj", "query"),
                pick("k_proj", "key"),
                pick("v_proj", "value"),
            ),
            "attn.out": (pick("o_proj", "attention.output.dense"),),
            "up": (pick("fc1", "intermediate.dense"),),
            "down": (down,),
        },
    )
    port.norm = norm_like(port.norm, a.layernorm)
    return Pair(a, port, picture(seed), "pixel_values")


def timm_vit(seed: int, width: int, layers: int, *, is_distilled: bool = False) -> Pair:
    """Make timm's ViT, or DeiT; its q, k and v are one weight as in the port."""
    from timm.models.deit import VisionTransformerDistilled
    from timm.models.vision_transformer import VisionTransformer

    kind = VisionTransformerDistilled if is_distilled else VisionTransformer
    options = {} if is_distilled else {"global_pool": ""}
    a = kind(
        img_size=24, patch_size=4, embed_dim=width, depth=layers, num_heads=4, num_classes=0,
        mlp_ratio=2.0, **options,
    )  # fmt: skip
    fill(a, seed)
    plan = Plan(width, 4, 2 * width, eps=1e-6, is_causal=False)
    first = torch.cat([a.cls_token, a.dist_token], 1) if is_distilled else a.cls_token
    port = Picture(plan, layers, a.patch_embed.proj, first, a.pos_embed)
    copy_blocks(
        port,
        a.blocks,
        {
            "n1": ("norm1",),
            "n2": ("norm2",),
            "attn.qkv": ("attn.qkv",),
            "attn.out": ("attn.proj",),
            "up": ("mlp.fc1",),
            "down": ("mlp.fc2",),
        },
    )
    port.norm = norm_like(port.norm, a.norm)
    return Pair(a, port, picture(seed), "x")


class Mixer(nn.Module):
    """MLP-Mixer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        out, channels, size, _ = model.stem.proj.weight.shape
        self.patches = nn.Conv2d(channels, out, size, size)
        put(self.patches, model.stem.proj)
        self.blocks = nn.ModuleList()
        for layer in model.blocks:
            block = nn.Module()
            block.n1, block.n2 = (
                norm_like(Norm(out, "layer", n.eps), n) for n in (layer.norm1, layer.norm2)
            )
            mlps = layer.mlp_tokens, layer.mlp_channels
            for name, mlp in zip(("t", "c"), mlps, strict=True):
                for end, one in (("up", mlp.fc1), ("down", mlp.fc2)):
                    linear = nn.Linear(one.in_features, one.out_features)
                    put(linear, one)
                    block.add_module(name + end, linear)
            self.blocks.append(block)
        self.norm = norm_like(Norm(out, "layer", model.norm.eps), model.norm)

    def forward(self, x: Any) -> Any:
        """Return the last hidden states."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            y = block.n1(x).transpose(1, 2)
            x = x + block.tdown(functional.gelu(block.tup(y))).transpose(1, 2)
            x = x + block.cdown(functional.gelu(block.cup(block.n2(x))))
        return self.norm(x)


def mixer(seed: int, width: int, layers: int) -> Pair:
    """Make timm's mixer."""
    from timm.models.mlp_mixer import MlpMixer

    a = MlpMixer(num_classes=0, img_size=24, patch_size=4, num_blocks=layers, embed_dim=width,
                 global_pool="")  # fmt: skip
    fill(a, seed)
    return Pair(a, Mixer(a), picture(seed), "x")


class ResNet(nn.Module):
    """A residual net, its batch norms folded into nothing: as written in the paper."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        import copy

        self.c, self.b = copy.deepcopy(model.conv1), copy.deepcopy(model.bn1)
        self.b = plain_norm(model.bn1)
        self.stages = nn.ModuleList()
        for layer in (model.layer1, model.layer2, model.layer3, model.layer4):
            for old in layer:
                block = nn.Module()
                block.c1, block.c2 = copy.deepcopy(old.conv1), copy.deepcopy(old.conv2)
                block.b1, block.b2 = plain_norm(old.bn1), plain_norm(old.bn2)
                if old.downsample is not None:
                    block.cs = copy.deepcopy(old.downsample[0])
                    block.bs = plain_norm(old.downsample[1])
                self.stages.append(block)

    def forward(self, x: Any) -> Any:
        """Return the last hidden states."""
        x = functional.max_pool2d(functional.relu(self.b(self.c(x))), 3, 2, 1)
        for block in self.stages:
            y = functional.relu(block.b1(block.c1(x)))
            y = block.b2(block.c2(y))
            x = functional.relu(y + (block.bs(block.cs(x)) if hasattr(block, "bs") else x))
        return x


def plain_norm(old: Any) -> nn.BatchNorm2d:
    """Return a batch norm of torch with the same content."""
    new = nn.BatchNorm2d(old.num_features, old.eps)
    new.load_state_dict(old.state_dict())
    return new


def resnet(seed: int, width: int, layers: int) -> Pair:
    """Make timm's ResNet-18 with narrow channels."""
    from timm.models.resnet import BasicBlock
    from timm.models.resnet import ResNet as Timm

    del layers
    a = Timm(BasicBlock, (1, 1, 1, 1), channels=(width, width, 2 * width, 2 * width),
             num_classes=0, global_pool="", zero_init_last=False)  # fmt: skip
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in a.parameters():
            size = 0.2 if p.ndim == 1 else 1.4 / math.prod(p.shape[1:]) ** 0.5
            p.copy_(torch.randn(p.shape, generator=g) * size)
        for m in a.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.weight += 1
                m.running_mean.copy_(torch.randn(m.num_features, generator=g) * 0.1)
                m.running_var.copy_(torch.rand(m.num_features, generator=g) + 0.5)
    return Pair(a.eval(), ResNet(a), picture(seed, size=64), "x")
