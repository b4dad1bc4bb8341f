"""A generator and a discriminator with an optimizer each."""

import torch
import torch.nn.functional as F
from data import batches, blobs
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 16))
discriminator = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
of_generator = torch.optim.Adam(generator.parameters(), 1e-3, betas=(0.5, 0.999))
of_discriminator = torch.optim.Adam(discriminator.parameters(), 1e-3, betas=(0.5, 0.999))
for real, _ in batches(*blobs(), steps=120):
    fake = generator(torch.randn(32, 4))
    yes, no = torch.ones(32, 1), torch.zeros(32, 1)
    loss = F.binary_cross_entropy_with_logits(discriminator(real), yes)
    loss = loss + F.binary_cross_entropy_with_logits(discriminator(fake.detach()), no)
    of_discriminator.zero_grad()
    loss.backward()
    of_discriminator.step()
    loss = F.binary_cross_entropy_with_logits(discriminator(fake), yes)
    of_generator.zero_grad()
    loss.backward()
    of_generator.step()
print(f"loss {loss.item():.3f}")
