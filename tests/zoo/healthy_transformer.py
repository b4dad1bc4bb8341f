"""A causal transformer with warm-up and a cosine schedule."""

import torch
import torch.nn.functional as F
from data import batches, sentences
from torch import nn

torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, width)
        self.place = nn.Parameter(torch.randn(12, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words) + self.place[: words.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.head(self.norm(self.layers(x, mask, is_causal=True)))


STEPS = 150
model = Words()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=15)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 15)
schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [15])
for (text,) in batches(sentences(), steps=STEPS):
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
print(f"loss {loss.item():.3f}")
