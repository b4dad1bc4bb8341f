"""Answers: one finding of a rule, what else is to be said of a run, and all of it together.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tensortap import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEMA = 1  # of what the core writes


Severity = Literal["note", "fine", "warning", "error"]
Likelihood = Literal["", "likely", "certain"]
Kind = Literal["finding", "origin", "divergence", "premise", "fault", "note"]
SIGNS: dict[Severity, str] = {"note": "●", "fine": "✓", "warning": "◆", "error": "▲"}
COLORS: dict[Severity, str] = {
    "note": "#5b6470",
    "fine": "#00694f",
    "warning": "#8a5a00",
    "error": "#b3005e",
}


@dataclass(frozen=True)
class Feed:
    """A tensor that the first NaN or Inf was computed from, and one line about it."""

    role: Literal["before", "parameter", "previous"]
    site: str
    step: int
    line: str


@dataclass(frozen=True)
class Finding:
    """One answer: what is wrong with a training, or what else is to be said of a run.

    Args:
        rule: Id of the rule, such as `dead-units`; of other kinds, which of its kind.
        severity: `error`, `warning`, `fine` or `note`.
        sentence: What is wrong.
        remedy: What to do.
        likelihood: `certain`: it follows from what was recorded; `likely`: a limit decides, and a
            healthy training may reach it. Errors are certain; what is no finding has none.
        follows: Findings that this one explains, and that are not listed: `dead-units, growth (2)`.
        follow_count: How many these are.
        code: Where the code is: `Linear in Block.forward (model.py:94)`; empty if not known.
        place: The sites in a few words, such as `backbone (4 parameters)`.
        sites: Names of the sites.
        first_step, last_step: The steps that it is about; -1: none in particular.
        rank: The rank; -1: several, or the run has one.
        numbers: The evidence.
        kind: `finding` of a rule; `origin`: where the first NaN or Inf was born; `fault`: what
            became of the program; `divergence`, `premise`: of two runs; `note`.
        call: The call of the module; -1: none in particular.
        ranks: The ranks; empty: all, or the run has one.
        detail: Further lines.
        feeds: What it was computed from.
        next: Commands that show more.

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
    severity: Severity
    sentence: str
    remedy: str = ""
    code: str = ""
    place: str = ""
    sites: tuple[str, ...] = ()
    first_step: int = -1
    last_step: int = -1
    rank: int = -1
    numbers: dict[str, float] = field(default_factory=dict)
    kind: Kind = "finding"
    call: int = -1
    ranks: tuple[int, ...] = ()
    detail: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()
    likelihood: Likelihood = ""
    follows: str = ""
    follow_count: int = 0
    next: tuple[str, ...] = field(default=(), compare=False)  # they name the run as it was named

    @classmethod
    def read(cls, found: dict[str, Any]) -> Finding:
        """Read an answer as the core writes it."""
        found.pop("site_count")
        for name in ("sites", "ranks", "detail", "next"):
            found[name] = tuple(found[name])
        found["feeds"] = tuple(Feed(**one) for one in found["feeds"])
        found["numbers"] = {name: float(value) for name, value in found["numbers"].items()}
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it (docs/schemas/answer.json)."""
        feeds = [vars(one) for one in self.feeds]
        return {**vars(self), "feeds": feeds, "site_count": len(self.sites)}

    @property
    def lines(self) -> tuple[str, ...]:
        """What a terminal shows: the sentence, further lines, what to do, what shows more."""
        said = (self._sentence, *self.detail, self._follows, self.remedy, *self.next)
        return tuple(filter(None, said))

    @property
    def _sentence(self) -> str:
        return f"{self.sentence} (likely)" if self.likelihood == "likely" else self.sentence

    @property
    def _follows(self) -> str:
        if not self.follows:
            return ""
        verb = "follows" if self.follow_count == 1 else "follow"
        return f"and {self.follow_count} that {verb} from it: {self.follows}"

    @property
    def text(self) -> str:
        """Everything that a failed test prints: the sentence, what to do, and what shows more."""
        said = (str(self), self.code, self._follows, self.remedy, *self.next)
        return "\n  ".join(filter(None, said))

    def _repr_html_(self) -> str:
        color = COLORS[self.severity]
        name = f"<b>{self.rule}</b> " if self.kind in ("finding", "origin") else ""
        lines = [*self.detail, self.code, self._follows, self.remedy]
        lines += [f"{one.role}: {one.site} at step {one.step}: {one.line}" for one in self.feeds]
        detail = "".join(f"<div style='opacity:.75'>{_text(one)}</div>" for one in lines if one)
        commands = "".join(f"<div><code>{_text(one)}</code></div>" for one in self.next)
        return (
            f"<div style='border-left:4px solid {color};padding:2px 8px;margin:4px 0'>"
            f"<b style='color:{color}' title='{self.severity}'>{SIGNS[self.severity]}</b> "
            f"{name}{_text(self._sentence)}{detail}{commands}</div>"
        )

    def __str__(self) -> str:
        rank = f"rank {self.rank}: " if self.rank >= 0 else ""
        return f"{self.severity} {self.rule}: {rank}{self._sentence}"


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
        notes: What else is to be said: how the program or its ranks ended, what is damaged, what
            was not counted. They have the form of findings.
        healthy: Whether nothing was found, and enough was seen to say so.

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
    notes: tuple[Finding, ...] = field(default=(), compare=False)
    healthy: bool = field(default=False, compare=False)

    @classmethod
    def read(cls, text: str) -> Findings:
        """Read what the core writes."""
        found: dict[str, Any] = json.loads(text)
        return cls(
            tuple(map(Finding.read, found["findings"])),
            {one["rule"]: one["reason"] for one in found["unchecked"]},
            found["rules"],
            found["verdict"],
            found.get("left_out", ""),
            tuple(map(Finding.read, found["notes"])),
            found["healthy"],
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
        severity: Severity = "fine" if self.healthy else "note"
        verdict = Finding("verdict", severity, self.verdict or "findings", kind="note")
        return cards((*self.items, verdict, *self.notes))

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
        super().__init__("\n".join(one.text for one in findings))
        self.findings = findings

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by what it was made from."""
        return type(self), self.findings


def cards(answers: Iterable[Finding]) -> str:
    """Return answers as HTML for a notebook, the gravest first."""
    order = list(SIGNS)
    return "".join(
        one._repr_html_() for one in sorted(answers, key=lambda one: -order.index(one.severity))
    )


def _text(text: str) -> str:
    return html.escape(_core._escape(text))
