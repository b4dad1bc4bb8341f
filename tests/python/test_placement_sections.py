"""Meshes and placements, through the extension and the file.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

import tensortap as tt
from tensortap import _core


def test_a_placement_comes_back_from_the_file(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        run.log("x", 1.0)
        mesh = run.mesh(("dp", "tp"), (2, 2), (1, 0), array("i", [0, 1, 2, 3]))
        run.place(0, 3, mesh, 1, ((1, 0, 2, 0), (0, 0, 1, 0)), (8, 4), (((4, 0), (2, 4)),))
    reader = _core.RunReader(str(tmp_path / "run"))
    site = reader.find("x")
    assert reader.placement(0, site, 2) is None
    assert reader.placement(0, site, 3) == (
        3,
        (["dp", "tp"], [2, 2], [1, 0], [0, 1, 2, 3]),
        1,
        [(1, 0, 2, 0), (0, 0, 1, 0)],
        (8, 4),
        [((4, 0), (2, 4))],
    )


def test_a_mesh_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with tt.record(tmp_path / "run") as run:
        for sizes, at in (((2,), (2,)), ((2, 2), (0,)), ((3,), (0,))):
            with pytest.raises(ValueError, match="do not fit"):
                run.mesh(("dp",), sizes, at, array("i", [0, 1]))
