"""Tracing calls, and drawing the graph of a long trace."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
from harness import row

from tensortap.spy import CallTracer, build_tree, parse_trace, render_graph

LOOPS = 5000


def traced(folder: Path) -> None:
    """Time a call of a traced module against that of an equal one.

    Where a module has no hooks, the tracer asks torch's questions in C and calls forward()
    itself, which takes less than torch's own way in Python: the difference is below zero.
    With a hook of the user's the whole of torch's way is gone through, and the tracer comes
    on top: that is what it costs by itself.
    """
    plain, module, hooked, both = (torch.nn.ReLU() for _ in range(4))
    x = torch.randn(8, 8)
    for own in (hooked, both):
        own.register_forward_hook(lambda *_: None)
    tracer = CallTracer(folder)
    for watched in (module, both):
        tracer.register_hooks(watched)

    def of(called: torch.nn.Module) -> float:
        start = time.thread_time_ns()
        for _ in range(LOOPS):
            called(x)
        return (time.thread_time_ns() - start) / LOOPS / 1000

    best = [float("inf")] * 4
    for _ in range(25):
        tracer.reset_trace()
        for i, called in enumerate((plain, module, hooked, both)):
            best[i] = min(best[i], of(called))
    more, alone = best[1] - best[0], best[3] - best[2]
    hook = best[2] - best[0]
    what = "CallTracer, a module call more"
    row(f"{what} (below 0: C asks for hooks, not Python)", more, 0.4, unit="us", at_most=True)
    row(f"{what}, of a module with a hook of its own", alone, None, unit="us", at_most=True)
    row("the same / an empty forward hook", alone / hook, None, unit="x", at_most=True)


def drawn(folder: Path) -> None:
    paths = [f"net.block_{i // 40}.part_{i % 40}.fc" for i in range(2000)]
    file = folder / "trace.txt"
    file.write_text("\n".join(paths * 100))
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        render_graph(build_tree(parse_trace(file))).draw(folder / "graph.svg")
        best = min(best, time.process_time() - start)
    row("2 000 modules, 200 000 lines to SVG", best, 1.2, unit="s", at_most=True)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        traced(Path(folder))
        drawn(Path(folder))


if __name__ == "__main__":
    main()
