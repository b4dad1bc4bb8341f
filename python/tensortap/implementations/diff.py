"""`tt.diff`: two runs by the names of their sites, or as two implementations of one model.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from tensortap.runs import diff as by_name

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from tensortap.implementations.comparison import Comparison
    from tensortap.runs.diff import Diff
    from tensortap.runs.run import Run


@overload
def diff(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    only: str | None = None,
    steps: tuple[int | None, int | None] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    rename: tuple[str, str] | None = None,
    align: None = None,
    map: None = None,
) -> Diff: ...
@overload
def diff(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    align: Literal["tokens"],
    map: str | Path | dict[str, str] | None = None,
) -> Comparison: ...
def diff(
    a: Run | str | os.PathLike[str],
    b: Run | str | os.PathLike[str],
    *,
    only: str | None = None,
    steps: tuple[int | None, int | None] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    rename: tuple[str, str] | None = None,
    align: Literal["tokens"] | None = None,
    map: str | Path | dict[str, str] | None = None,
) -> Diff | Comparison:
    """Compare two runs and find where they start to differ.

    Args:
        a: A run, or its folder.
        b: Another run, or its folder.
        only: Compare only names that match this glob.
        steps: (first, last), both included; None is an open end.
        rtol: Accept |a - b| <= atol + rtol * |b| instead of what rounding explains.
        atol: See *rtol*.
        rename: (old, new): replace *old* in the names of *a* by *new*. Found by itself if that
            makes all names match.
        align: "tokens": the runs are two implementations of one model, a trainer and an engine,
            say. Sites are paired as `tt.compare_models` does, tokens by their ids. Both runs need
            keep="tokens".
        map: Pairs of modules that are known better, as for `tt.compare_models`.

    Returns:
        The result; it is true if the runs differ by more than noise. With *align* a `Comparison`.

    Raises:
        ValueError: A tolerance is negative or not finite; a run has no sketches of tokens; an
            option does not go with *align*.

    Example:
        >>> import tensortap as tt
        >>> for name, loss in (("runs/a", 0.5), ("runs/b", 0.75)):
        ...     with tt.record(name) as run:
        ...         run.log("loss", loss)
        >>> tt.diff("runs/a", "runs/b").first.name
        'loss'
    """
    by_names: dict[str, Any] = {
        "only": only,
        "steps": steps,
        "rtol": rtol,
        "atol": atol,
        "rename": rename,
    }
    if align is None:
        if map is not None:
            raise ValueError("map goes with align='tokens'")
        return by_name.diff(a, b, **by_names)
    if align != "tokens":
        raise ValueError(f"align must be 'tokens' or None, not {align!r}")
    given = [name for name, value in by_names.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} does not go with align='tokens'")
    from tensortap.implementations.recorded import compare_runs

    with by_name.opened(a) as left, by_name.opened(b) as right:
        return compare_runs(left, right, map=map)
