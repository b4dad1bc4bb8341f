"""Write the runs that every later version must read: tests/golden/<version>/<name>.

    .venv/bin/python tests/golden/write_runs.py

Once for each release; RELEASING.md says when.  Beside each run, expected.json has what torch and
hashlib say about the same tensors, so a reader is compared with code that is not ours.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tensortap as tt
from tensortap.runs import record

HERE = Path(__file__).resolve().parent
TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
    *(torch.complex64, torch.complex128),
]
Expected = dict[str, Any]


class Layer(nn.Module):
    """A block with a norm, so that classes and nested names are in the run."""

    def __init__(self, width: int) -> None:
        """Make both parts."""
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add to the input."""
        return x + torch.relu(self.fc(self.norm(x)))


def model_of(width: int = 6) -> nn.Sequential:
    """Return a small model, the same at each call."""
    torch.manual_seed(0)
    return nn.Sequential(Layer(width), Layer(width), nn.Linear(width, 3))


def about(x: torch.Tensor) -> dict[str, Any]:
    """Return what torch says about a tensor."""
    plain = x.detach().contiguous()
    wide = plain.abs().double() if plain.is_complex() else plain.double()
    finite = wide[torch.isfinite(wide)]
    raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return {
        "dtype": str(x.dtype).removeprefix("torch."),
        "shape": list(x.shape),
        "nan": int(torch.isnan(wide).sum()),
        "inf": int(torch.isinf(wide).sum()),
        "min": finite.min().item() if len(finite) else None,
        "max": finite.max().item() if len(finite) else None,
        "rms": finite.square().mean().sqrt().item() if len(finite) else None,
        "sha256": hashlib.sha256(raw).hexdigest(),
    }


def train(run: Any, model: nn.Module, steps: int, broken_at: int = -1) -> Expected:
    """Train under the run; return what the hooks of torch saw of two sites and the loss."""
    seen: Expected = {"activation/1.fc": {}, "parameter/2.weight": {}, "loss": {}}
    outputs: list[torch.Tensor] = []
    model.get_submodule("1.fc").register_forward_hook(lambda *a: outputs.append(a[2].clone()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = run.current_step
    for step in range(first, first + steps):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
        if step == broken_at:
            with torch.no_grad():
                model.get_parameter("1.fc.weight")[2, 1] = torch.inf
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        seen["activation/1.fc"][step] = about(outputs.pop())
        seen["parameter/2.weight"][step] = about(model.get_parameter("2.weight"))
        seen["loss"][step] = loss.item()
        run.log("loss", loss.item())
        optimizer.step()
    return seen


def write_training(to: Path) -> Expected:
    """Everything that can be kept, of a model with inputs, gradients and an evaluation."""
    model = model_of()
    keep = "stats,hist,digest,sample,value"
    with tt.record(to, model=model, inputs=True, grads="all", keep=keep) as run:
        seen = train(run, model, 8)
        model.eval()
        with torch.no_grad():
            model(torch.ones(4, 6))
    return {"state": "finished", "sites": seen}


def write_types(to: Path) -> Expected:
    """A tensor of each element type, some with values that are not finite."""
    seen: Expected = {}
    with tt.record(to, keep="stats,hist,value") as run:
        for step in range(3):
            for dtype in TYPES:
                x = (torch.arange(24).reshape(4, 6) % 11 * (step + 1) - 3 * step).to(dtype)
                if dtype in (torch.float32, torch.bfloat16) and step == 2:
                    x[1, 2], x[3, 3] = torch.nan, torch.inf
                name = str(dtype).removeprefix("torch.")
                run.tensor(name, x.T if step == 1 else x)
                seen.setdefault(name, {})[step] = about(x.T if step == 1 else x)
            run.step()
    return {"state": "finished", "sites": seen}


def write_broken(to: Path) -> Expected:
    """A training whose weight overflows at step 5, and which raises then."""
    model = model_of()
    seen: Expected = {}
    try:
        with tt.record(to, model=model, keep="stats") as run:
            seen = train(run, model, 7, broken_at=5)
            raise RuntimeError("the loss is not finite")
    except RuntimeError:
        pass
    return {"state": "stopped", "sites": seen, "origin": ["parameter/1.fc.weight", 5]}


def write_resumed(to: Path) -> Expected:
    """A run that was closed and went on."""
    model = model_of()
    with tt.record(to, model=model) as run:
        seen = train(run, model, 3)
    with tt.record(to, model=model, resume=True) as run:
        for name, points in train(run, model, 3).items():
            seen[name].update(points)
    return {"state": "finished", "sites": seen}


def write_killed(to: Path) -> Expected:
    """A run whose program ended without closing it."""
    child = os.fork()
    if child == 0:
        model = model_of()
        run = tt.record(to, model=model)
        seen = train(run, model, 6)
        run.flush()
        (to / "seen.json").write_text(json.dumps(seen))
        os._exit(1)
    os.waitpid(child, 0)
    seen = json.loads((to / "seen.json").read_text())
    (to / "seen.json").unlink()
    return {"state": "crashed", "sites": seen}


def write_ranks(to: Path) -> Expected:
    """Two ranks that hold halves of a model (tensor parallel)."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([*words, __file__, "rank", str(to)], check=True, env=env)
    seen = json.loads((to / "seen.json").read_text())
    (to / "seen.json").unlink()
    return {"state": "finished", "sites": seen, "ranks": 2}


def work_as_rank(to: Path) -> None:
    """Do what one rank of write_ranks does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: Expected = {"parameter/0.weight": {}, "activation/1": {}}
    with tt.record(to, model=model, keep="stats,placed"):
        for step in range(3):
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step))
            y = model(x)
            optimizer.zero_grad()
            y.square().mean().backward()
            weight = model[0].weight.redistribute(mesh, [Replicate()]).to_local()
            seen["parameter/0.weight"][step] = about(weight)
            seen["activation/1"][step] = about(y)
            optimizer.step()
    if mesh.get_rank() == 0:
        (to / "seen.json").write_text(json.dumps(seen))
    torch.distributed.destroy_process_group()


def write_whole(to: Path) -> Expected:
    """The parameters that write_ranks begins with, in one process."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 4))
    weight = model.get_parameter("0.weight")
    with tt.record(to, keep="stats,placed") as run:
        run.tensor("parameter/0.weight", weight)
    return {"state": "finished", "sites": {"parameter/0.weight": {0: about(weight)}}}


def write_settings(to: Path) -> Expected:
    """Buffers, two groups of an optimizer, a scheduler that changes the learning rate."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    groups = [{"params": list(model[:2].parameters())}, {"params": list(model[2].parameters())}]
    optimizer = torch.optim.SGD(groups, lr=0.5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    seen: Expected = {"buffer/1.running_mean": {}}
    with tt.record(to, model=model):
        for step in range(4):
            optimizer.zero_grad()
            model(torch.randn(5, 6)).square().mean().backward()
            seen["buffer/1.running_mean"][step] = about(model.get_buffer("1.running_mean"))
            optimizer.step()
            scheduler.step()
    settings = {
        "optimizer/class": "torch.optim.SGD",
        "optimizer/group1/momentum": "0.9",
        "scheduler/gamma": "0.5",
    }
    return {"state": "finished", "sites": seen, "settings": settings}


def write_tokens(to: Path) -> Expected:
    """Sketches of tokens, of a model that was given ids in two batches."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 16), nn.LayerNorm(16), nn.Linear(16, 20)).eval()
    seen: Expected = {"activation/1": {}}
    with torch.no_grad(), tt.record(to, model=model, keep="stats,tokens", inference=True):
        for step in range(2):
            ids = torch.arange(6).reshape(2, 3) + 7 * step
            model(ids)
            seen["activation/1"][step] = about(model[:2](ids))
    norms = model[:2](torch.arange(6)).norm(dim=1).tolist()
    return {"state": "finished", "sites": seen, "norms": norms, "tokens": 12}


def write_thinned(to: Path) -> Expected:
    """A run that has far more steps than it may write; a NaN at step 1500."""
    record.LEAST_DISK = 20_000  # small, for a file of a few kB
    seen: Expected = {"x": {}}
    with tt.record(to, disk=record.LEAST_DISK) as run:
        for step in range(2000):
            x = torch.randn(4, generator=torch.Generator().manual_seed(step))
            x[1] = torch.nan if step == 1500 else x[1]
            if step in (1490, 1500, 1505, 1999):
                seen["x"][step] = about(x)
            run.tensor("x", x)
            run.step()
            if step % 50 == 0:
                run.flush()
    return {"state": "finished", "sites": seen, "origin": ["x", 1500], "steps": 2000}


def write_segments(to: Path) -> Expected:
    """A run in the form that it has in an object store, in two pieces."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / to.name
        model = model_of()
        seen: Expected = {}
        for part in range(2):
            with tt.record(here, model=model, resume=part > 0) as run:
                for name, points in train(run, model, 3).items():
                    seen.setdefault(name, {}).update(points)
            program = Path(sys.executable).with_name("tensortap")
            words = [program, "upload", here, to.parent.as_uri()]
            subprocess.run(words, check=True, capture_output=True)
    return {"state": "finished", "sites": seen}


def main() -> None:
    """Write all runs of this version."""
    os.environ["TENSORTAP_PRIVATE"] = "1"
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["rank"]:
        work_as_rank(Path(sys.argv[2]))
        return
    home = HERE / tt.__version__
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    expected = {
        "training": write_training(home / "training"),
        "types": write_types(home / "types"),
        "broken": write_broken(home / "broken"),
        "resumed": write_resumed(home / "resumed"),
        "killed": write_killed(home / "killed"),
        "ranks": write_ranks(home / "ranks"),
        "whole": write_whole(home / "whole"),
        "settings": write_settings(home / "settings"),
        "tokens": write_tokens(home / "tokens"),
        "thinned": write_thinned(home / "thinned"),
        "segments": write_segments(home / "segments"),
    }
    (home / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
    print(f"{home}: {len(expected)} runs, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
