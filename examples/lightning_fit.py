"""Fit a small LightningModule, measured by a monitor.

    python examples/lightning_fit.py
    tensortap run -o runs/lightning examples/lightning_fit.py   # records it, too

Needs torch and lightning.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import lightning
import torch

from tensortap.monitor import LightningCallback, ModuleMonitor


class Net(lightning.LightningModule):
    """Two layers that learn to put out zero."""

    def __init__(self) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        )

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of one batch."""
        return self.layers(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), 0.01)


lightning.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(40, 4))
loader = torch.utils.data.DataLoader(data, batch_size=8)
monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
monitor.add_gradient_metric("norm")
trainer = lightning.Trainer(
    max_epochs=2,
    gradient_clip_val=0.1,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[LightningCallback(monitor)],
)
trainer.fit(Net(), loader)

for key, value in monitor.get_step_metrics().items():
    print(f"{key:55} {value:.6f}")
