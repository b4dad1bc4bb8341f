"""Ask the rules about a recorded run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.answers.finding import Findings, UnhealthyError

if TYPE_CHECKING:
    from collections.abc import Iterable


def health(
    run: Any,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    allow: str | Iterable[str] | None = None,
    baseline: Any = None,
) -> Findings:
    """Return what is wrong with a run, the heaviest first.

    Args:
        run: A run's folder, or what `tt.record` or `tt.open` returned.
        select: Ids of the only rules to ask, such as `["dead-units"]`.
        ignore: Ids of rules not to ask.
        allow: Globs of names that may hold NaN or Inf.
        baseline: A good run. What it has too is no finding; what is far from it is one.

    Returns:
        The findings; iterate over them, or look at `errors` and `warnings`.

    Raises:
        ValueError: An id that no rule has.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/fine") as run:
        ...     for step in range(30):
        ...         run.log("loss", 1 / (step + 1))
        ...         run.step()
        >>> tt.health("runs/fine").errors
        ()
    """
    reader = _reader(run)
    other = _reader(baseline) if baseline is not None else None
    try:
        return Findings.read(reader.health(_ids(select), _ids(ignore), _ids(allow), other))
    finally:
        reader.close()
        if other is not None:
            other.close()


def assert_healthy(
    run: Any,
    *,
    ignore: Iterable[str] | None = None,
    allow: str | Iterable[str] | None = None,
    strict: bool = False,
    baseline: Any = None,
) -> None:
    """Raise UnhealthyError if a run has an error-level finding; for tests.

    Args:
        run: As for `tt.health`.
        ignore: Ids of rules not to ask.
        allow: As for `tt.health`.
        strict: Raise for warnings, too.
        baseline: As for `tt.health`.

    Raises:
        UnhealthyError: Its text has the sentence and the remedy of each finding.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/broken") as run:
        ...     run.log("loss", float("nan"))
        >>> try:
        ...     tt.assert_healthy("runs/broken")
        ... except tt.UnhealthyError as error:
        ...     print(error.findings[0].rule)
        nonfinite
    """
    found = health(run, ignore=ignore, allow=allow, baseline=baseline)
    bad = found.items if strict else found.errors
    if bad:
        raise UnhealthyError(*bad)


def _reader(run: Any) -> _core.RunReader:
    """Open a run for this question alone."""
    if isinstance(run, _core.Recorder) and not run.closed:
        run.flush()
    path = getattr(run, "path", run)
    try:
        return _core.RunReader(os.fspath(path))
    except TypeError:
        raise TypeError(
            f"run must be a run's folder, or what tt.record or tt.open returned, not {run!r}"
        ) from None


def _ids(rules: Iterable[str] | None) -> str | None:
    if rules is None:
        return None
    return rules if isinstance(rules, str) else ",".join(rules)
