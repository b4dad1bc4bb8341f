"""DDP, torch.compile and other wrappers change no name, whoever watches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from ranks import run_ranks, said  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DataParallel, DistributedDataParallel  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.monitor import ModuleMonitor  # noqa: E402
from tensortap.spy import CallTracer, DebugContext, TensorSaver, spy_save  # noqa: E402


class Saving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        spy_save("y", y, self)
        return y


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Saving(), Saving()])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def run_compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


def compile_one_block(model: Any) -> Any:
    model.blocks[0] = run_compiled(model.blocks[0])
    return model


def compile_outside(model: nn.Module) -> Any:
    return run_compiled(DistributedDataParallel(model))


def compile_inside(model: nn.Module) -> Any:
    return DistributedDataParallel(run_compiled(model))


def checkpoint_blocks(model: Any) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        CheckpointImpl,
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )

    wrap = partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    apply_activation_checkpointing(
        model, checkpoint_wrapper_fn=wrap, check_fn=lambda one: one is not model
    )
    return model


WRAPS = (
    checkpoint_blocks,
    DistributedDataParallel,
    DataParallel,
    run_compiled,
    compile_one_block,
    compile_outside,
    compile_inside,
)


def recorded(model: Any, folder: str) -> set[str]:
    with tt.record(f"{folder}/run", model=model) as run:
        model(torch.ones(1, 2)).sum().backward()
        return {name for name in run.names("*") if not name.startswith(("loss/", "tensortap/"))}


def measured(model: Any, folder: str) -> set[str]:
    with ModuleMonitor(monitor_step_fn=lambda step: True) as monitor:
        monitor.set_module(model)
        monitor.add_activation_metric("mean")
        monitor.add_parameter_metric("norm")
        monitor.begin_step(0)
        model(torch.ones(1, 2))
        monitor.monitor_parameters()
        monitor.end_step()
        return set(monitor.get_all_metrics()[0])


def traced(model: Any, folder: str) -> set[str]:
    tracer = CallTracer(folder)
    tracer.register_hooks(model)
    model(torch.ones(1, 2))
    tracer.remove_hooks()
    assert tracer.get_module_path(model) == "root"
    return set(tracer.call_trace)


def saved(model: Any, folder: str) -> set[str]:
    saver = TensorSaver(f"{folder}/saved")
    saver.register_modules(model)
    with DebugContext(saver):
        model(torch.ones(1, 2))
    return set(os.listdir(f"{folder}/saved"))


WATCHERS: tuple[Callable[[Any, str], set[str]], ...] = (recorded, measured, traced, saved)


def find_other_names(rank: int, world: int) -> list[str]:
    found = []
    for watcher in WATCHERS:
        with tempfile.TemporaryDirectory() as folder:
            plain = watcher(Model(), folder)
        assert plain
        for wrap in WRAPS:
            torch._dynamo.reset()
            with tempfile.TemporaryDirectory() as folder:
                names = watcher(wrap(Model()), folder)
            if names != plain:
                found.append(f"{watcher.__name__}, {wrap.__name__}: {sorted(names ^ plain)}")
    return found


def test_a_wrapped_model_has_the_names_of_the_model_itself() -> None:
    assert said(run_ranks(1, find_other_names)) == [[]]


def engine_of(package: str, kind: str, attribute: str) -> Any:
    def create(self: Any, model: nn.Module) -> None:
        nn.Module.__init__(self)
        setattr(self, attribute, model)

    def forward(self: Any, x: Any) -> Any:
        return getattr(self, attribute)(x)

    made = {"__init__": create, "forward": forward, "__module__": package}
    return type(kind, (nn.Module,), made)


@pytest.mark.parametrize(
    ("package", "kind", "attribute"),
    [
        ("lightning.fabric.wrappers", "_FabricModule", "_forward_module"),
        ("deepspeed.runtime.engine", "DeepSpeedEngine", "module"),
    ],
)
@pytest.mark.parametrize("watcher", WATCHERS)
def test_engines_of_trainers_add_nothing_to_names(
    tmp_path: Any, watcher: Any, package: str, kind: str, attribute: str
) -> None:
    wrap = engine_of(package, kind, attribute)
    assert watcher(wrap(Model()), f"{tmp_path}/a") == watcher(Model(), f"{tmp_path}/b")


def test_fabric_adds_nothing_to_names(tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning.fabric")
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    wrapped = fabric.setup_module(Model())
    for watcher in (measured, traced, saved):
        names = watcher(wrapped, f"{tmp_path}/{watcher.__name__}")
        assert names == watcher(Model(), f"{tmp_path}/{watcher.__name__}-plain")
