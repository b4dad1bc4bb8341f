"""A watched module pickles like an unwatched one, for every class of torch.nn."""

from __future__ import annotations

import copy
import copyreg
import gc
import inspect
import io
import pickle
import weakref
import zipfile
from pickletools import genops
from typing import Any

import pytest
from listened import SLOT, X, listen

torch = pytest.importorskip("torch")

from torch import fx, nn  # noqa: E402

# The constructors' required arguments, by name.
GIVEN: dict[str, Any] = {
    "bias": True,
    "cutoffs": [4],
    "d_model": 4,
    "decoder_layer": nn.TransformerDecoderLayer(4, 2),
    "dim": 1,
    "downscale_factor": 2,
    "embed_dim": 4,
    "embedding_dim": 3,
    "encoder_layer": nn.TransformerEncoderLayer(4, 2),
    "groups": 2,
    "hidden_size": 4,
    "in1_features": 3,
    "in2_features": 3,
    "in_channels": 2,
    "in_features": 8,
    "input_size": 3,
    "kernel_size": 2,
    "mode": "LSTM",
    "module": nn.LSTM(3, 4),
    "n_classes": 10,
    "nhead": 2,
    "norm_type": 2,
    "normalized_shape": 4,
    "num_channels": 4,
    "num_chunks": 4,
    "num_classes": 10,
    "num_embeddings": 5,
    "num_features": 4,
    "num_groups": 2,
    "num_heads": 2,
    "num_layers": 1,
    "out_channels": 2,
    "out_features": 4,
    "output_size": 2,
    "padding": 1,
    "size": 2,
    "threshold": 0.1,
    "unflattened_size": (2, 2),
    "upscale_factor": 2,
    "value": 0.5,
}
FURTHER: dict[str, dict[str, Any]] = {
    "FractionalMaxPool2d": {"output_size": 1},
    "FractionalMaxPool3d": {"output_size": 1},
    **{name: {"input_size": 3, "hidden_size": 4} for name in ("GRU", "LSTM", "RNN")},
}


def make(kind: type[nn.Module]) -> nn.Module:
    """Make a module of a class of torch.nn."""
    wanted = inspect.signature(kind).parameters.values()
    given = {
        p.name: GIVEN[p.name]
        for p in wanted
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL and p.kind is not p.VAR_KEYWORD
    }
    return kind(**given, **FURTHER.get(kind.__name__, {}))


# Container is nn.Module with a warning.
CLASSES = [
    kind
    for name, kind in vars(nn).items()
    if inspect.isclass(kind) and issubclass(kind, nn.Module) and name != "Container"
]


def saved(model: nn.Module) -> bytes:
    """Return the pickle in the file that torch.save writes."""
    file = io.BytesIO()
    torch.save(model, file)
    with zipfile.ZipFile(file) as parts:
        return parts.read("archive/data.pkl")


def globals_of(pickled: bytes) -> list[Any]:
    """Return the names of modules and classes that the pickle imports."""
    return [arg for op, arg, _ in genops(pickled) if op.name == "GLOBAL"]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_of_torch_pickles_to_the_same_bytes(kind: type[nn.Module]) -> None:
    model = make(kind)
    before = saved(model), pickle.dumps(model)
    consumer = listen(model, [])
    watched = saved(model), pickle.dumps(model)
    assert globals_of(watched[0]) == globals_of(before[0])
    assert watched == before
    consumer.remove()


class OwnState(nn.Linear):
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


class OwnReduce(nn.Linear):
    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (self.__dict__.copy(),)


def rebuilt(state: dict[str, Any]) -> OwnReduce:
    module = OwnReduce.__new__(OwnReduce)
    module.__dict__.update(state)
    return module


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("kind", [OwnState, OwnReduce])
def test_classes_that_pickle_their_dict_leave_us_out(kind: Any, how: Any) -> None:
    events: list[Any] = []
    model = kind(4, 4)
    before = pickle.dumps(model)
    listen(model, events)
    assert pickle.dumps(model) == before
    twin = how(model)
    assert SLOT not in twin.__dict__
    assert torch.equal(twin(X), model(X))
    assert len(events) == 1


def test_what_compile_left_in_the_slot_is_copied_as_without_us() -> None:
    model = OwnState(4, 4)
    model._compiled_call_impl = model._call_impl
    consumer = listen(model, [])
    assert copy.copy(model).__dict__[SLOT] == model._call_impl
    consumer.remove()


def test_a_watched_graph_module_pickles_to_the_same_bytes() -> None:
    model = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    before = pickle.dumps(model)
    consumer = listen(model, [])
    assert pickle.dumps(model) == before
    consumer.remove()


def test_a_saved_lstm_is_loaded_with_the_programs_own_safe_globals() -> None:
    model = nn.LSTM(3, 4)
    file = io.BytesIO()
    consumer = listen(model, [])
    torch.save(model, file)
    consumer.remove()
    file.seek(0)
    with torch.serialization.safe_globals([nn.LSTM]):
        assert SLOT not in torch.load(file, weights_only=True).__dict__


def test_the_last_module_of_a_class_to_be_left_alone_takes_our_reducer_along() -> None:
    gc.collect()
    before = dict(copyreg.dispatch_table)
    kept, dropped = nn.LSTM(3, 4), nn.LSTM(3, 4)
    consumers = [listen(kept, []), listen(dropped, [])]
    weak = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert weak() is None
    assert nn.LSTM in copyreg.dispatch_table
    consumers[0].remove()
    assert copyreg.dispatch_table == before


def test_a_reducer_of_the_programs_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(_model: nn.Module) -> tuple[Any, ...]:
        return nn.Identity, ()

    monkeypatch.setitem(copyreg.dispatch_table, OwnState, mine)
    model = OwnState(4, 4)
    consumer = listen(model, [])
    assert type(copy.copy(model)) is nn.Identity
    consumer.remove()
    assert copyreg.dispatch_table[OwnState] is mine
