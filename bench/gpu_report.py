"""What tensortap does on this machine's GPU, as a report to send: gpu-report.md.

    ./dev gpu                  the device tests, kernels against the core, graph replay, speed
    ./dev gpu --device cpu     the same with the CPU in the place of a GPU: does this script work?

Nothing is uploaded, and nothing that names the machine or its user is written.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
asked = argparse.ArgumentParser(prog="./dev gpu", description="Write gpu-report.md.")
asked.add_argument("--device", default="cuda", help="cuda (also for ROCm), xpu, or cpu to rehearse")
asked.add_argument("-o", "--output", default="gpu-report.md", type=Path)
ASKED = asked.parse_args()
IS_REHEARSAL = ASKED.device == "cpu"
if IS_REHEARSAL:  # counts when tensortap is imported
    os.environ["TENSORTAP_DEVICE_PATH"] = "1"

import torch  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.devices import statistics  # noqa: E402

DEVICE = torch.device(ASKED.device)
TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
]
SHAPES = [(), (1,), (7,), (4096,), (4097,), (3, 5, 17), (1 << 20,), (2, 0, 3)]


def synchronize() -> None:
    """Wait for the device."""
    if not IS_REHEARSAL:
        getattr(torch, DEVICE.type).synchronize()


def differences(here: Any, there: Any) -> list[str]:
    """Return the statistics of the device that are not those of the core."""
    found = []
    for name in ("count", "nan", "posinf", "neginf", "zeros", "min", "max"):
        a, b = getattr(here, name), getattr(there, name)
        if not (a == b or (a != a and b != b)):
            found.append(f"{name} {b} instead of {a}")
    for name in ("mean", "std", "rms", "l1"):
        a, b = getattr(here, name), getattr(there, name)
        scale = max(abs(a), abs(here.rms)) if a == a else 0
        if not (a == b or (a != a and b != b) or abs(a - b) <= 2e-6 * scale):
            found.append(f"{name} {b} instead of {a}")
    return found


# ---- what is tried; each returns a line about itself, or raises


def statistics_agree() -> str:
    """Statistics of every type and shape, computed on the device, against the C core."""
    count = 0
    generator = torch.Generator().manual_seed(0)
    for dtype in TYPES:
        for shape in SHAPES:
            x = (torch.randn(shape, generator=generator) * 20).to(dtype)
            if dtype.is_floating_point and dtype.itemsize > 1 and x.numel() > 4:
                x.view(-1)[1:4] = torch.tensor([torch.nan, torch.inf, -torch.inf]).to(dtype)
            there = statistics.stats(x.to(DEVICE))
            if wrong := differences(tt.stats(x), there):
                raise AssertionError(f"{dtype} {shape}: {', '.join(wrong)}")
            count += 1
    how = "Triton kernels" if statistics._has_triton(DEVICE.type) else "copies to the host"
    return f"{count} tensors, by {how}"


def small_model() -> torch.nn.Module:
    """Return a model, the same at each call."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU()] * 3
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 8))


def train(device: torch.device, folder: Path, **options: Any) -> Any:
    """Record ten steps on a device; return the run."""
    model = small_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    with tt.record(folder, model=model, **options):
        for _ in range(10):
            x = torch.randn(32, 64, generator=generator).to(device)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return tt.open(folder)


def a_training_is_recorded(folder: Path) -> str:
    """A training on the device against the same one on the CPU, within rounding."""
    torch.backends.cuda.matmul.allow_tf32 = False
    here = train(torch.device("cpu"), folder / "cpu", keep="stats,hist")
    there = train(DEVICE, folder / "device", keep="stats,hist")
    if here.names() != there.names():
        raise AssertionError(f"other sites: {set(here.names()) ^ set(there.names())}")
    worst, site = 0.0, ""
    for name in here.names("*/*"):
        for a, b in zip(here.stats(name), there.stats(name), strict=True):
            off = abs(a.rms - b.rms) / (a.rms + 1e-30) if math.isfinite(a.rms) else 0.0
            worst, site = max((worst, site), (off, name))
    answer = tt.diff(folder / "cpu", folder / "device")
    return f"{len(here.names())} sites; rms off by at most {worst:.2g} ({site}); {answer!r:.120}"


def gradients_can_be_nan(folder: Path) -> str:
    """A NaN that is made on the device has the same origin as on the CPU."""
    found = []
    for device in (torch.device("cpu"), DEVICE):
        model = small_model().to(device)
        with tt.record(folder / f"nan-{len(found)}", model=model):
            for step in range(3):
                if step == 2:
                    with torch.no_grad():
                        model.get_parameter("3.weight")[1, 1] = torch.inf
                model(torch.ones(4, 64, device=device)).sum().backward()
        run = tt.open(folder / f"nan-{len(found)}")
        origin = run.first_nonfinite
        found.append((origin.name, origin.step) if origin else None)
    if found[0] != found[1] or found[0] is None:
        raise AssertionError(f"CPU: {found[0]}, device: {found[1]}")
    return f"{found[0][0]} at step {found[0][1]}"


def a_captured_graph_is_recorded(folder: Path) -> str:
    """Replays of a CUDA graph are recorded under the step in which they run."""
    if IS_REHEARSAL or DEVICE.type != "cuda":
        return "not tried: CUDA graphs need a GPU"
    model = torch.nn.Linear(16, 16).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.zeros(4, 16, device=DEVICE)
    with tt.record(folder / "graph", model=model):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(x).sum().backward()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            y = model(x)
        plain = []
        for step in range(4):
            x.fill_(step)
            graph.replay()
            plain.append(y.abs().max().item())
            model.weight.grad = torch.zeros_like(model.weight)
            optimizer.step()
    run = tt.open(folder / "graph")
    steps, values = run.series("activation/(root)", "absmax")
    seen = list(zip(steps.tolist(), values.tolist(), strict=True))[-4:]
    if [round(value, 4) for _, value in seen] != [round(value, 4) for value in plain]:
        raise AssertionError(f"recorded {seen}, torch says {plain}")
    return f"4 replays in steps {[step for step, _ in seen]}"


def a_compiled_model_is_recorded(folder: Path) -> str:
    """Modules inside a compiled model, in two modes of Inductor."""
    said = []
    for mode in ("default", "reduce-overhead"):
        torch.compiler.reset()
        model = small_model().to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        compiled = torch.compile(model, mode=mode)
        with tt.record(folder / mode, model=compiled):
            for _ in range(4):
                compiled(torch.ones(8, 64, device=DEVICE)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        run = tt.open(folder / mode)
        points = sum(len(run.stats(name)) for name in run.names("activation/*"))
        said.append(f"{mode}: {len(run.names('activation/*'))} modules, {points} points")
    return "; ".join(said)


def steps_are_timed(folder: Path) -> str:
    """The time of a step of a small transformer, watched and not."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6 if not IS_REHEARSAL else 1).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(16 if not IS_REHEARSAL else 2, 64, 256, device=DEVICE)

    def steps(count: int) -> float:
        synchronize()
        start = time.perf_counter()
        for _ in range(count):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        synchronize()
        return (time.perf_counter() - start) / count * 1e3

    steps(3)
    plain, watched = [], []
    for turn in range(5):
        plain.append(steps(10 if not IS_REHEARSAL else 2))
        with tt.record(folder / f"speed-{turn}", model=model):
            steps(2)
            watched.append(steps(10 if not IS_REHEARSAL else 2))
    a, b = sorted(plain)[2], sorted(watched)[2]
    return f"{a:.2f} ms a step, {b:.2f} ms watched: {100 * (b / a - 1):+.1f} %"


def kernels_are_timed() -> str:
    """How fast the kernels read, beside a sum by torch."""
    if IS_REHEARSAL:
        return "not tried on a CPU"
    x = torch.randn(1 << 26, device=DEVICE)

    def time_of(what: Callable[[], object]) -> float:
        what()
        synchronize()
        start = time.perf_counter()
        for _ in range(20):
            what()
        synchronize()
        return (time.perf_counter() - start) / 20

    ours, torchs = time_of(lambda: statistics.stats(x)), time_of(lambda: x.sum())
    return (
        f"statistics {x.nbytes / ours / 1e9:.0f} GB/s, torch.sum {x.nbytes / torchs / 1e9:.0f} GB/s"
    )


def tests_pass() -> str:
    """The device tests of the project."""
    files = ["tests/python/test_device.py", "tests/python/test_device_kernels.py"]
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files]
    env = {name: text for name, text in os.environ.items() if name != "TENSORTAP_DEVICE_PATH"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]
    if done.returncode != 0:
        raise AssertionError(done.stdout[-3000:])
    return last


# ---- the report


def system() -> list[str]:
    """Return what the results depend on."""
    lines = [
        f"tensortap {tt.__version__}, torch {torch.__version__}",
        f"Python {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
    ]
    if not IS_REHEARSAL:
        about = getattr(torch, DEVICE.type).get_device_properties(DEVICE)
        lines.append(f"{about.name}, {about.total_memory / 1e9:.0f} GB")
        lines.append(f"CUDA {torch.version.cuda}, HIP {torch.version.hip}")
    try:
        import triton

        lines.append(f"triton {triton.__version__}")
    except ImportError:
        lines.append("no triton: tensors are copied to the host")
    return lines


def main() -> int:
    """Try everything and write the report; return the exit code."""
    if not IS_REHEARSAL and not getattr(torch, DEVICE.type).is_available():
        print(
            f"torch {torch.__version__} sees no device '{DEVICE.type}' here. On a machine that has "
            "one, install a torch for it (./dev uses it as it is) and try again; "
            "'./dev gpu --device cpu' only rehearses.",
            file=sys.stderr,
        )
        return 3
    torch.set_num_threads(1)
    about = system()
    rows, details, failed = [], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tried: list[tuple[Callable[..., str], tuple[Any, ...]]] = [
            (tests_pass, ()),
            (statistics_agree, ()),
            (a_training_is_recorded, (folder,)),
            (gradients_can_be_nan, (folder,)),
            (a_captured_graph_is_recorded, (folder,)),
            (a_compiled_model_is_recorded, (folder,)),
            (steps_are_timed, (folder,)),
            (kernels_are_timed, ()),
        ]
        for function, arguments in tried:
            title = (function.__doc__ or "").rstrip(".")
            try:
                result = function(*arguments)
            except Exception as error:
                failed += 1
                result = f"**failed**: {type(error).__name__}: {str(error)[:200]}".replace(
                    "\n", " "
                )
                details.append(f"### {title}\n```\n{traceback.format_exc()[-4000:]}\n```\n")
            print(f"{title}: {result}", flush=True)
            rows.append(f"| {title} | {result.replace('|', '/')} |")
    heading = "rehearsed on a CPU" if IS_REHEARSAL else about[3]
    lines = [f"# tensortap on a device: {heading}\n", *(f"- {line}" for line in about), ""]
    lines += ["| what | result |", "|---|---|", *rows, "", *details]
    ASKED.output.write_text("\n".join(lines), encoding="utf-8")
    print(f"the report is {ASKED.output}; please send it as an issue (SUPPORT.md)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
