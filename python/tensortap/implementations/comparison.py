"""What comparing two implementations of a model comes to.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tensortap.display.table import escape, table

if TYPE_CHECKING:
    from collections.abc import Iterator

Verdict = Literal["bits", "rounding", "differs", "nothing to compare"]
PairVerdict = Literal["bits", "rounding", "differs"]
MOST_NAMED = 6
ADVICE = "look at"  # what a hint begins with that says what to do
NUMBERS = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$|\||\[)")


@dataclass(frozen=True)
class Pair:
    """Two sites that are the same point of the model.

    Attributes:
        a, b: Their names; `q_proj|k_proj|v_proj` is a concatenation, `layers.3[0]+[1]` a sum.
        how: By which evidence: `weights`, `siblings` (as in the other layers), `container`,
            `value`, `position`, `name` or `map`.
        relation: How their parameters hang together: `equal`, `transposed`, `q_proj|k_proj|v_proj`.
        deviation: Of the median token, relative to the size of its values.
        verdict: `bits`, `rounding` or `differs`.
    """

    a: str
    b: str
    how: str
    relation: str
    deviation: float
    verdict: PairVerdict


@dataclass(frozen=True)
class First:
    """The first pair that is further apart than rounding explains.

    Attributes:
        a, b: The names of the two sites.
        deviation: Of the token that *of* names.
        floor: What rounding explains there.
        tokens: How many tokens are beyond it, and which in words: `64 of 64`.
        hints: What is known of its input and its parameters.
        of: The `median` token, or the `worst` if it is only some.
    """

    a: str
    b: str
    deviation: float
    floor: float
    tokens: str
    hints: tuple[str, ...] = ()
    of: Literal["median", "worst"] = "median"

    def lines(self) -> Iterator[str]:
        """Yield them in words."""
        is_same = self.a == self.b.partition("[")[0]
        where = self.a if is_same else f"{self.a} = {self.b}"
        count, _, which = self.tokens.partition(" (")
        yield (
            f"they part at {where}: {self.deviation:.1e} in "
            f"the {self.of} token where rounding explains {self.floor:.1e}, in {count} tokens"
            + (f" ({which}" if which else "")
        )
        known = [hint for hint in self.hints if not hint.startswith(ADVICE)]
        advice = [hint for hint in self.hints if hint.startswith(ADVICE)]
        if self.hints:
            yield "  " + ": ".join(filter(None, (", ".join(known), *advice)))


@dataclass(repr=False)
class Comparison:
    """How two implementations of a model compare; `tt.compare_models` returns it.

    Attributes:
        verdict: `bits` (equal in every bit), `rounding`, `differs`, or `nothing to compare`.
        first: Where they part, or None.
        pairs: All pairs, in the order in which the first model computes them.
        refused: Sites that looked alike and are not: two names and why.
        unpaired_a, unpaired_b: Sites without a counterpart.
        tokens: How many tokens (rows) both models were given.
        parameters: How many of the first model's have the same content in the second, of how
            many, and how many are constant, which identifies nothing.
        notes: What else is to be said.
        shared: Of recorded runs, how many tokens and sequences both have, in words.

    Example:
        >>> import torch, tensortap as tt
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        >>> found = tt.compare_models(model, model, torch.ones(4, 8))
        >>> found.verdict, found.tokens
        ('bits', 4)
    """

    verdict: Verdict
    first: First | None = None
    pairs: list[Pair] = field(default_factory=list)
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    unpaired_a: list[str] = field(default_factory=list)
    unpaired_b: list[str] = field(default_factory=list)
    tokens: int = 0
    parameters: tuple[int, int, int] = (0, 0, 0)
    notes: list[str] = field(default_factory=list)
    shared: str = ""

    @property
    def text(self) -> str:
        """The answer in a few lines."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        same, of, constant = self.parameters
        rest = f" ({constant} are constant and identify nothing)" if constant else ""
        if of:
            yield f"{same} of {of} parameters have the same content{rest}"
        for line in relations(self.pairs):
            yield f"  {line}"
        if self.verdict == "nothing to compare":
            yield "nothing to compare: no site of one is a site of the other"
            yield from self.notes
            return
        yield f"{len(self.pairs)} sites paired, {self.shared or f'{self.tokens} tokens in both'}"
        if self.first is not None:
            yield from self.first.lines()
        elif self.verdict == "bits":
            yield "equal in every bit"
        else:
            worst = max(self.pairs, key=lambda pair: pair.deviation)
            yield f"the same but for rounding: at most {worst.deviation:.1e}, in {worst.a}"
        yield from self.notes
        if self.unpaired_a:
            yield f"not compared (no counterpart): {few(folded(self.unpaired_a))}"
        if self.refused:
            sites: dict[str, list[str]] = defaultdict(list)
            for name, _, why in self.refused:
                is_short = why.startswith("unlike") and "factor" not in why
                sites["unlike points" if is_short else why].append(name)
            for why, names in sites.items():
                yield f"not compared ({why}): {few(folded(names))}"

    def to_map(self, path: str | Path) -> None:
        """Write the pairs as JSON, for `map=` after it was corrected by hand."""
        whole = {pair.a: pair.b for pair in self.pairs if not set("|[") & set(pair.a + pair.b)}
        Path(path).write_text(json.dumps({"pairs": whole}, indent=1) + "\n")

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(p.a, p.b, p.how, f"{p.deviation:.1e}", p.verdict) for p in self.pairs]
        heads = ("a", "b", "paired by", "deviation", "")
        text = "\n".join(map(escape, self._lines()))
        return (
            f"<pre style='white-space:pre-wrap'>{text}</pre>"
            f"<details><summary>{len(self.pairs)} pairs</summary>{table('', rows, heads)}</details>"
        )


def fold(name: str) -> str:
    """Return a name with a star for each number of a layer."""
    return NUMBERS.sub("*", name)


def filled(name: str, numbers: list[str]) -> str:
    """Return a name with numbers in place of its stars."""
    left = iter(numbers)
    return re.sub(r"\*", lambda _: next(left, "*"), name)


def folded(names: list[str]) -> list[str]:
    """Return names with a star for each number of a layer, each once."""
    counts = Counter(map(fold, names))
    return [
        name if count > 1 else next(n for n in names if fold(n) == name)
        for name, count in counts.items()
    ]


def few(names: list[str]) -> str:
    """Join the first of some names."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def relations(pairs: list[Pair]) -> list[str]:
    """Describe modules that are several of the other model, and layers unlike their siblings."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        if "|" in pair.a + pair.b or "+" in pair.a + pair.b:
            groups[fold(pair.a), fold(pair.b)].append(pair)
    lines = [
        f"{a} = {b}" + (f" ({len(g)} layers alike)" if len(g) > 1 else "")
        for (a, b), g in groups.items()
    ]
    return lines[:MOST_NAMED] + odd_layers(pairs)


def odd_layers(pairs: list[Pair]) -> list[str]:
    """Name the layers whose relation differs from that of their siblings."""
    by_one: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pair in pairs:
        for one, other in ((pair.a, pair.b), (pair.b, pair.a)):
            if "|" in other and "|" not in one:
                by_one[fold(one)][fold(other)].append(one)
    lines = []
    for kinds in by_one.values():
        if len(kinds) > 1:
            usual = max(kinds, key=lambda kind: len(kinds[kind]))
            for kind, names in kinds.items():
                if kind != usual:
                    lines.append(f"{few(names)} is {kind}, where its siblings are {usual}")
    return lines


def read_map(given: str | Path | dict[str, str] | None) -> dict[str, str]:
    """Return the corrections of the user: names of the first model -> of the second."""
    if given is None or isinstance(given, dict):
        return dict(given or {})
    try:
        found: Any = json.loads(Path(given).read_text())["pairs"]
        if not all(isinstance(x, str) for pair in found.items() for x in pair):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        form = '{"pairs": {"name in a": "name in b"}}'
        raise ValueError(f"map must hold {form}, as to_map() writes it: {given}") from None
    return dict(found)
