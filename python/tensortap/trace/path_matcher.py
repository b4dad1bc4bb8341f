"""Compile dotted paths against a model, once: which code, which names, which modules.

`layers.*.forward.attn.0` is followed through submodules (`layers`, each of them), to a
function (`forward`) and a local of its code (`attn`); what is left (`0`) lies inside the
value and is looked up each time.  The result is for `_core.PathTracer`.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import difflib
import heapq
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tensortap.models.modules import can_run, is_compiled, walk
from tensortap.private.modules import buffers_of, children_of, inside, parameters_of

LOCAL, RETURN, OUTPUT, ATTRIBUTE = range(4)  # as trace_origin in trace/engine.h
STAR = "*"
#: What changes memory and not torch's version counter.
HIDDEN = {"data", "numpy", "set_", "storage", "untyped_storage", "from_numpy", "from_dlpack"}
NOTHING = torch.nn.Module.forward  # raises: the class has none
MOST_NEAR = 3
MOST_LIKELY = 100  # that are compared letter by letter

Target = tuple[int, int, int, str, str | None, int, tuple[str, ...]]


@dataclass
class Listened:
    """A module whose calls are of interest."""

    module: torch.nn.Module
    name: str
    is_root: bool = False
    targets: dict[Target, None] = field(default_factory=dict)  # in order


class PathMatcher:
    """The places at which a model's variables are looked at."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Look through the wrappers of the model."""
        self.listened: dict[int, Listened] = {}
        self.places: dict[tuple[types.CodeType, torch.nn.Module], dict[Target, None]] = {}
        self.paths: list[str] = []
        self._path = (0, 0)  # group and number of the path that is matched now
        self.compiled: list[str] = []  # names of modules that torch.compile runs
        self._known: list[str] = []  # names that exist
        self.is_wide = False  # a function other than forward may run outside of it
        self.root = self._unwrap(model, "", is_root=True)
        self._listen(self.root, "").is_root = True

    def add(self, path: str, group: int) -> None:
        """Find where this path leads."""
        self._path = (group, len(self.paths))
        self.paths.append(path)
        self._match(self.root, "", path.split("."))

    # ---- modules

    def _unwrap(self, module: torch.nn.Module, name: str, is_root: bool = False) -> torch.nn.Module:
        """Return what wrappers wrap; note what is compiled, and who is called as the root."""
        while True:
            if is_compiled(module) and name not in self.compiled:
                self.compiled.append(name)
            inner = inside(module)
            if inner is None:
                return module
            if is_root:
                self._listen(module, "").is_root = True
            module = inner

    def _listen(self, module: torch.nn.Module, name: str) -> Listened:
        return self.listened.setdefault(id(module), Listened(module, name))

    def _match(self, module: torch.nn.Module, name: str, parts: list[str]) -> None:
        if not parts:
            self._output(module, name)
            return
        head, rest = parts[0], parts[1:]
        is_known = False
        for key, outer in children_of(module).items():
            if outer is None or not _fits(head, key):
                continue
            is_known = True
            child_name = _joined(name, key)
            child = self._unwrap(outer, child_name)
            if not rest and child is not outer:  # compiled: only the wrapper is called
                self._output(outer, child_name)
            else:
                self._match(child, child_name, rest)
        for function in _functions(module, head):
            is_known = True
            self._function(module, name, function, rest)
        if is_known or head == STAR:
            return
        # What is left is an attribute (fc.weight), or lies inside the output.
        held = (parameters_of(module), buffers_of(module), module.__dict__)
        if any(head in table for table in held):
            self._output(module, name, inner=tuple(parts), origin=ATTRIBUTE)
        elif name:
            self._output(module, name, inner=tuple(parts))

    def _output(
        self,
        module: torch.nn.Module,
        name: str,
        *,
        shown: str | None = None,
        inner: tuple[str, ...] = (),
        origin: int = OUTPUT,
    ) -> None:
        """Trace what the module returns or holds, as *shown* (its name)."""
        if can_run(module):
            shown = name if shown is None else shown
            target = (origin, *self._path, shown, None, -1, inner)
            self._listen(module, name).targets[target] = None

    # ---- functions

    def _function(self, module: torch.nn.Module, name: str, function: str, rest: list[str]) -> None:
        shown = _joined(name, function)
        if function == "forward" and not rest:
            for listened in [x for x in self.listened.values() if x.is_root and not name]:
                if listened.module is not self.root and self.compiled:  # only the wrapper is called
                    self._output(listened.module, "", shown=shown)
                    return
            self._output(module, name, shown=shown)
            return
        codes = list(_codes(module, function))
        if function != "forward" and codes:
            self.is_wide = True
        if not rest and codes:
            returned = (RETURN, *self._path, shown, None, -1, ())
            self.places.setdefault((codes[0], module), {})[returned] = None
        for code in codes if rest else []:
            inner = tuple(rest[1:])
            slots = _slots(code)
            for variable in _variables(code, rest[0], is_last=not inner):
                full = _joined(shown, variable)
                local = (LOCAL, *self._path, full, variable, slots[variable], inner)
                self.places.setdefault((code, module), {})[local] = None
        if codes and rest:
            self._listen(module, name)  # its calls tell which replica stands for it

    # ---- names that exist

    def near(self, path: str, seen: list[str]) -> list[str]:
        """Return the existing names that are most like *path*."""
        if not self._known:  # a model of 200 modules has 10000 names
            self._known = list(dict.fromkeys([*seen, *known_names(self.root)]))
        parts, letters = set(path.split(".")), set(path)

        def unlike(name: str) -> tuple[int, int, int]:
            shared, other = parts.intersection(name.split(".")), letters.symmetric_difference(name)
            return -len(shared), len(other), abs(len(path) - len(name))

        others = (name for name in self._known if name != path)
        likely = heapq.nsmallest(MOST_LIKELY, others, key=unlike)  # difflib takes its time
        return difflib.get_close_matches(path, likely, n=MOST_NEAR, cutoff=0.0)


def self_of(code: types.CodeType) -> tuple[str, int, bool]:
    """Return name and slot of the first argument, and whether it is the first of *args."""
    if code.co_argcount > 0:
        name = code.co_varnames[0]
        return name, _slots(code)[name], False
    index = code.co_kwonlyargcount
    return code.co_varnames[index], index, True


def is_hidden(code: types.CodeType) -> bool:
    """Return whether the code changes memory in a way that torch does not count."""
    return not HIDDEN.isdisjoint(code.co_names)


def known_names(root: torch.nn.Module) -> Iterator[str]:
    """Yield modules, their functions, and the locals of those."""
    for name, module, _ in walk(root):
        if name and can_run(module):
            yield name
        for function in _functions(module, STAR):
            shown = _joined(name, function)
            yield shown
            for code in _codes(module, function):
                for variable in _variables(code, STAR, is_last=True):
                    yield _joined(shown, variable)


def _joined(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _fits(pattern: str, name: str) -> bool:
    return pattern == name or (pattern == STAR and not name.startswith("_"))


def _functions(module: torch.nn.Module, pattern: str) -> Iterator[str]:
    """Yield the functions with the module as self; `*`: the public ones of its own classes."""
    if pattern != STAR:
        if (pattern == "forward" and can_run(module)) or any(True for _ in _codes(module, pattern)):
            yield pattern
        return
    names: dict[str, None] = {}
    for kind in type(module).__mro__:
        if kind in (torch.nn.Module, object):
            break
        for name, held in vars(kind).items():
            if not name.startswith("_") and inspect.isfunction(held):
                names[name] = None
    if "forward" in module.__dict__:
        names["forward"] = None
    yield from names


def _codes(module: torch.nn.Module, function: str) -> Iterator[types.CodeType]:
    """Yield the code of a method: the one that is called first, then what super() leads to."""
    seen: set[types.CodeType] = set()
    bound = module.__dict__.get(function)
    held = [bound] if isinstance(bound, types.MethodType) and bound.__self__ is module else []
    held += [vars(kind)[function] for kind in type(module).__mro__ if function in vars(kind)]
    for one in held:
        if isinstance(one, (staticmethod, classmethod, property)) or one is NOTHING:
            continue
        try:
            plain: Any = inspect.unwrap(one.__func__ if isinstance(one, types.MethodType) else one)
        except ValueError:
            continue
        code = getattr(plain, "__code__", None)
        if not isinstance(code, types.CodeType) or code in seen:
            continue
        if code.co_argcount > 0 or code.co_flags & inspect.CO_VARARGS:
            seen.add(code)
            yield code


def _slots(code: types.CodeType) -> dict[str, int]:
    """Return the place of every local in a frame of this code."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    names = [*code.co_varnames, *cells, *code.co_freevars]
    return {name: slot for slot, name in enumerate(names)}


def _variables(code: types.CodeType, pattern: str, is_last: bool) -> Iterator[str]:
    """Yield the locals of the code; `*` passes over self where that would be all."""
    own = self_of(code)[0]
    for name in _slots(code):
        if pattern == STAR and (name.startswith(("_", ".")) or name in code.co_freevars):
            continue
        if pattern == STAR and name == own and is_last:
            continue
        if pattern in (STAR, name):
            yield name
