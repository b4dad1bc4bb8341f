"""Name the layer at which a port of GPT-2 parts from the original.

The port is written as nanoGPT is: other names, Linear in place of Conv1D.  One of its norms has
another eps.  Needs transformers.
SPDX-License-Identifier: Apache-2.0
"""

import torch
from torch import nn
from torch.nn import functional
from transformers import GPT2Config, GPT2Model

import tensortap as tt

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 3, 101


class Attention(nn.Module):
    """Causal attention, with queries, keys and values from one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each position gathers."""
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add both to the stream."""
        x = x + self.attn(self.ln1(x))
        return x + self.down(functional.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Port(nn.Module):
    """The port, with the weights of the original."""

    def __init__(self, original: GPT2Model) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(128, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        pairs = [(self.tokens, original.wte), (self.places, original.wpe)]
        pairs.append((self.norm, original.ln_f))
        for mine, theirs in zip(self.blocks, original.h, strict=True):
            pairs += [(mine.ln1, theirs.ln_1), (mine.ln2, theirs.ln_2)]
            pairs += [(mine.attn.qkv, theirs.attn.c_attn), (mine.attn.proj, theirs.attn.c_proj)]
            pairs += [(mine.up, theirs.mlp.c_fc), (mine.down, theirs.mlp.c_proj)]
        with torch.no_grad():
            for mine, theirs in pairs:
                is_conv = type(theirs).__name__ == "Conv1D"  # its weight is transposed
                mine.weight.copy_(theirs.weight.T if is_conv else theirs.weight)
                if getattr(mine, "bias", None) is not None:
                    mine.bias.copy_(theirs.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the last hidden states."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


torch.manual_seed(0)
config = GPT2Config(
    vocab_size=VOCABULARY,
    n_positions=128,
    n_embd=WIDTH,
    n_layer=LAYERS,
    n_head=HEADS,
    bos_token_id=None,
    eos_token_id=None,
)
original = GPT2Model(config).eval()
port = Port(original)
ids = torch.randint(VOCABULARY, (2, 16))
print(tt.compare_models(original, port, {"input_ids": ids}, {"ids": ids}))

port.blocks[1].ln2.eps = 1e-3
found = tt.compare_models(original, port, {"input_ids": ids}, {"ids": ids})
print(found)
assert found.first is not None
assert found.first.a == "h.1.ln_2"
