"""Record where tensors belong in a job of many ranks, when that changes.

The recorder calls it when the object that says so is another one than before: the spec of a
DTensor; of a plain tensor there is none, and its module and the model's wrappers say what is known.
Every rank writes what it knows itself; nothing communicates.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensortap.compiled.hooks import unseen
from tensortap.models.modules import ROOT, module_name
from tensortap.models.placement import (
    BATCH,
    REPLICA,
    UNKNOWN,
    Kind,
    Part,
    Source,
    Spread,
    part_of,
    spread_of,
)
from tensortap.private.dispatch import without_modes
from tensortap.private.graphs import splits_of
from tensortap.private.meshes import (
    MESHES,
    Axis,
    Grid,
    axes_of,
    axis_of_stage,
    data_axes,
    grid_of,
    hook_layouts,
    spec_of,
)
from tensortap.private.shards import is_sharded
from tensortap.private.tensors import without_functions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensortap import _core

MOST_SHAPES = 32  # of one site; where each batch has its own, they are left out


class Model:
    """A watched model: what splits its batch, and along which axes it is sharded.

    Found out at the first event: programs may wrap a model after they have it watched.
    """

    def __init__(self, model: Any) -> None:
        self._model = ref(model)

    @cached_property
    def _axes(self) -> tuple[str, tuple[Axis, ...], tuple[Axis, ...]]:
        model = self._model()
        if model is None:
            return "", (), ()
        wrapper, data = data_axes(model)
        others: tuple[Axis, ...] = ()
        for parameter in model.parameters():
            spec = spec_of(parameter) if is_sharded(parameter) else None
            for axis in (axes_of(spec.mesh) if spec is not None else None) or ():
                if not _has(data, axis) and not _has(others, axis):
                    others += (axis,)
        if not data and not others:
            data = axis_of_stage()
            wrapper = "stage" if data else ""
        return wrapper, data, others

    def ignores(self, path: str) -> bool:
        """Return whether DDP leaves a parameter alone."""
        names = getattr(self._model(), "parameters_to_ignore", ())
        return path.rpartition(":")[2] in names

    @property
    def wrapper(self) -> str:
        """What splits its batch: "ddp", "fsdp", "" or, of one rank only, "stage"."""
        return self._axes[0]

    @property
    def data(self) -> tuple[Axis, ...]:
        """The axes along which its batch is split."""
        return self._axes[1]

    @property
    def others(self) -> tuple[Axis, ...]:
        """The other axes of its parameters."""
        return self._axes[2]


class Places:
    """The places of the tensors of one run.

    Args:
        recorder: The run.
    """

    def __init__(self, recorder: _core.Recorder) -> None:
        self._recorder = ref(recorder)
        self._models: dict[int, Model] = {}  # by id() of the watched one
        self._modules: dict[str, tuple[ref[Any], Model]] = {}  # by name
        self._parameters: dict[str, Model] = {}
        self._meshes: dict[Grid, int] = {}
        self._specs: dict[int, Any] = {}  # by site: what said where its tensors belong
        self._latest: dict[int, tuple[Grid, Part]] = {}  # by site
        self._outputs: dict[str, tuple[Any, Grid, Part]] = {}  # by path; with the local shape
        self._shapes: dict[int, int] = {}  # by site: how many it had
        recorder.watchers.append(self)
        recorder.placer = unseen(self.place, is_traced=False)

    @staticmethod
    def of(recorder: _core.Recorder) -> Places:
        """Return the one of this recorder."""
        for watcher in recorder.watchers:
            if isinstance(watcher, Places):
                return watcher
        return Places(recorder)

    def add(
        self, model: Any, modules: Iterable[tuple[str, Any]], parameters: Iterable[str]
    ) -> None:
        """Add a model, with its modules by name and the names of its parameters."""
        known = self._models[id(model)] = Model(model)
        self._modules.update({name: (ref(one), known) for name, one in modules})
        self._parameters.update(dict.fromkeys(parameters, known))

    def forget(self) -> None:
        """Write all places again, into another file."""
        for known in (self._meshes, self._specs, self._latest, self._shapes):
            known.clear()

    def _close(self) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.placer = None

    def place(self, site: int, name: str, tensor: Any, spec: Any, step: int) -> bool:
        """Record where the tensors of a site belong from a step on.

        Returns:
            Whether the spec of such a tensor is in the graph of torch.
        """
        if spec is not None and self._specs.get(site) == spec:
            return False  # redistribute() makes a new one each time
        with without_functions(), without_modes():
            asks_graph = self._place(site, name, tensor, spec, step)
        self._specs[site] = spec
        return asks_graph

    @MESHES.guards(False)
    def _place(self, site: int, name: str, tensor: Any, spec: Any, step: int) -> bool:
        kind, _, path = name.partition("/")
        is_parameter = kind in ("parameter", "gradient", "buffer")
        module, model = self._find(kind, path)
        asks_graph = kind == "activation" and model is not None and bool(model.others)
        is_plain = spec is None or not is_sharded(tensor)
        if spec is None and asks_graph and tensor is not None:
            spec = spec_of(tensor)
        if spec is not None:
            found = self._by_spec(tensor, spec, model, is_parameter)
            if found is not None and is_plain:
                found = found[0], found[1].said_by(Source.HOOK)
        elif asks_graph and site in self._latest and tensor is not None and tensor.grad_fn is None:
            return True  # a call without gradients: the layout is the one of the others
        elif model is None:
            return False
        elif is_parameter:
            is_shared = kind != "buffer" or is_shared_by_ranks(module)
            found = self._of_plain_parameter(path, tensor, model, is_shared)
        else:
            found = self._of_plain_tensor(kind, path, tensor, module, model)
        if found is not None:
            if kind == "activation" and tensor is not None:
                self._outputs[path] = tuple(tensor.shape), *found
            self._write(site, step, *found)
        return asks_graph

    def _find(self, kind: str, path: str) -> tuple[Any, Model | None]:
        """Return the module and the model of a site; of what the program records itself none."""
        if kind in ("parameter", "gradient"):
            return None, self._parameters.get(path)
        if kind == "buffer":
            owner = self._modules.get(path.rpartition(".")[0] or ROOT)
            return owner[0]() if owner is not None else None, self._parameters.get(path)
        if kind == "loss":
            models = list(self._models.values())
            return None, models[0] if len(models) == 1 else None
        known = self._modules.get(module_name(path, self._modules))
        return (known[0](), known[1]) if known is not None else (None, None)

    def _by_spec(
        self, tensor: Any, spec: Any, model: Model | None, is_parameter: bool
    ) -> tuple[Grid, Part] | None:
        own = axes_of(spec.mesh)
        if own is None:  # this rank has nothing of it
            return None
        return self._beside_data(own, part_of(tensor, spec), model, is_parameter)

    def _beside_data(
        self, own: tuple[Axis, ...], part: Part, model: Model | None, is_parameter: bool
    ) -> tuple[Grid, Part] | None:
        """Place a part on a grid that has its own axes and those of the model's data."""
        said = dict(zip(own, part.spreads, strict=True))
        if model is not None:
            is_ddp = model.wrapper == "ddp"
            batch = BATCH if not is_parameter else REPLICA if is_ddp else UNKNOWN
            said = _merge(dict.fromkeys(model.data, batch), said)
            said = _merge(said, dict.fromkeys(model.others, UNKNOWN), is_newer=False)
        grid = grid_of(tuple(said))
        if grid is None:  # the axes of the model are of another mesh
            said = dict(zip(own, part.spreads, strict=True))
            grid = grid_of(own)
        spreads = tuple(said.values())
        return (grid, part.along(spreads)) if grid is not None else None

    def _of_plain_parameter(
        self, path: str, tensor: Any, model: Model, is_shared: bool
    ) -> tuple[Grid, Part] | None:
        """Place a plain parameter: replicas under DDP, whole on a stage; else nobody says so.

        Of buffers DDP keeps only those alike that no rank changes by its own part of the batch.
        """
        axes = (*model.data, *model.others)
        grid = grid_of(axes) if axes else None
        is_replica = (
            (model.wrapper == "stage" or (model.wrapper == "ddp" and is_shared))
            and not model.others
            and not model.ignores(path)
        )
        if grid is None or tensor is None:
            return None
        shape = tuple(tensor.shape)
        boxes = (((0,) * len(shape), shape),) if is_replica else ()
        spread = REPLICA if is_replica else UNKNOWN
        known = shape if is_replica else None
        return grid, Part((spread,) * len(axes), known, boxes, Source.WRAPPER)

    def _of_plain_tensor(
        self, kind: str, path: str, tensor: Any, module: Any, model: Model
    ) -> tuple[Grid, Part] | None:
        """Place a plain input or output: a part of the batch, and what hooks of its module say.

        Where these say nothing: what torch's graph says of the tensors that it was made of.
        """
        rest = path.removeprefix(module_name(path, self._modules))
        is_first = rest in ("", ".0")  # hooks know of no other
        is_hooked = module is not None and is_first
        hook = hook_layouts(module, kind == "input") if is_hooked else None
        own = axes_of(hook[0]) if hook is not None and tensor is not None else None
        if own is None and model.others and tensor is not None:
            found = self._of_what_made(kind, path, tensor, model)
            if found is not None:
                return found
        others = own or model.others
        axes = (*(one for one in model.data if not _has(others, one)), *others)
        grid = grid_of(axes) if axes else None
        if grid is None:
            return None
        spreads = (UNKNOWN,) * len(others)
        if hook is not None and own is not None:
            spreads = tuple(spread_of(one, tensor.ndim) for one in hook[1])
        if kind == "activation_gradient":  # that of an addend is none
            spreads = tuple(UNKNOWN if one.kind == Kind.PARTIAL else one for one in spreads)
        batch = (BATCH,) * (len(axes) - len(others))
        source = Source.WRAPPER if own is None else Source.HOOK
        part = Part((*batch, *spreads), None, (), source)
        shape, _, output = self._outputs.get(path, (None, grid, part))
        is_gradient = kind == "activation_gradient" and tensor is not None
        if is_gradient and shape == tuple(tensor.shape) and output.spreads == part.spreads:
            part = output
        return grid, part

    def _of_what_made(
        self, kind: str, path: str, tensor: Any, model: Model
    ) -> tuple[Grid, Part] | None:
        """Place what was made of shards, each by itself: it is a shard too, as its gradient is.

        What is made of replicas is one only if that was done alike on all ranks.
        """
        if kind == "activation_gradient":
            is_known = path in self._outputs and self._outputs[path][0] == tuple(tensor.shape)
            found = self._outputs[path][1:] if is_known else None
        else:
            split = splits_of(tensor)
            own = axes_of(split[0]) if split is not None else None
            if split is None or own is None:
                return None
            spreads = tuple(Spread(Kind.SHARD, min(dims)) if dims else REPLICA for dims in split[1])
            part = Part(spreads, None, (), Source.HOOK)
            found = self._beside_data(own, part, model, False)
        kinds = {one.kind for one in found[1].spreads} if found is not None else set()
        if found is None or Kind.SHARD not in kinds or kinds & {Kind.PARTIAL, Kind.UNKNOWN}:
            return None
        return found[0], found[1].without_shape().said_by(Source.HOOK)

    def _write(self, site: int, step: int, grid: Grid, part: Part) -> None:
        recorder = self._recorder()
        self._shapes[site] = self._shapes.get(site, 0) + 1
        if self._shapes[site] > MOST_SHAPES:
            part = part.without_shape()
        if recorder is None or recorder.closed or self._latest.get(site) == (grid, part):
            self._shapes[site] -= 1
            return
        self._latest[site] = grid, part
        mesh = self._meshes.get(grid)
        if mesh is None:
            ranks = array("i", grid.ranks)
            mesh = recorder.mesh(grid.names, grid.sizes, grid.coordinate, ranks)
            self._meshes[grid] = mesh
        recorder.place(site, step, mesh, part.source, part.spreads, part.shape, part.boxes)


def is_shared_by_ranks(module: Any) -> bool:
    """Return whether the ranks of DDP keep the buffers of a module alike."""
    return type(module).__name__ == "SyncBatchNorm"


def keeps_own_statistics(module: Any) -> bool:
    """Return whether a module has running statistics of this rank's part of the batch."""
    kinds = {one.__name__ for one in type(module).__mro__}
    has_any = getattr(module, "track_running_stats", False)
    return bool(has_any) and "_BatchNorm" in kinds and not is_shared_by_ranks(module)


def _merge(
    known: dict[Axis, Spread], more: dict[Axis, Spread], *, is_newer: bool = True
) -> dict[Axis, Spread]:
    """Add axes and what is said of them; of an axis that both have, the newer one's."""
    found = dict(known)
    for axis, spread in more.items():
        same = next((one for one in found if _has((one,), axis)), None)
        if same is None or is_newer:
            found[same or axis] = spread
    return found


def _has(axes: tuple[Axis, ...], wanted: Axis) -> bool:
    return any(one.root == wanted.root and one.steps == wanted.steps for one in axes)
