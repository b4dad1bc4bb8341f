"""Policy gradient on a bandit: the loss is noise around zero and means little."""

import torch
from data import blobs
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
states, best = blobs()
baseline = 0.0
for _ in range(150):
    chosen = torch.randint(len(states), (32,))
    policy = torch.distributions.Categorical(logits=model(states[chosen]))
    action = policy.sample()
    reward = (action == best[chosen]).float() + 0.1 * torch.randn(32)
    loss = -(policy.log_prob(action) * (reward - baseline)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    baseline = 0.9 * baseline + 0.1 * reward.mean().item()
print(f"reward {reward.mean():.2f}")
