"""Measure activations, parameters and gradients of a small model.

    python examples/monitor_metrics.py

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import torch
from torch import nn

from tensortap.monitor import ModuleMonitor

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = ModuleMonitor(monitor_step_fn=lambda step: step % 10 == 0)
monitor.set_module(model)
monitor.add_activation_metric("std")  # by name: in C
monitor.add_activation_metric("dead", lambda x: (x == 0).float().mean(), r"1$")
monitor.add_gradient_metric("norm", metric_regex=r".*weight")

for step in range(11):
    monitor.begin_step(step)
    loss = model(torch.randn(16, 4)).square().mean()
    loss.backward()
    monitor.monitor_gradients()
    optimizer.step()
    optimizer.zero_grad()
    monitor.end_step()

for key, value in monitor.get_step_metrics().items():
    print(f"{key:36} {value:.4f}")
