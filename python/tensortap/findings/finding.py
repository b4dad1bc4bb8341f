"""One finding of a rule, and all of a run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tensortap.display.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = 1  # of what the core writes


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a training.

    Args:
        rule: Id of the rule, such as `dead-units`.
        severity: `error` or `warning`.
        sentence: What is wrong.
        remedy: What to do.
        place: The sites in a few words, such as `backbone (4 parameters)`.
        sites: Names of the sites.
        first_step, last_step: The steps that it is about; -1: none in particular.
        rank: The rank; -1: several, or the run has one.
        numbers: The evidence.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/zero") as run:
        ...     for _ in range(8):
        ...         run.log("learning_rate", 0.0)
        ...         run.step()
        >>> finding = tt.health("runs/zero")[0]
        >>> finding.rule, finding.severity, finding.sites
        ('learning-rate', 'error', ('learning_rate',))
    """

    rule: str
    severity: Literal["error", "warning"]
    sentence: str
    remedy: str
    place: str = ""
    sites: tuple[str, ...] = ()
    first_step: int = -1
    last_step: int = -1
    rank: int = -1
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        rank = f"rank {self.rank}: " if self.rank >= 0 else ""
        return f"{self.severity} {self.rule}: {rank}{self.sentence}"


@dataclass(repr=False)
class Findings:
    """What the rules found in a run, the heaviest first; `tt.health` returns it.

    Args:
        items: The findings.
        unchecked: Rules that lack their data, and what they need.
        rules: How many rules were asked for.
        verdict: What it comes to: `2 errors, 1 warning`, `healthy`, or, where too little was seen
            to say so, what was looked at: `nothing found in 5 steps; ...`.
        left_out: What was not counted: `2 sites hold only -Inf where masks do, ...`; or nothing.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/number") as run:
        ...     run.log("loss", 0.5)
        >>> found = tt.health("runs/number")
        >>> len(found), found.unchecked["dead-units"]
        (0, 'no optimizer')
    """

    items: tuple[Finding, ...]
    unchecked: dict[str, str]
    rules: int = field(default=0, compare=False)
    verdict: str = ""
    left_out: str = field(default="", compare=False)

    @classmethod
    def read(cls, text: str) -> Findings:
        """Read what the core writes."""
        found: dict[str, Any] = json.loads(text)
        items = []
        for one in found["findings"]:
            numbers = {name: float(value) for name, value in one.pop("numbers").items()}
            one["sites"] = tuple(one["sites"])
            items.append(Finding(**one, numbers=numbers))
        unchecked = {one["rule"]: one["reason"] for one in found["unchecked"]}
        return cls(
            tuple(items), unchecked, found["rules"], found["verdict"], found.get("left_out", "")
        )

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that are certainly wrong."""
        return tuple(one for one in self.items if one.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that are worth a look."""
        return tuple(one for one in self.items if one.severity == "warning")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Finding:
        return self.items[index]

    def _repr_html_(self) -> str:
        rows = ((f"{one.severity} {one.rule}", one.sentence, one.remedy) for one in self.items)
        return table(self.verdict or "findings", rows)

    def __repr__(self) -> str:
        if not self.items:
            return f"<Findings: {self.verdict}>"
        return "\n".join(map(str, self.items))


class UnhealthyError(AssertionError):
    """A training is not healthy; `tt.assert_healthy` and `health="stop"` raise it.

    Attributes:
        findings: The findings that it is about.

    Example:
        >>> import tensortap as tt
        >>> with tt.record("runs/infinite") as run:
        ...     run.log("loss", float("inf"))
        >>> try:
        ...     tt.assert_healthy("runs/infinite")
        ... except tt.UnhealthyError as error:
        ...     print(len(error.findings))
        1
    """

    __module__ = "tensortap"  # where users find it

    def __init__(self, *findings: Finding) -> None:
        super().__init__("\n".join(f"{one}\n  {one.remedy}" for one in findings))
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what it was made from."""
        return type(self), self.findings
