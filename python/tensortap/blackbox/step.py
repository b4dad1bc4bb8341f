"""One step of a training: what is kept of it, and how the file describes it.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensortap import _core
from tensortap.blackbox.locals import Variable, variables
from tensortap.blackbox.memory import Kept, Memory, identity
from tensortap.models.forward import autocast_now, random_states
from tensortap.private.shards import local_part

GENERATORS = 1 << 15  # bytes of the states of all random generators, in memory
SAMPLE = 1 << 13  # most bytes of a gradient that are read in a step that does not fail


class Batch:
    """A batch that was drawn; *number* counts those of its loader from 0."""

    def __init__(self, loader: str, number: int, rows: Any, kept: Kept) -> None:
        """Remember the batch, and its rows of the dataset if the sampler returned numbers."""
        self.loader, self.number, self.kept = loader, number, kept
        is_list = isinstance(rows, (list, tuple)) and all(type(row) is int for row in rows)
        self.rows = list(rows) if is_list else None


class Step:
    """What is kept of one step."""

    def __init__(self, number: int, fetched: dict[str, int]) -> None:
        self.number, self.fetched = number, fetched
        self.random = random_states()
        self.size = GENERATORS  # bytes of what is kept
        self.is_started = False  # something has happened in it
        self.batches: list[Batch] = []
        self.forwards: list[dict[str, Any]] = []
        self.inputs: list[Kept] = []  # one for each forward
        self.losses: list[tuple[str | None, float | None]] = []  # digest and value
        self.updates: list[dict[str, Any]] = []
        self.variables: list[Variable] | None = None  # at its first forward

    def memories(self) -> list[Memory]:
        """Return the memory of its batches and inputs, where there is any."""
        kept = [one.kept for one in self.batches] + self.inputs
        return [one.memory for one in kept if one.memory.size]

    def keep_batch(self, batch: Batch) -> None:
        """Keep a batch that was drawn."""
        self.batches.append(batch)
        self.size += batch.kept.memory.used

    def keep_forward(self, event: _core.ModuleEvent, memory: Callable[[], Memory]) -> None:
        """Keep the inputs of a forward that are not in a batch, and what else it depends on."""
        import torch

        if self.variables is None:
            self.variables = variables()
        found = _core.find_tensors((event.args, event.kwargs or {}), "")
        tensors = [tensor for _, tensor in found]
        inputs, unknown = [], {}
        for (name, tensor), digest in zip(found, digests(tensors), strict=True):
            known = identity(tensor)
            places = [
                (i, batch.kept.names[known])
                for i, batch in enumerate(self.batches)
                if known in batch.kept.names
            ]
            same = places[-1] if places else None  # a batch is kept once
            inputs.append((name, digest, same))
            if same is None:
                unknown[name] = tensor
        kept = Kept(unknown, memory() if unknown else Memory())
        self.inputs.append(kept)
        self.size += kept.memory.used + GENERATORS
        self.forwards.append(
            {
                "model": event.name,
                "inputs": inputs,
                "outputs": [],
                "random": random_states(),
                "autocast": repr(autocast_now(tuple(tensors))),
                "grad": torch.is_grad_enabled(),
            }
        )

    def keep_outputs(self, event: _core.ModuleEvent) -> None:
        """Keep the digests of what the latest forward of this model has returned."""
        for forward in reversed(self.forwards):
            if forward["model"] == event.name and not forward["outputs"]:
                found = _core.find_tensors(event.output, "")
                texts = digests([tensor for _, tensor in found])
                forward["outputs"] = [(n, d) for (n, _), d in zip(found, texts, strict=True)]
                return

    def keep_gradients(
        self, names: list[str], tensors: list[Any], *, whole: bool, sampled: bool
    ) -> None:
        """Keep the digests of the gradients of an update, of every element or of a sample."""
        for key, is_wanted, limit in (("gradients", whole, 0), ("samples", sampled, SAMPLE)):
            found = digests(tensors, limit) if is_wanted else []
            self.updates[-1][key] = list(zip(names, found, strict=False))

    def digests(self) -> dict[str, str | None]:
        """Return everything in it that a replay must compute again, by name."""
        found: dict[str, str | None] = {}
        for i, forward in enumerate(self.forwards):
            for kind in ("inputs", "outputs"):
                found.update((f"{kind}/{i}{name}", digest) for name, digest, *_ in forward[kind])
        found.update((f"loss/{i}", digest) for i, (digest, _) in enumerate(self.losses))
        for i, update in enumerate(self.updates):
            found.update((f"gradient/{n}#{i}", digest) for n, digest in update["gradients"])
            found.update((f"gradient/{n}#{i} sample", d) for n, d in update["samples"])
        return found

    def describe(self) -> tuple[dict[str, Any], list[tuple[str, Memory]]]:
        """Return what the file says of it, and its tensors with what comes before their names."""
        states = [self.random, *(forward["random"] for forward in self.forwards)]
        random = Kept(states, Memory())
        facts = {
            "step": self.number,
            "fetched": self.fetched,
            "random": random.tree,
            "batches": [
                {"loader": b.loader, "number": b.number, "rows": b.rows, "value": b.kept.tree}
                for b in self.batches
            ],
            "forwards": [
                {key: value for key, value in forward.items() if key != "random"}
                for forward in self.forwards
            ],
            "losses": self.losses,
            "updates": [
                {"optimizer": one["optimizer"], "numbers": one["numbers"]} for one in self.updates
            ],
            "digests": self.digests(),
            "variables": self.variables or [],
        }
        at = f"step{self.number}"
        return facts, [
            (f"{at}/random", random.memory),
            *((f"{at}/batch{i}", one.kept.memory) for i, one in enumerate(self.batches)),
            *((f"{at}/inputs{i}", one.memory) for i, one in enumerate(self.inputs)),
        ]


def digests(tensors: list[Any], limit: int = 0) -> list[str | None]:
    """Return the digest of each tensor; None: it cannot be read here.

    With *limit*, about so many bytes of a larger tensor are read: rows at equal distances.
    """
    return _core._digests([local_part(one) for one in tensors], limit)
