"""The examples of the tool that monitor takes over from, with only the import line changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

BEFORE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
dataloader = [(torch.randn(4, 10), torch.randint(0, 2, (4,))) for _ in range(21)]
criterion = nn.CrossEntropyLoss()
logged = []

class wandb:
    @staticmethod
    def log(metrics):
        assert all(type(key) is str and type(value) is float for key, value in metrics.items())
        logged.append(metrics)
"""

QUICK_START = """\
from tensortap.monitor import ModuleMonitor

# Create your model
model = nn.Sequential(
    nn.Linear(10, 20),
    nn.ReLU(),
    nn.Linear(20, 2)
)

# Set up the monitor
monitor = ModuleMonitor(
    monitor_step_fn=lambda step: step % 10 == 0  # Monitor every 10 steps
)
monitor.set_module(model)

# Add metrics
monitor.add_activation_metric("mean", lambda x: x.mean())
monitor.add_activation_metric("std", lambda x: x.std())
monitor.add_parameter_metric("norm", lambda x: x.norm())
monitor.add_gradient_metric("norm", lambda x: x.norm())

# Training loop
optimizer = torch.optim.Adam(model.parameters())

for step, (inputs, targets) in enumerate(dataloader):
    monitor.begin_step(step)
    outputs = model(inputs)
    loss = criterion(outputs, targets)
    loss.backward()
    monitor.monitor_parameters()
    monitor.monitor_gradients()
    optimizer.step()
    optimizer.zero_grad()
    monitor.end_step()

    if monitor.is_step_monitored(step):
        metrics = monitor.get_step_metrics()
        wandb.log(metrics)
"""

REFERENCE = """\
from tensortap.monitor import ModuleMonitor
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))
monitor = ModuleMonitor()
monitor.set_module(model)
monitor.add_activation_metric("l2_norm", lambda x: x.norm(dim=-1).mean())
monitor.add_activation_metric(
    "attention_mean",
    lambda x: x.mean(),
    metric_regex=r".*attention.*"  # Regex to match layer names
)
inputs, targets = dataloader[0]
import copy

# Save reference at initialization
reference_model = copy.deepcopy(model)
monitor.set_reference_module(reference_model)

# Add difference metrics
monitor.add_activation_difference_metric(
    "l2_distance",
    lambda act, ref_act: (act - ref_act).norm(dim=-1).mean()
)

monitor.add_parameter_difference_metric(
    "l2_distance",
    lambda param, ref_param: (param - ref_param).norm()
)
from tensortap.monitor import RefinedCoordinateCheck

rcc = RefinedCoordinateCheck(monitor)
for p in model.parameters():
    p.data.add_(0.1)
step = 0
monitor.begin_step(step)

# Run both models
with monitor.no_monitor():
    _ = reference_model(inputs)
outputs = model(inputs)

# Perform RCC analysis
rcc.refined_coordinate_check()  # Logs (W_t-W_0)x_t and W_0(x_t-x_0)
monitor.monitor_parameters()
monitor.end_step()
found = monitor.get_step_metrics()
"""

MICRO_BATCHES = """\
from tensortap.monitor import ModuleMonitor
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = ModuleMonitor()
monitor.set_module(model)
monitor.add_activation_metric("mean", lambda x: x.mean())
monitor.add_gradient_metric("norm", lambda x: x.norm())
batches, step, targets = [x for x, _ in dataloader[:3]], 0, dataloader[0][1]
monitor.begin_step(step)

for micro_batch in batches:
    outputs = model(micro_batch)
    loss = criterion(outputs, targets)
    loss.backward()

    monitor.after_micro_batch()  # Clear reference activations

monitor.monitor_gradients()
optimizer.step()
monitor.end_step()  # Aggregates metrics across all micro-batches
found = monitor.get_step_metrics()
# Get all metrics
all_metrics = monitor.get_all_metrics()

# Export via storage manager
monitor.storage.save_hdf5("training_metrics.h5")

# Load later for analysis
from tensortap.monitor import StorageManager
metrics = StorageManager.load_hdf5("training_metrics.h5")
"""

MODULES = """\
from tensortap.monitor import ModuleMonitor
from tensortap.monitor import MonitorMixin
from tensortap.monitor import monitor_scaled_dot_product_attention

class MyAttention(nn.Module, MonitorMixin):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
    def get_qkv(self, x):
        return self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    def forward(self, x):
        q, k, v = self.get_qkv(x)

        # Standard attention
        output = F.scaled_dot_product_attention(q, k, v)

        # Monitor attention internals
        if self.is_monitoring:
            monitor_scaled_dot_product_attention(
                self.get_module_monitor(),
                module=self,
                query=q, key=k, value=v,
                activation=output
            )

        return output

class CustomLayer(nn.Module, MonitorMixin):
    def __init__(self):
        super().__init__()
        self.transform = nn.Linear(4, 4)
    def forward(self, x):
        output = self.transform(x)

        if self.is_monitoring:
            # Log custom intermediate values
            self.get_module_monitor().log_tensor(
                "custom_metric/my_layer/intermediate",
                output * 2
            )

        return output

model = nn.Sequential(MyAttention(), CustomLayer())
model(torch.randn(2, 5, 8))
monitor = ModuleMonitor()
monitor.set_module(model)
monitor.begin_step(0)
model(torch.randn(2, 5, 8))
monitor.end_step()
found = monitor.get_step_metrics()
"""


def run(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BEFORE + program, "example.py", "exec"), names)
    return names


def test_the_quick_start_logs_every_tenth_step() -> None:
    logged = run(QUICK_START)["logged"]
    assert len(logged) == 3
    assert logged[2].keys() == {
        *(f"activation/{n}/{m}" for n in ("0", "1", "2", "[root module]") for m in ("mean", "std")),
        *(
            f"{kind}/{n}.{part}/norm"
            for kind in ("parameter", "gradient")
            for n in (0, 2)
            for part in ("weight", "bias")
        ),
    }


def test_the_reference_and_the_coordinate_check_compare_with_the_beginning() -> None:
    found = run(REFERENCE)["found"]
    assert found["activation_difference/0/l2_distance"] > 0
    assert found["parameter_difference/0.weight/l2_distance"] == pytest.approx(0.1 * 200**0.5)
    assert found["RCC (W_t-W_0)x_t/0/l2norm"] > 0
    assert found["RCC W_0(x_t-x_0)/0/l2norm"] == 0
    assert found["RCC W_0(x_t-x_0)/2/l2norm"] > 0


def test_micro_batches_and_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    names = run(MICRO_BATCHES)
    assert names["metrics"] == {key: {0: value} for key, value in names["found"].items()}
    assert names["all_metrics"] == {0: names["found"]}
    assert len(names["found"]) == 3


def test_modules_log_their_attention_and_what_they_like() -> None:
    found = run(MODULES)["found"]
    assert "attention_entropy/0.head_1" in found
    assert "custom_metric/my_layer/intermediate" in found
