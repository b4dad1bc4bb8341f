"""A model that ONNX Runtime runs: what each module returned, by the names that the exporter left.

torch.onnx.export writes into each node the path of the module that it comes from.  A value that is
computed in a module and used outside of it is what the module returns.  These values become further
outputs of the graph.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensortap.implementations.rows import EPS, Values
from tensortap.implementations.sites import Site, is_image_kind, rows_of, upwards
from tensortap.implementations.tokens import tokens_of
from tensortap.implementations.weights import Weight

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tensortap.implementations.tokens import Tokens

NAMESPACE = "namespace"  # in a node's metadata: "path: class/path.of.next: class/name: operator"
BESIDE = "session.model_external_initializers_file_folder_path"  # where weights of their own are


@dataclass
class Module:
    """What the graph has of one module.

    Attributes:
        kind: Its class.
        nodes: Numbers of its nodes, also of those in modules inside.
        returns: Names of the values that are used outside.
        given: The first value that it takes from outside; "": only weights.
    """

    kind: str
    nodes: list[int] = field(default_factory=list)
    returns: list[str] = field(default_factory=list)
    given: str = ""


class OnnxModel:
    """A graph of ONNX as an implementation of a model.

    Args:
        model: The file, or the graph itself as onnx or torch.onnx.export have it.
    """

    def __init__(self, model: Any) -> None:
        self._onnx, self._runtime = _imported("onnx"), _imported("onnxruntime")
        self._folder = ""
        if isinstance(model, (str, os.PathLike)):
            path: str | Path = os.fspath(model)
            self._folder = os.path.dirname(os.path.abspath(path))
            self._model = self._onnx.load(path, load_external_data=False)
        else:
            self._model = getattr(model, "model_proto", model)
        graph = self._model.graph
        constants = {one.name for one in graph.initializer}
        self._inputs = [one.name for one in graph.input if one.name not in constants]
        self._modules = _modules_of(graph, constants)
        self.weights = list(self._weights())

    @property
    def names(self) -> set[str]:
        """The paths of its modules."""
        return set(self._modules)

    def _weights(self) -> Iterator[Weight]:
        """Yield the parameters, named after the module that uses them."""
        import torch

        from tensortap.runs.tokens import numbers_of

        users: dict[str, str] = {}
        for path, module in self._modules.items():  # the innermost comes last
            for i in module.nodes:
                users.update(dict.fromkeys(self._model.graph.node[i].input, path))
        for tensor in self._model.graph.initializer:
            if not tensor.dims or np.prod(tensor.dims) < 2:
                continue
            value = self._onnx.numpy_helper.to_array(tensor, self._folder)
            dtype = str(value.dtype)
            if dtype not in EPS:
                continue
            owner, _, key = tensor.name.rpartition(".")
            if not owner or owner not in self._modules:  # the exporter has made it, transposed, say
                owner = users.get(tensor.name, "")
                key = "weight" if len(tensor.dims) > 1 else key
            name = f"{owner}.{key}" if owner else key
            numbers = numbers_of(value)
            if numbers is not None:
                here = torch.from_numpy(np.array(value)) if dtype.startswith("float") else None
                yield Weight.of_numbers(name, np.frombuffer(numbers, np.int64), here)

    def run(self, inputs: Any) -> tuple[list[Site], Tokens | None]:
        """Run it once; return its sites and which tokens it was given."""
        feed = self._feed(inputs)
        wanted = dict.fromkeys(
            name
            for module in self._modules.values()
            for name in (*module.returns, module.given)
            if name and name not in feed
        )
        copy = self._onnx.ModelProto()
        copy.CopyFrom(self._model)
        known = {one.name for one in copy.graph.output}
        for name in wanted:
            if name not in known:
                copy.graph.output.append(self._onnx.ValueInfoProto(name=name))
        options = self._runtime.SessionOptions()
        if self._folder:
            options.add_session_config_entry(BESIDE, self._folder)
        session = self._runtime.InferenceSession(
            copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(list(wanted), feed) if wanted else []
        values = {**feed, **dict(zip(wanted, found, strict=True))}
        return self._sites(values, tokens := _tokens(feed)), tokens

    def _feed(self, inputs: Any) -> dict[str, Any]:
        """Return the inputs by their names, as arrays."""
        if isinstance(inputs, dict):
            named = {name: x for name, x in inputs.items() if hasattr(x, "shape")}
        else:
            args = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
            if len(args) > len(self._inputs):
                raise ValueError(f"{len(args)} inputs given, and it takes {self._takes}")
            named = dict(zip(self._inputs, args, strict=False))
        missing = [name for name in self._inputs if name not in named]
        other = [name for name in named if name not in self._inputs]
        if missing or other:
            what = f"{missing[0]!r} is missing" if missing else f"{other[0]!r} is not among them"
            raise ValueError(f"{what}: it takes {self._takes}")
        return {
            name: x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)
            for name, x in named.items()
        }

    @property
    def _takes(self) -> str:
        return ", ".join(self._inputs) or "none"

    def _sites(self, values: dict[str, Any], tokens: Tokens | None) -> list[Site]:
        clock, order = 0, []
        for path, module in self._modules.items():
            depth = path.count(".") + bool(path)
            order.append(((module.nodes[0], 0, depth), path))
            order.append(((module.nodes[-1], 1, -depth), path))
        begun: dict[str, int] = {}
        sites = []
        images = {
            above
            for path, module in self._modules.items()
            if is_image_kind(module.kind)
            for above in upwards(path)
        }
        for (_, is_end, depth), path in sorted(order, key=lambda one: one[0]):
            clock += 1
            if not is_end:
                begun[path] = clock
                continue
            module = self._modules[path]
            below = f"{path}." if path else ""
            is_leaf = not any(p != path and p.startswith(below) for p in self._modules)
            site = Site(path, module.kind, 0, begun[path], clock, -depth, is_leaf)
            site.shapes = tuple(w.shape for w in self.weights if w.owner == path)
            is_image = path in images or (not site.shapes and path.rpartition(".")[0] in images)
            parts = (_rows(values.get(name), tokens, is_image) for name in module.returns)
            site.parts = [one for one in parts if one is not None]
            site.given = _rows(values.get(module.given), tokens, is_image)
            sites.append(site)
        return sites


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"comparing a model of ONNX needs onnx and onnxruntime, and {name} cannot be imported "
            f"({error}): pip install onnx onnxruntime"
        ) from None


def _rows(value: Any, tokens: Tokens | None, is_image: bool) -> Values | None:
    import torch

    if not isinstance(value, np.ndarray) or str(value.dtype) not in EPS:
        return None
    return rows_of(torch.from_numpy(value), tokens, is_image=is_image)


def _tokens(feed: dict[str, Any]) -> Tokens | None:
    import torch

    return tokens_of({name: torch.from_numpy(x) for name, x in feed.items()})


def _modules_of(graph: Any, constants: set[str]) -> dict[str, Module]:
    """Return the modules by their paths, outer ones first, with what goes in and out of them."""
    scopes = [dict(_scope(node)) for node in graph.node]
    modules: dict[str, Module] = {}
    for i, scope in enumerate(scopes):
        for path, kind in scope.items():
            modules.setdefault(path, Module(kind)).nodes.append(i)
    made_by = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    used: dict[str, set[str]] = {}  # value -> modules that it leaves
    for i, node in enumerate(graph.node):
        for name in node.input:
            maker = scopes[made_by[name]] if name in made_by else {}
            used.setdefault(name, set()).update(path for path in maker if path not in scopes[i])
            if name and name not in constants:
                for path in scopes[i]:
                    if path not in maker and not modules[path].given:
                        modules[path].given = name
    for one in graph.output:
        if one.name in made_by:
            used.setdefault(one.name, set()).update(scopes[made_by[one.name]])
    for name in made_by:  # in the order in which they are computed
        for path in used.get(name, ()):
            modules[path].returns.append(name)
    return dict(sorted(modules.items(), key=lambda one: one[0].count(".") + bool(one[0])))


def _scope(node: Any) -> Iterator[tuple[str, str]]:
    """Yield path and class of the modules that a node is in, the outermost first."""
    yield "", ""
    namespace = next((one.value for one in node.metadata_props if one.key == NAMESPACE), "")
    parts = namespace.split("/")[:-1]
    if parts:
        for part in parts:
            path, _, kind = part.partition(": ")
            yield path, kind.rpartition(".")[2]
    elif node.name.startswith("/"):  # as torch.onnx.export(dynamo=False) names them
        words = node.name.split("/")[1:-1]
        for i in range(len(words)):
            yield ".".join(words[: i + 1]), ""
    elif node.name:  # any other exporter: each node is a site
        yield node.name, node.op_type
