"""Draw a call graph: the Python half of `tensortap graph`.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> None:
    """Draw; *arguments* were checked by the program."""
    parser = argparse.ArgumentParser(prog="tensortap graph")
    parser.add_argument("run", nargs="?")
    parser.add_argument("--trace-file")
    parser.add_argument("--out", required=True)
    parser.add_argument("--show-repetition", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--prune-leaves", action=argparse.BooleanOptionalAction)
    parser.add_argument("--squash-name", action="store_true")
    parser.add_argument("--dpi", type=int, default=150)
    parser.add_argument("--figwidth", type=float)
    parser.add_argument("--figheight", type=float)
    parser.add_argument("--save-json")
    parser.add_argument("--color")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    try:
        draw(options)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"tensortap: {text}", file=sys.stderr)
        is_usage = isinstance(error, (KeyError, FileNotFoundError, Unusable))
        raise SystemExit(2 if is_usage else 3) from None


class Unusable(ValueError):
    """The request cannot be fulfilled."""


def draw(options: argparse.Namespace) -> None:
    """Read the trace or the run, and draw it; report progress if --verbose."""
    from tensortap.spy import trace_graph
    from tensortap.spy.digraph import picture_format
    from tensortap.spy.run_graph import run_graph

    try:
        picture_format(options.out)  # before all the work
    except ValueError as error:
        raise Unusable(error) from None
    say = print if options.verbose else lambda _: None
    prune = options.prune_leaves
    if options.run is not None:
        import tensortap

        with tensortap.open(options.run) as run:
            graph = run_graph(
                run,
                options.color,
                show_repetition=options.show_repetition,
                prune_leaves_flag=bool(prune),
                squash_name=options.squash_name,
            )
        say(f"read {options.run}")
    else:
        paths = trace_graph.parse_trace(options.trace_file)
        say(f"read {len(paths)} calls from {options.trace_file}")
        tree = trace_graph.build_tree(paths)
        if options.save_json is not None:
            trace_graph.save_tree_json(tree, options.save_json)
            say(f"wrote {options.save_json}")
        graph = trace_graph.construct_graph(
            tree, options.show_repetition, prune is None or prune, options.squash_name
        )
    sizes = options.dpi, options.figwidth, options.figheight
    trace_graph.apply_graph_render_options(graph, *sizes)
    try:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        graph.draw(options.out)
    except OSError as error:
        raise RuntimeError(f"{options.out}: {error.strerror}") from None
    say(f"wrote {options.out}")
