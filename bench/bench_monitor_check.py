"""The refined coordinate check: forward passes, and memory beyond what it must hold."""

import copy
import ctypes

import harness
import torch
from torch import nn

from tensortap.monitor import ModuleMonitor, RefinedCoordinateCheck

# Blocks of this size get pages of their own: holes in the heap of malloc are not ours to count.
ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD
torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, ROWS, LAYERS = 512, 4096, 8
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
reference = copy.deepcopy(model)
monitor = ModuleMonitor(monitor_step_fn=lambda step: True)
monitor.set_module(model)
monitor.set_reference_module(reference)
check = RefinedCoordinateCheck(monitor)
x = torch.randn(ROWS, WIDTH)
passes = 0


def count(*_: object) -> None:
    global passes
    passes += 1


def plain() -> None:
    with torch.no_grad():
        reference(x)
        model(x)


def checked() -> None:
    global passes
    monitor.begin_step(0)
    with torch.no_grad():
        reference(x)
        model(x)
        passes = 0
        check.refined_coordinate_check()
    monitor.end_step()


handles = [layer.register_forward_pre_hook(count) for layer in reference]
without = harness.peak_extra(plain)
extra = harness.peak_extra(checked) - without
# Inputs and outputs of the layers of both models: what one gives the next takes, once in memory.
held = 2 * (LAYERS + 1) * x.nbytes
harness.row("monitor, coordinate check: passes a module", passes / LAYERS, 1, at_most=True)
harness.row(
    "monitor, coordinate check: memory / what it must hold", extra / held, 1.2, at_most=True
)
