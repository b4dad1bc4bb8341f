"""An LSTM predicts the next word, with clipped gradients."""

import torch
import torch.nn.functional as F
from data import batches, sentences
from torch import nn

torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(words))[0])


model = Words()
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
for (text,) in batches(sentences(), steps=150):
    logits = model(text[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
