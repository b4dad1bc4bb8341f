"""A recurrent network whose state grows along the sequence; gradients are not clipped."""

import torch
import torch.nn.functional as F
from data import batches, sentences
from torch import nn

torch.manual_seed(0)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.inner = nn.Linear(16, 16)
        self.head = nn.Linear(16, 16)
        nn.init.orthogonal_(self.inner.weight, gain=4.0)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        state, states = torch.zeros(len(words), 16), []
        for word in self.embed(words).unbind(1):
            state = self.inner(state) + word
            states.append(state)
        return self.head(torch.stack(states, 1))


model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), 1e-6)
for (text,) in batches(sentences(), steps=60):
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
