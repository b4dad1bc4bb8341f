"""Run a model once and keep what each of its modules was given and returned, a row a token.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.implementations.rows import Values
from tensortap.models.modules import ROOT, class_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tensortap.implementations.rows import Rows
    from tensortap.implementations.tokens import Tokens

IMAGES = ("Conv", "BatchNorm", "Pool")  # modules whose output has its channels second
SUM = "[0]+[1]"


@dataclass
class Site:
    """What one call of a module returned.

    Attributes:
        name: The path of the module.
        kind: Its class.
        call: The number of the call.
        start, end: Where the call began and ended among all beginnings and ends.
        parts: What it returned: of each tensor, its rows.
        given: What it was given first, likewise; None: nothing that has rows.
        is_leaf: Whether it has no modules of its own.
        shapes: Of its own parameters.
    """

    name: str
    kind: str
    call: int
    start: int
    end: int
    depth: int
    is_leaf: bool
    parts: list[Rows] = field(default_factory=list)
    given: Rows | None = None
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def title(self) -> str:
        """Its name as it is shown."""
        return self.name or ROOT

    @property
    def key(self) -> tuple[str, int]:
        """What identifies it."""
        return self.name, self.call

    def keep(self, rows: list[int]) -> None:
        """Keep these rows, in this order."""
        self.parts = [part.pick(rows) for part in self.parts]
        self.given = None if self.given is None else self.given.pick(rows)

    def views(self) -> Iterator[tuple[str, Rows]]:
        """Yield what it can be compared as: each part, and the sum of hidden and residual."""
        for i, part in enumerate(self.parts):
            yield f"[{i}]" if len(self.parts) > 1 else "", part
        if len(self.parts) > 1 and self.parts[0].fits(self.parts[1]):
            yield SUM, self.parts[0].plus(self.parts[1])


class Tap:
    """Collects the sites of one forward."""

    def __init__(self, model: torch.nn.Module, tokens: Tokens | None) -> None:
        self.sites: list[Site] = []
        self._tokens = tokens
        self._clock = 0
        self._open: list[int] = []
        self._given: list[Rows | None] = []
        self._consumer = _core.ModuleConsumer(self._before, self._after)
        for path, module, is_called in walk(model):
            if is_called:
                self._consumer.add(module, path)

    def _before(self, event: _core.ModuleEvent) -> None:
        self._clock += 1
        self._open.append(self._clock)
        first = next(iter((*event.args, *(event.kwargs or {}).values())), None)
        self._given.append(self._rows(first, event.module))

    def _after(self, event: _core.ModuleEvent) -> None:
        self._clock += 1
        start, given = self._open.pop(), self._given.pop()
        is_leaf = next(event.module.children(), None) is None
        kind = class_of(event.module).__name__
        site = Site(event.name, kind, event.call, start, self._clock, len(self._open), is_leaf)
        site.given = given
        site.shapes = tuple(tuple(p.shape) for p in event.module.parameters(recurse=False))
        out = event.output
        outputs = list(out.values()) if isinstance(out, dict) else out
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        rows = (self._rows(one, event.module) for one in outputs)
        site.parts = [one for one in rows if one is not None]
        self.sites.append(site)

    def _rows(self, x: Any, module: torch.nn.Module) -> Values | None:
        """Return a copy with a row for each token, or None if it has no such rows.

        It is a copy at once: fused kernels overwrite what they returned.
        """
        import torch

        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2:
            return None
        if x.ndim == 4 and any(word in type(module).__name__ for word in IMAGES):
            x = x.permute(0, 2, 3, 1)
        flat = x.detach().reshape(-1, x.shape[-1])
        if self._tokens is not None and len(flat) != len(self._tokens):
            return None
        return Values(flat.clone())

    def close(self) -> None:
        """Leave the model as it was."""
        self._consumer.remove()
