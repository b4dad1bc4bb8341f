"""Log the operators of a block of code.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tensortap import _core
from tensortap.display import session
from tensortap.files.chrome import Span, chrome_trace
from tensortap.files.whole import whole_file
from tensortap.operators import origin
from tensortap.operators.chart import dot_of
from tensortap.operators.operator import COMPILED, IN_GRAPH, Operator
from tensortap.operators.report import origin_report, table_text
from tensortap.operators.rows import read_rows

if TYPE_CHECKING:
    import torch

    from tensortap.operators.mode import Mode
    from tensortap.operators.origin import Origin


def ops(
    model: torch.nn.Module | None = None, *, eager: bool = False, limit: int = 200_000
) -> OperatorLog:
    """Log every operator of a block of code, and find where the first NaN or Inf began.

    It sees what torch dispatches in this thread, in backward too. It changes no result, no
    gradient and no random number. A step takes about 1.6 times as long.

    Args:
        model: The model whose names to use. Without it, modules are named within the outermost
            module that is called.
        eager: Run code that is compiled by torch.compile without the compiler. Otherwise the
            operators inside of compiled graphs are not seen.
        limit: Operators to keep; about 1 kB each. Later ones run, but are not logged.

    Returns:
        The log. Use it as a context manager, or call `start()` and `stop()`.

    Raises:
        TypeError: *model* is not a module.
        ValueError: *limit* is not a number of operators.

    Example:
        >>> import torch, tensortap as tt
        >>> x = torch.tensor([4.0, -1.0])
        >>> with tt.ops() as log:
        ...     y = x.sqrt() * 2
        >>> log.first_bad.operator.name
        'aten::sqrt'
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit must be a number of operators, 1 or more, not {limit!r}")
    return OperatorLog(model, eager=eager, limit=limit)


class OperatorLog:
    """The operators of a block of code, in order; `tt.ops()` makes it.

    Args:
        model, eager, limit: As for `tt.ops`.

    Example:
        >>> import torch, tensortap as tt
        >>> with tt.ops() as log:
        ...     y = torch.ones(2) + 1
        >>> [operator.name for operator in log]
        ['aten::ones', 'aten::add']
    """

    def __init__(self, model: torch.nn.Module | None, *, eager: bool, limit: int) -> None:
        from tensortap.operators.mode import Mode

        self._mode: Mode = Mode(model, eager, limit)
        self._is_running = False
        self._read: list[Operator] = []
        self._answer: tuple[Origin | None, list[Operator]] | None = None

    def start(self) -> Self:
        """Begin to log what this thread does.

        Raises:
            RuntimeError: The log has begun before.
        """
        if self._is_running or len(self._mode):
            raise RuntimeError("a log of operators begins once; make another with tt.ops()")
        self._is_running = True
        from tensortap.private.dispatch_mode import OPERATORS

        if not OPERATORS.works():
            session.warn(f"tensortap.ops: {OPERATORS.note}")
        self._mode.__enter__()
        return self

    def stop(self) -> None:
        """End the log, in the thread that began it; a second call does nothing."""
        if not self._is_running:
            return
        self._is_running = False
        self._mode.__exit__(None, None, None)
        self._mode._release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __len__(self) -> int:
        return len(self._mode)

    def __getitem__(self, index: int) -> Operator:
        return self._rows[index]

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<OperatorLog: {len(self)} operators>" if self._is_running else str(self)

    def __str__(self) -> str:
        return origin_report(self)

    @property
    def first_bad(self) -> Origin | None:
        """Where the first NaN or Inf began that was not intended; None if there is none."""
        return self._found[0]

    @property
    def path(self) -> list[Operator]:
        """The operators that the first bad value reached, in order, without the origin."""
        return self._found[1]

    @property
    def notes(self) -> list[str]:
        """What was not seen, and why."""
        notes = []
        mode = self._mode
        if any(
            row.flags & IN_GRAPH
            or (row.node is not None and "CompiledFunction" in row.node)
            or any(one.flags & COMPILED for one in row.operands)
            for row in self._rows
        ):
            notes.append(
                "a compiled graph ran; operators inside of it are not seen "
                "(tt.ops(eager=True), or replay --eager, runs it without the compiler)"
            )
        if mode.unlogged:
            notes.append(
                f"{mode.unlogged} operators ran after the limit of {len(mode)} was reached and "
                "were not logged; tt.ops(limit=...) sets it"
            )
        if mode.errors:
            notes.append(
                f"{mode.errors} errors while operators were logged; the first: {mode.error!r}"
            )
        return notes

    def table(self) -> str:
        """Return a table: operator, line, module, phase, result, and whether it was bad.

        Returns:
            One line for each operator, after a heading.

        Example:
            >>> import torch, tensortap as tt
            >>> with tt.ops() as log:
            ...     y = torch.zeros(2).log()
            >>> log.table().splitlines()[-1].endswith("created")
            True
        """
        return table_text(self._rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the origin, the path and the notes, for JSON.

        Returns:
            A dict with the keys "first_bad", "path", "operators" and "notes".
        """
        found = self.first_bad
        return {
            "first_bad": None if found is None else found.to_dict(),
            "path": [row.to_dict() for row in self.path],
            "operators": len(self),
            "notes": self.notes,
        }

    def to_run(self, run: _core.Recorder) -> None:
        """Record the statistics of all results in a run.

        The sites are `operator/<module>/<operator>:<file>:<line>`; what one line does several
        times in a step are the calls of its site.

        Args:
            run: The open run.

        Example:
            >>> import torch, tensortap as tt
            >>> with tt.ops() as log:
            ...     y = torch.ones(2) + 1
            >>> with tt.record("runs/operators") as run:
            ...     log.to_run(run)
        """
        for row in self._rows:
            module = f"{row.module}/" if row.module else ""
            name = f"operator/{module}{row.name}:{row.line.replace(' ', '_')}"
            for result in row.results:
                if result.stats is not None:
                    run.tensor(name, result.stats)
        if self.first_bad is not None:
            run.note(origin_report(self).splitlines()[0])

    def chrome_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write a Chrome trace, which ui.perfetto.dev opens.

        Args:
            path: The file, `.json`.

        Returns:
            The path of the file.
        """
        spans = [
            Span(
                row.name,
                row.phase,
                row.start,
                row.duration,
                row.thread,
                {
                    "line": row.line,
                    "source": row.source,
                    "module": row.module,
                    "operands": [one.kind for one in row.operands],
                    "results": [one.kind for one in row.results],
                    **({"bad": row.verdict} if row.verdict else {}),
                },
            )
            for row in self._rows
        ]
        with whole_file(os.fspath(path)) as file:
            Path(file).write_text(chrome_trace(spans), encoding="utf-8")
        return Path(path)

    def chart(self, path: str | os.PathLike[str]) -> Path:
        """Draw the lines on the path of the first bad value, as `flow` draws charts.

        Repeated layers are drawn once. A chart has 60 operators at most, and says how many more
        there are.

        Args:
            path: The file: `.svg`, `.png`, `.pdf`, or `.dot` for the text that Graphviz draws.

        Returns:
            The path of the file.

        Raises:
            ValueError: The suffix is not one of these, or there is no bad value.
        """
        from tensortap.display.graphviz import draw

        file = Path(path)
        if file.suffix not in (".svg", ".png", ".pdf", ".dot"):
            raise ValueError(f"{file}: the suffix must be .svg, .png, .pdf or .dot")
        dot = self.dot()
        content = dot.encode() if file.suffix == ".dot" else draw(dot, file.suffix[1:])
        with whole_file(str(file)) as whole:
            Path(whole).write_bytes(content)
        return file

    def dot(self) -> str:
        """Return the chart as DOT text.

        Raises:
            ValueError: There is no bad value.
        """
        found = self.first_bad
        if found is None:
            raise ValueError("there is no bad value, so there is no path to draw")
        return dot_of(found, self.path, self._rows)

    @property
    def _rows(self) -> list[Operator]:
        """All operators; those of a running log are read whenever somebody asks."""
        if len(self._read) != len(self._mode):
            self._read, self._answer = read_rows(self._mode), None
        return self._read

    @property
    def _found(self) -> tuple[Origin | None, list[Operator]]:
        rows = self._rows
        if self._answer is None:
            found = origin.first_bad(rows, has_graphs=self._mode.has_graphs)
            self._answer = found, [] if found is None else origin.path_of(found, rows)[0]
        return self._answer
