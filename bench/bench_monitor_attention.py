"""monitor_scaled_dot_product_attention beside torch-module-monitor's, T = 2048, 4 heads, d 64."""

from collections.abc import Callable
from typing import Any

import harness
import torch
import torch_module_monitor

import tensortap.monitor

torch.set_num_threads(1)
q, k, v = (torch.randn(1, 4, 2048, 64) for _ in range(3))


def measured(package: Any) -> Callable[[], None]:
    monitor = package.ModuleMonitor(monitor_step_fn=lambda step: True)
    monitor.set_module(torch.nn.Identity())

    def one() -> None:
        monitor.begin_step(0)
        package.monitor_scaled_dot_product_attention(monitor, "attn", q, k, v, is_causal=True)
        monitor.end_step()
        assert "attention_entropy/attn.head_3" in monitor.get_step_metrics()

    return one


by_us, by_them = measured(tensortap.monitor), measured(torch_module_monitor)
ours, theirs = harness.times(by_us, by_them, turns=7)
what = "monitor, attention of 2048, against torch-module-monitor"
harness.row(f"{what}: times faster", theirs / ours, 3, unit="x")
share = harness.peak_extra(by_us) / harness.peak_extra(by_them)
harness.row(f"{what}: of its memory", share, 0.1, unit="x", at_most=True)
