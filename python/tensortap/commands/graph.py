"""Draw a call graph: the Python half of `tensortap graph`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensortap


def main(options: dict[str, str], words: list[str]) -> None:
    """Draw; *options* were checked by cli/commands/graph.c, *words* name the run, if any."""
    try:
        draw(options, *words)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"tensortap: {text}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, (KeyError, Unusable)) else 3) from None


class Unusable(ValueError):
    """The request cannot be fulfilled."""


def draw(options: dict[str, str], path: str | None = None) -> None:
    """Read the trace or the run, and draw it; report progress if --verbose."""
    from tensortap.spy import trace_graph
    from tensortap.spy.digraph import picture_format
    from tensortap.spy.run_graph import run_graph

    out = options["out"]
    try:
        picture_format(out)  # before all the work
    except ValueError as error:
        raise Unusable(error) from None
    say = print if "verbose" in options else lambda _: None
    repeats, squash = "no-show-repetition" not in options, "squash-name" in options
    if path is not None:
        with tensortap.open(path) as run:
            graph = run_graph(
                run,
                options.get("color"),
                show_repetition=repeats,
                prune_leaves_flag="prune-leaves" in options,
                squash_name=squash,
            )
        say(f"read {path}")
    else:
        trace = options["trace-file"]
        paths = trace_graph.parse_trace(trace)
        say(f"read {len(paths)} calls from {trace}")
        tree = trace_graph.build_tree(paths)
        if "save-json" in options:
            trace_graph.save_tree_json(tree, options["save-json"])
            say(f"wrote {options['save-json']}")
        prune = "no-prune-leaves" not in options
        graph = trace_graph.construct_graph(tree, repeats, prune, squash)
    width, height = (
        float(options[name]) if name in options else None for name in ("figwidth", "figheight")
    )
    trace_graph.apply_graph_render_options(graph, int(options.get("dpi", 150)), width, height)
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        graph.draw(out)
    except OSError as error:
        raise RuntimeError(f"{out}: {error.strerror}") from None
    say(f"wrote {out}")
