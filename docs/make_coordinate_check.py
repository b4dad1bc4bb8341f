"""Draw the coordinate check of the monitor's guide: layers of growing width, with and without muP.

    python docs/make_coordinate_check.py [PICTURE]

Trains the same network at five widths for one step of Adam, once as people usually set it up
and once in the maximal update parametrization, and asks `RefinedCoordinateCheck` how much of
each layer's change came from its weights.  Needs torch, and matplotlib, which nothing else
here does: pip install matplotlib.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck

PICTURE = Path(__file__).resolve().parent / "pictures" / "coordinate_check.png"
WIDTHS = (64, 128, 256, 512, 1024)
SEEDS, STEPS, FEATURES = 4, 1, 16
LAYERS = {"first": "first layer", "hidden": "hidden layer", "last": "last layer"}
RATE = 0.001  # of Adam, at the smallest width


class Net(nn.Module):
    """Three layers: one that widens, one that is wide on both sides, one that narrows."""

    def __init__(self, width: int, is_mup: bool) -> None:
        """Begin with variance 1 / fan-in; muP begins its last layer smaller."""
        super().__init__()
        self.first = nn.Linear(FEATURES, width, bias=False)
        self.hidden = nn.Linear(width, width, bias=False)
        self.last = nn.Linear(width, 1, bias=False)
        for layer in (self.first, self.hidden, self.last):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        if is_mup:
            nn.init.normal_(self.last.weight, std=WIDTHS[0] ** 0.5 / width)

    def forward(self, x: Any) -> Any:
        """Compute one number for each row."""
        return self.last(torch.relu(self.hidden(torch.relu(self.first(x)))))


def optimizer_of(model: Net, width: int, is_mup: bool) -> torch.optim.Optimizer:
    """Give Adam; under muP the rate of layers that add up over the width falls with it."""
    slow = RATE * (WIDTHS[0] / width if is_mup else 1)
    return torch.optim.Adam(
        [
            {"params": [model.first.weight], "lr": RATE},
            {"params": [model.hidden.weight, model.last.weight], "lr": slow},
        ]
    )


def coordinates(width: int, is_mup: bool, seed: int) -> dict[str, float]:
    """Give the size of a coordinate of (W_t - W_0) x_t in each layer, after the last step."""
    torch.manual_seed(seed)
    x = torch.randn(128, FEATURES)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    model = Net(width, is_mup)
    reference = copy.deepcopy(model)
    monitor = ModuleMonitor(monitor_step_fn=lambda step: step == STEPS)
    monitor.set_module(model)
    monitor.set_reference_module(reference)
    check = RefinedCoordinateCheck(monitor)
    optimizer = optimizer_of(model, width, is_mup)
    for step in range(STEPS + 1):
        monitor.begin_step(step)
        with monitor.no_monitor(), torch.no_grad():
            reference(x)
        loss = (model(x) - y).square().mean()
        check.refined_coordinate_check()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.end_step()
    found = monitor.get_all_metrics()[STEPS]
    return {
        name: found[f"RCC (W_t-W_0)x_t/{name}/l2norm"] / getattr(model, name).out_features ** 0.5
        for name in LAYERS
    }


def measured(is_mup: bool) -> dict[str, list[float]]:
    """Give for each layer its coordinates over the widths, as means over seeds."""
    out: dict[str, list[float]] = {name: [] for name in LAYERS}
    for width in WIDTHS:
        runs = [coordinates(width, is_mup, seed) for seed in range(SEEDS)]
        for name in LAYERS:
            out[name].append(sum(run[name] for run in runs) / SEEDS)
    return out


def draw(picture: Path) -> None:
    """Measure both, and draw them side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.7), sharey=True, layout="constrained")
    colors = {"first": "#8a8a8a", "hidden": "#c2410c", "last": "#1d4ed8"}
    both = [measured(False), measured(True)]
    for axis, lines, is_mup in zip(axes, both, (False, True), strict=True):
        for name, values in lines.items():
            axis.plot(WIDTHS, values, "o-", color=colors[name], label=LAYERS[name], lw=1.8, ms=4)
            print("muP" if is_mup else "standard", name, *(f"{value:.3g}" for value in values))
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axis.minorticks_off()
        axis.set_xlabel("width")
        axis.grid(True, alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        title = "muP: the same at every width" if is_mup else "standard: grows with the width"
        axis.set_title(title, fontsize=11)
    start = both[0]["hidden"][0] * 1.5
    guide = [start * width / WIDTHS[0] for width in WIDTHS]
    axes[0].plot(WIDTHS, guide, "--", color="#555555", lw=1, label="in proportion to the width")
    axes[0].set_ylabel(r"size of a coordinate of $(W_t - W_0)\,x_t$")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
