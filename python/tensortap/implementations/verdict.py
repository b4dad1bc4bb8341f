"""Judge the pairs of two implementations: where they part, and what is known of that place.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensortap.implementations.comparison import ADVICE, Comparison, First, Pair, few, folded
from tensortap.implementations.floor import MOST, Floor, base_of, median_of
from tensortap.implementations.pairing import Pairing
from tensortap.implementations.weights import SAME, match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensortap.implementations.comparison import PairVerdict
    from tensortap.implementations.pairing import Candidate
    from tensortap.implementations.sites import Site
    from tensortap.implementations.tokens import Key
    from tensortap.implementations.weights import Weight

HINTS = {  # words in the name or the class of a module -> what to look at
    "norm": "eps",
    "rotary": "the base and the positions",
    "gelu": "the variant of the activation",
    "act": "the variant of the activation",
    "attention": "mask, scale and positions",
    "attn": "mask, scale and positions",
}


def compare_sites(
    sites_a: list[Site],
    sites_b: list[Site],
    weights_a: list[Weight],
    weights_b: list[Weight],
    corrections: dict[str, str] | None,
    places: list[Key] | None = None,
) -> Comparison:
    """Pair the sites of two models and judge the pairs.

    Args:
        sites_a, sites_b: Their sites.
        weights_a, weights_b: Their parameters.
        corrections: Pairs that are known; None: there is nothing to compare.
        places: Of each token, its sequence and its position; None: not known.
    """
    matches = match(weights_a, weights_b)
    pairing = Pairing(sites_a, sites_b, matches, (weights_a, weights_b))
    can_match = all(any(not w.is_constant for w in some) for some in (weights_a, weights_b))
    if corrections is not None and (matches or corrections or not can_match):
        pairing.run(corrections)
    result = conclude(pairing, places)
    same = len({m.a.name for m in matches if not m.unlike})
    result.parameters = same, len(weights_a), sum(w.is_constant for w in weights_a)
    if not matches:
        there = {(w.name, w.shape) for w in weights_b}
        alike = sum((w.name, w.shape) in there for w in weights_a if not w.is_constant)
        if alike:
            result.notes.append(
                f"{alike} have the same name and shape in both, and another content: another "
                "checkpoint, or weights that were not updated?"
            )
    return result


def conclude(pairing: Pairing, places: list[Key] | None = None) -> Comparison:
    """Judge the pairs in the order in which they are computed."""
    floor = Floor()
    result = Comparison("nothing to compare", refused=pairing.refused)
    for i, one in enumerate(pairing.pairs):
        most, worst, is_within = floor.judge(one.x, one.y, one.found, one.coarse)
        verdict: PairVerdict = (
            "bits" if one.x.equals(one.y) else "rounding" if is_within else "differs"
        )
        pair = Pair(one.name_a, one.name_b, one.how, one.relation, one.distance, verdict)
        result.pairs.append(pair)
        if not is_within and result.first is None:
            beyond = floor.beyond(one.x, one.y, one.found, one.coarse)
            tokens = f"{int(beyond.sum())} of {len(one.found)}{_which(beyond, places)}"
            hints = tuple(_hints(one, pairing.pairs[:i], pairing))
            if pair.deviation > most:
                first = First(pair.a, pair.b, pair.deviation, most, tokens, hints)
            else:  # it is a few tokens
                far = float(one.found.max())
                first = First(pair.a, pair.b, far, worst, tokens, hints, "worst")
            result.first = first
    coarse = max((one.coarse for one in pairing.pairs), default=0.0)
    if coarse:
        count = sum(one.coarse > 0 for one in pairing.pairs)
        result.notes.append(
            f"{count} sites have quantised weights, whose rounding explains up to {2 * coarse:.1e} "
            "each: a smaller fault is not seen"
        )
    if result.first is not None:
        result.verdict = "differs"
    elif result.pairs:
        are_equal = all(pair.verdict == "bits" for pair in result.pairs)
        result.verdict = "bits" if are_equal else "rounding"
    result.unpaired_a = _left(pairing.sites_a, pairing.used_a)
    result.unpaired_b = _left(pairing.sites_b, pairing.used_b)
    return result


def _left(sites: list[Site], used: set[tuple[str, int]]) -> list[str]:
    return list(dict.fromkeys(s.title for s in sites if s.key not in used and s.parts))


def _which(beyond: Any, places: list[Key] | None) -> str:
    """Describe these tokens, if they are not all."""
    rows = beyond.nonzero()[0].tolist()
    if not rows or len(rows) == len(beyond):
        return ""
    if places is None:
        return f" (row {rows[0]})" if len(rows) == 1 else f" (rows {rows[0]} to {rows[-1]})"
    numbers = {hash_: i for i, hash_ in enumerate(dict.fromkeys(one for one, _ in places))}
    found = [places[i] for i in rows]
    others = [place for place, is_beyond in zip(places, beyond, strict=True) if not is_beyond]
    sequences = list(dict.fromkeys(one for one, _ in found))
    word = f"sequence{'s' * (len(sequences) > 1)} {', '.join(str(numbers[x]) for x in sequences)}"
    if not set(sequences) & {one for one, _ in others}:
        return f" (all of {word})"
    low, high = min(at for _, at in found), max(at for _, at in found)
    where = f"positions {low} to {high}" if low < high else f"position {low}"
    if all(at < low for _, at in others):
        where = f"positions from {low} on"
    elif all(at > high for _, at in others):
        where = f"positions up to {high}"
    is_one = len(sequences) == 1 < len(numbers)
    return f" ({where} of {word})" if is_one else f" ({where})"


def _hints(one: Candidate, before: list[Candidate], pairing: Pairing) -> Iterator[str]:
    """Yield what is known of the input and the parameters of the site where they part."""
    x, y = one.a.given, one.b.given
    apart = None
    if x is not None and y is not None and x.fits(y):
        apart = median_of(x.apart(y))
        apart = apart if apart <= MOST * base_of(x, y) else None
    if apart is not None:
        yield f"its input agrees ({apart:.1e})"
    between: list[str] = []
    if apart is None and before:
        most = max(pair.distance for pair in before)
        yield f"all {len(before)} sites before it agree (at most {most:.1e})"
        end = before[-1].a.end
        between = [
            site.title
            for site in pairing.sites_a
            if site.key not in pairing.used_a and site.parts and end < site.end < one.a.start
        ]
        if between:
            yield f"what is between was not compared: {few(folded(between))}"
    words = pairing.parameters(one)
    for word in dict.fromkeys(words.values()):
        keys = [key for key, other in words.items() if other == word]
        yield f"its {' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} {word}"
    name = f"{one.a.kind} {one.a.name}".lower()
    hint = next((text for word, text in HINTS.items() if word in name), None)
    if hint and not between and all(word in SAME for word in words.values()):
        yield f"{ADVICE} {hint}"
