"""Meshes of ranks, as torch keeps them: their axes, and along which of them a batch is split.

Everything is known to this rank alone; nothing here communicates.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from types import FrameType
from typing import Any, NamedTuple

from tensortap.private.capability import Capability

MESHES = Capability(
    "know where tensors belong in a job of many ranks",
    "where tensors belong in a job of many ranks is not seen",
)


class Axis(NamedTuple):
    """One dimension of a mesh, as this rank sees it.

    Attributes:
        name: Its name; "": it has none.
        steps: How far each member is from the first, in the list of the root mesh.
        at: Which of them this rank is.
        root: The ranks of the root mesh; axes of one root can be put together.
    """

    name: str
    steps: tuple[int, ...]
    at: int
    root: tuple[int, ...]


class Grid(NamedTuple):
    """Ranks as a grid, and this rank's position in it."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    coordinate: tuple[int, ...]
    ranks: tuple[int, ...]  # all of them, last dimension fastest


def axes_of(mesh: Any) -> tuple[Axis, ...] | None:
    """Return the axes of a mesh; None: this rank is not part of it."""
    at = mesh.get_coordinate()
    if at is None:
        return None
    names = mesh.mesh_dim_names or ("",) * mesh.ndim
    layout = getattr(mesh, "_layout", None)
    if layout is not None:
        root = tuple(mesh._flatten_rank_map)
        steps = [tuple(one.all_ranks_from_zero()) for one in layout]
    else:  # an older torch: axes of two meshes cannot be put together
        table = mesh.mesh.tolist()
        root = tuple(_flat(table))
        sizes = tuple(mesh.mesh.shape)
        steps = [
            tuple(i * _product(sizes[d + 1 :]) for i in range(size)) for d, size in enumerate(sizes)
        ]
    return tuple(Axis(*one, root) for one in zip(names, steps, map(int, at), strict=True))


def axis_of_group(group: Any) -> tuple[Axis, ...] | None:
    """Return a process group as an axis; None: this rank is not part of it."""
    distributed = sys.modules["torch.distributed"]
    ranks = tuple(distributed.get_process_group_ranks(group))
    me = distributed.get_rank()
    steps = tuple(range(len(ranks)))
    return (Axis("", steps, ranks.index(me), ranks),) if me in ranks else None


def axis_of_stage() -> tuple[Axis, ...]:
    """Return this rank alone as an axis if a stage of a pipeline is calling its module.

    Other ranks have other layers; where a stage has several, its module is wrapped or sharded.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if "/torch/distributed/pipelining/" in frame.f_code.co_filename:
            me = sys.modules["torch.distributed"].get_rank()
            return (Axis("stage", (0,), 0, (me,)),)
        frame = frame.f_back
    return ()


def grid_of(axes: Sequence[Axis]) -> Grid | None:
    """Put axes together; None: they are not of one root."""
    if not axes or any(one.root != axes[0].root for one in axes):
        return None
    root = axes[0].root
    here = root.index(sys.modules["torch.distributed"].get_rank())
    first = here - sum(one.steps[one.at] for one in axes)
    return Grid(
        tuple(one.name for one in axes),
        tuple(len(one.steps) for one in axes),
        tuple(one.at for one in axes),
        tuple(root[first + sum(steps)] for steps in product(*(one.steps for one in axes))),
    )


def spec_of(tensor: Any) -> Any:
    """Return what says where a tensor belongs; None: it is plain, and was not made of a DTensor."""
    spec = getattr(tensor, "_spec", None)
    node = getattr(tensor, "grad_fn", None)
    return spec if spec is not None else getattr(node, "dtensor_spec", None)


def data_axes(model: Any) -> tuple[str, tuple[Axis, ...]]:
    """Return what splits the batch of a model, and along which axes.

    Returns:
        "ddp", "fsdp" or "", and the axes; none where nothing is known to split it.
    """
    for module in model.modules():
        kind = type(module).__name__
        if kind in ("DistributedDataParallel", "FullyShardedDataParallel"):
            mesh = getattr(module, "device_mesh", None)
            found = axes_of(mesh) if mesh is not None else axis_of_group(module.process_group)
            return "ddp" if kind[0] == "D" else "fsdp", found or ()
        for group in _groups_of(module):
            info = group.mesh_info
            is_for_all = getattr(info, "is_spmd_mesh", False)  # its axes are not only those of data
            found = None if is_for_all else axes_of(info.mesh)
            return "fsdp", found or ()
    return "", ()


@MESHES.guards(False)
def offloads_gradients(model: Any) -> bool:
    """Return whether FSDP2 copies gradients to the CPU, which a hook on them would block."""
    policies = (group.offload_policy for one in model.modules() for group in _groups_of(one))
    return any(type(policy).__name__ == "CPUOffloadPolicy" for policy in policies)


NONE_GATHERED: dict[int, Any] = {}


@MESHES.guards(NONE_GATHERED)
def gathered(model: Any) -> dict[int, Any]:
    """Return what optimizers have in place of parameters that FSDP2 has gathered, by their ids.

    A program may gather them before its first call, with `unshard()`.
    """
    every = (group for one in model.modules() for group in _groups_of(one))
    held = (one for group in every for one in group.fsdp_params)
    found = {id(getattr(one, "_unsharded_param", None)): one.sharded_param for one in held}
    return {key: one for key, one in found.items() if key != id(None)}


def _groups_of(module: Any) -> list[Any]:
    """Return the groups of parameters that FSDP2 made of a module."""
    get_state = getattr(module, "_get_fsdp_state", None)
    state = get_state() if get_state is not None else None
    groups = getattr(state, "_fsdp_param_groups", None)
    groups = groups if groups is not None else [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]


def hook_layouts(module: Any, is_input: bool) -> tuple[Any, tuple[Any, ...]] | None:
    """Return the mesh and the layouts in the hooks of a module that `parallelize_module` made.

    Args:
        module: The module.
        is_input: Of its first input as the program passes it, else of its output.

    Returns:
        None where there is no such hook, or not one that is known.
    """
    hooks = module._forward_pre_hooks if is_input else module._forward_hooks
    for hook in hooks.values():
        cells = getattr(hook, "__closure__", None) or ()
        held = {type(one).__name__: one for one in (cell.cell_contents for cell in cells)}
        mesh, function = held.get("DeviceMesh"), held.get("partial")
        arguments = getattr(function, "args", ())
        name = getattr(getattr(function, "func", None), "__name__", "")
        expected = "_prepare_input_fn" if is_input else "_prepare_output_fn"
        if mesh is not None and name == expected and arguments and _are_layouts(arguments[0], mesh):
            return mesh, arguments[0]
    return None


def _are_layouts(layouts: Any, mesh: Any) -> bool:
    from torch.distributed.tensor import Placement

    is_tuple = isinstance(layouts, tuple) and len(layouts) == mesh.ndim
    return is_tuple and all(isinstance(one, Placement) for one in layouts)


def _flat(table: Any) -> list[int]:
    return [one for row in table for one in _flat(row)] if isinstance(table, list) else [int(table)]


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for one in numbers:
        result *= one
    return result
