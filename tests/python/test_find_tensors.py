"""Where the tensors of a value are: the walk in C and the function that Dynamo traces agree."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from tensortap import _core

torch = pytest.importorskip("torch")

from tensortap.compiled.results import find_tensors  # noqa: E402

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Fields:
    """With fields of all kinds."""

    x: Any
    hidden: Any = None
    late: Any = dataclasses.field(init=False)
    shared: ClassVar[Any] = torch.ones(1)


@dataclasses.dataclass
class Slots:
    """Without an instance dict."""

    __slots__ = ("x", "y")
    x: Any
    y: Any


@dataclasses.dataclass
class Inherits(Fields):
    """Inherits its fields."""

    extra: Any = None


@dataclasses.dataclass(eq=False)
class Output(OrderedDict):  # type: ignore[type-arg]
    """As ModelOutput of transformers: a dict that is a dataclass too."""

    logits: Any = None

    def __post_init__(self) -> None:
        self["logits"] = self.logits
        self["more"] = (self.logits, None)


class List(list):  # type: ignore[type-arg]
    """A list of the program's own."""


class Marked(torch.Tensor):  # type: ignore[misc]
    """A subclass of Tensor."""


def nested(depth: int) -> Any:
    value: Any = torch.ones(1)
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> Any:
    value: list[Any] = [torch.ones(1)]
    value.append(value)
    return value


def shared() -> Any:
    t = torch.ones(1)
    return {"a": t, "b": [t, t]}


T = torch.ones(1)
CASES: dict[str, Any] = {
    "a tensor": T,
    "a parameter": torch.nn.Parameter(T),
    "a subclass": T.as_subclass(Marked),
    "none": None,
    "a number": 3.5,
    "text": "x",
    "tuple": (T, None, T),
    "list": [T, 1, "x", T],
    "empty": [(), {}, []],
    "dict": {"a": T, "b": {"c": T}},
    "dict with other keys": {1: T, "a.b": T, None: T, (1, 2): T, 2.5: T, False: T},
    "ordered dict": OrderedDict(b=T, a=T),
    "default dict": defaultdict(list, a=[T]),
    "namedtuple": Pair(T, [T]),
    "size": torch.Size([1, 2]),
    "torch's named results": torch.ones(2, 2).max(0),
    "packed sequence": torch.nn.utils.rnn.pack_sequence([torch.ones(2)]),
    "dataclass": Fields(T, hidden=(T, T)),
    "dataclass with slots": Slots(T, [T]),
    "dataclass of a dataclass": Inherits(T, T, extra={"k": T}),
    "class of a dataclass": Fields,
    "model output": Output(T),
    "list of the program": List([T, T]),
    "shared tensors": shared(),
    "a list in itself": cycle(),
    "as deep as is looked": nested(8),
    "deeper": nested(9),
    "many": [T] * 300,
    "many in parts": [[T] * 200, [T] * 200, T],
    "set": {1, 2},
    "deque": deque([T]),
    "object": SimpleNamespace(x=T),
    "mapping": MappingProxyType({"x": T}),
    "user dict": UserDict(x=T),
    "generator": (T for _ in range(2)),
    "module": torch.nn.Linear(2, 2),
}


@pytest.mark.parametrize("case", CASES)
def test_both_find_the_same_tensors_under_the_same_names(case: str) -> None:
    traced: list[tuple[str, Any]] = []
    find_tensors(CASES[case], "", 0, traced)
    walked = _core.find_tensors(CASES[case], "")
    assert [name for name, _ in walked] == [name for name, _ in traced]
    assert all(a is b for (_, a), (_, b) in zip(walked, traced, strict=True))


TRACED = ("a tensor", "tuple", "list", "empty", "dict", "ordered dict", "namedtuple", "dataclass")


@pytest.mark.parametrize("case", [*TRACED, "shared tensors", "as deep as is looked", "deeper"])
def test_dynamo_traces_it_to_the_same_names(case: str) -> None:
    def names(value: Any, x: Any) -> tuple[list[str], Any]:
        found: list[tuple[str, Any]] = []
        find_tensors(value, "", 0, found)
        return [name for name, _ in found], x + 1

    torch.compiler.reset()
    compiled = torch.compile(names, backend="eager", fullgraph=True)
    assert compiled(CASES[case], T)[0] == [name for name, _ in _core.find_tensors(CASES[case], "")]
