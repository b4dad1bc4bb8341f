"""Run a model once and keep what each of its modules was given and returned, a row a token.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensortap import _core
from tensortap.implementations.rows import EPS, Values
from tensortap.models.modules import ROOT, class_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tensortap.implementations.rows import Rows
    from tensortap.implementations.tokens import Tokens

IMAGES = ("Conv", "BatchNorm", "Pool")  # in names of modules whose output has channels second
SUM = "[0]+[1]"
STEPS = {  # half a step of quantised weights over the largest; packed ones have four bits
    "int8": 2.0**-7,
    "uint8": 2.0**-3,
    "int32": 2.0**-3,
    **{name: eps for name, eps in EPS.items() if name.startswith("float8")},
}


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
        coarse: Half a step of its weights if they are quantised, relative to the largest; else 0.
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
    coarse: float = 0.0

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
        self._images: set[str] = set()
        for path, module, is_called in walk(model):
            if is_called:
                self._consumer.add(module, path)
            if is_image_kind(kind_of(module)):
                self._images.update(upwards(path))

    def _before(self, event: _core.ModuleEvent) -> None:
        self._clock += 1
        self._open.append(self._clock)
        first = next(iter((*event.args, *(event.kwargs or {}).values())), None)
        self._given.append(self._rows(first, event.name, event.module))

    def _after(self, event: _core.ModuleEvent) -> None:
        self._clock += 1
        start, given = self._open.pop(), self._given.pop()
        is_leaf = next(event.module.children(), None) is None
        kind = kind_of(event.module)
        site = Site(event.name, kind, event.call, start, self._clock, len(self._open), is_leaf)
        site.given = given
        own = dict(event.module.named_parameters(recurse=False))
        site.shapes = tuple(tuple(p.shape) for p in own.values())
        own.update(event.module.named_buffers(recurse=False))
        steps = (coarse_of(key, str(x.dtype).rpartition(".")[2]) for key, x in own.items())
        site.coarse = max(steps, default=0.0)
        out = event.output
        outputs = list(out.values()) if isinstance(out, dict) else out
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        rows = (self._rows(one, event.name, event.module) for one in outputs)
        site.parts = [one for one in rows if one is not None]
        self.sites.append(site)

    def _rows(self, x: Any, name: str, module: torch.nn.Module) -> Values | None:
        is_plain = next(module.parameters(), None) is None  # a ReLU returns what it is beside
        is_image = name in self._images or (is_plain and name.rpartition(".")[0] in self._images)
        return rows_of(x, self._tokens, is_image=is_image)

    def close(self) -> None:
        """Leave the model as it was."""
        self._consumer.remove()


def coarse_of(key: str, dtype: str) -> float:
    """Return the relative half step of a weight that is stored in few bits, else 0."""
    return STEPS.get(dtype, 0.0) if "weight" in key else 0.0


def kind_of(module: torch.nn.Module) -> str:
    """Return the name of the class that the program wrote; an exported program keeps it."""
    exported = getattr(module, "type_name", None)
    name = exported() if callable(exported) else None
    return name.rpartition(".")[2] if isinstance(name, str) else class_of(module).__name__


def is_image_kind(kind: str) -> bool:
    """Return whether modules of a class return images, with channels second."""
    return any(word in kind for word in IMAGES)


def rows_of(x: Any, tokens: Tokens | None, *, is_image: bool) -> Values | None:
    """Return a copy with a row for each token (pixel), or None if it has no such rows.

    It is a copy at once: fused kernels overwrite what they returned.
    """
    import torch

    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.ndim < 2:
        return None
    if x.ndim == 4 and is_image:
        x = x.permute(0, 2, 3, 1)
    flat = x.detach().reshape(-1, x.shape[-1])
    if tokens is not None and len(flat) != len(tokens):
        return None
    return Values(flat.clone())


def upwards(path: str) -> Iterator[str]:
    """Yield a path and all above it."""
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path
