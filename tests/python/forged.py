"""Write the files of a job of many ranks in one process, so that what each rank holds is known."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tensortap import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPLICA, SHARD, PARTIAL, BATCH, UNKNOWN = range(5)
STATS, DIGEST, HIST = 2, 4, 8

Values = Callable[[int, int], "NDArray[np.float32]"]  # of a rank at a step


class Site:
    """What the ranks of a job hold of one site."""

    def __init__(
        self, name: str, spreads: tuple[int, ...], values: Values, shape: tuple[int, ...] = ()
    ) -> None:
        self.name, self.spreads, self.values, self.shape = name, spreads, values, shape


def coordinates(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the place of each rank in the mesh, last dimension fastest."""
    yield from np.ndindex(*sizes)


def write_job(
    folder: Path,
    sizes: tuple[int, ...],
    sites: list[Site],
    steps: int,
    products: int = STATS,
    names: tuple[str, ...] = ("dp", "tp"),
) -> Path:
    """Write a file for each rank of a mesh of these sizes."""
    mesh = array("i", range(prod(sizes)))
    for rank, coordinate in enumerate(coordinates(sizes)):
        run = _core.Recorder(str(folder), rank=rank, products=products)
        mesh_id = run.mesh(names[: len(sizes)], sizes, coordinate, mesh)
        for step in range(steps):
            for site in sites:
                run.tensor(site.name, site.values(rank, step))
            if step == 0:
                for number, site in enumerate(sites):
                    if not site.spreads:  # nobody says where it belongs
                        continue
                    places = tuple((spread, 0, 1, 0) for spread in site.spreads)
                    shape = site.shape or None
                    run.place(number, 0, mesh_id, 0, places, shape, ())
            run.step()
        run.close()
    return folder
