"""Train a small model for a few steps and look at its tensors.

    python examples/summaries.py

The last batch has one NaN in it; see where it shows.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys

try:
    import torch
except ModuleNotFoundError:
    sys.exit("this example needs torch")

import tensortap as tt

torch.manual_seed(0)
torch.set_num_threads(1)

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

for _ in range(5):
    batch = torch.randn(32, 16)
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print("The parameters after five steps")
tt.show(dict(model.named_parameters()))

print("\nTheir gradients")
tt.show({name: parameter.grad for name, parameter in model.named_parameters()})

print("\nHow far the first layer has moved")
print(tt.compare(before["0.weight"], model[0].weight))

print("\nA batch with one NaN in it, and what the layers make of it")
batch[3, 5] = torch.nan
hidden = model[1](model[0](batch))
tt.show({"batch": batch, "hidden": hidden, "output": model[2](hidden)})
