"""What a training step changes: the state of models, optimizers and scalers, taken and set.

Taken as one nested value of live tensors, which the caller copies.  Set in place: the same tensors
with other contents, so that compiled code and optimizers see them.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tensortap.models.living import held
from tensortap.models.modules import named_parameters, tensors_of, walk
from tensortap.private.modules import buffers_of, parameters_of
from tensortap.private.shards import local_part

State = dict[str, Any]
MOST_NAMED = 3  # tensors in a message
PLAIN = {bool, int, float, str, type(None)}
MOST_ITEMS = 16  # of a list of numbers: base_lrs of a scheduler


class MisfitError(ValueError):
    """The state was taken from another model or optimizer."""


def take(
    models: Iterable[tuple[str, Any]],
    optimizers: list[Any],
    scalers: list[Any],
    schedulers: list[Any],
) -> State:
    """Return the state as it is now; its tensors are the program's own."""
    models = list(models)
    return {
        "models": [_take_model(name, model) for name, model in models],
        "optimizers": [_take_optimizer(one) for one in optimizers],
        "scalers": [one.state_dict() for one in scalers],
        # One text: as a tree of values it would take as long as the tensors of a small model.
        "attributes": json.dumps([_plain(one) for one in _holders(models, optimizers, schedulers)]),
    }


def _holders(
    models: Iterable[tuple[str, Any]], optimizers: list[Any], schedulers: list[Any]
) -> Iterable[Any]:
    """Yield everything whose plain attributes are kept, in the same order in every process."""
    for _, model in models:
        yield from (module for _, module, _ in walk(model))
    yield from optimizers
    yield from schedulers


def _plain(holder: Any) -> dict[str, Any]:
    """Return the attributes that are numbers, booleans, texts, or lists of these."""
    return {
        key: value
        for key, value in vars(holder).items()
        if type(value) in PLAIN
        or (type(value) is list and len(value) <= MOST_ITEMS and {*map(type, value)} <= PLAIN)
    }


def set_back(
    state: State,
    models: Iterable[tuple[str, Any]],
    optimizers: list[Any],
    scalers: list[Any],
    schedulers: list[Any],
) -> None:
    """Set everything to *state*.

    Raises:
        MisfitError: A model or an optimizer is not the one whose state was taken.
    """
    import torch

    models = list(models)
    for what, kept, now in (
        ("models", state["models"], models),
        ("optimizers", state["optimizers"], optimizers),
    ):
        if len(kept) != len(now):
            raise MisfitError(f"there were {len(kept)} {what}, now there are {len(now)}")
    for kept, (_, model) in zip(state["models"], models, strict=True):
        _check_model(kept, model)
    with torch.no_grad():
        for kept, (_, model) in zip(state["models"], models, strict=True):
            _set_model(kept, model)
        for kept, optimizer in zip(state["optimizers"], optimizers, strict=True):
            _set_optimizer(kept, optimizer)
    for kept, scaler in zip(state["scalers"], scalers, strict=False):
        if kept:
            scaler.load_state_dict(kept)
    attributes = json.loads(state.get("attributes", "[]"))
    for kept, holder in zip(attributes, _holders(models, optimizers, schedulers), strict=False):
        own = vars(holder)
        own.update((key, value) for key, value in kept.items() if own.get(key) != value)


def in_order(optimizers: list[Any], models: Iterable[tuple[str, Any]]) -> list[Any]:
    """Sort optimizers by their first parameters in the models: the same order in every process."""
    if len(optimizers) < 2:
        return optimizers
    parameters = (p for _, model in models for p in model.parameters())
    at = {id(p): i for i, p in reversed(list(enumerate(parameters)))}

    def place(optimizer: Any) -> tuple[int, str]:
        return min((at.get(id(p), len(at)) for p in held(optimizer)), default=0), repr(
            type(optimizer)
        )

    return sorted(optimizers, key=place)


def numbers(optimizer: Any) -> list[dict[str, Any]]:
    """Return the numbers in each parameter group: learning rate, betas, and so on."""
    plain = (bool, int, float, str, tuple, type(None))
    return [
        {k: _number(v) for k, v in group.items() if k != "params" and isinstance(_number(v), plain)}
        for group in optimizer.param_groups
    ]


def set_numbers(kept: list[dict[str, Any]], optimizer: Any) -> None:
    """Set the numbers in the parameter groups."""
    for group, values in zip(optimizer.param_groups, kept, strict=True):
        for key, value in values.items():
            if hasattr(group.get(key), "fill_"):
                group[key].fill_(value)
            elif group.get(key) != value:
                group[key] = value


def _number(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "numel", int)() == 1 else value


def _take_model(name: str, model: Any) -> State:
    modules = list(walk(model))
    parameters: list[tuple[str, Any]] = [
        (key, parameters_of(module)[part]) for key, module, part in tensors_of(modules)
    ]
    buffers = tensors_of(modules, buffers_of)
    return {
        "name": name,
        "parameters": {key: local_part(p) for key, p in parameters},
        "without_gradient": [key for key, p in parameters if p.grad is None],
        "buffers": {key: local_part(buffers_of(module)[part]) for key, module, part in buffers},
        "training": [module.training for _, module, _ in modules],
    }


def _take_optimizer(optimizer: Any) -> State:
    return {
        "class": type(optimizer).__name__,
        "groups": numbers(optimizer),
        "state": [_local_state(optimizer.state.get(p)) for p in held(optimizer)],
    }


def _local_state(state: Any) -> Any:
    """Return the state of one parameter, with what this rank has of each tensor."""
    if state is None:
        return None
    return {key: local_part(value) for key, value in state.items()}


def _check_model(kept: State, model: Any) -> None:
    now = {name: local_part(p) for name, p in named_parameters(model).items()}
    wrong = [f"{name} is gone" for name in kept["parameters"] if name not in now]
    wrong += [f"{name} is new" for name in now if name not in kept["parameters"]]
    for name, tensor in kept["parameters"].items():
        if name in now and (tensor.shape != now[name].shape or tensor.dtype != now[name].dtype):
            wrong.append(f"{name} was {_look(tensor)}, now it is {_look(now[name])}")
    if wrong:
        more = f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        raise MisfitError(f"the model is another: {', '.join(wrong[:MOST_NAMED])}{more}")


def _look(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _set_model(kept: State, model: Any) -> None:
    for name, parameter in named_parameters(model).items():
        local_part(parameter).data.copy_(kept["parameters"][name])
        if name in kept["without_gradient"]:
            parameter.grad = None
    for name, module, key in tensors_of(walk(model), buffers_of):
        if name in kept["buffers"]:
            buffer = local_part(buffers_of(module)[key])
            buffers_of(module)[key] = refilled(buffer, kept["buffers"][name])
    for (_, module, _), is_training in zip(walk(model), kept["training"], strict=False):
        module.training = is_training


def _set_optimizer(kept: State, optimizer: Any) -> None:
    parameters = list(held(optimizer))
    if kept["class"] != type(optimizer).__name__ or len(kept["state"]) != len(parameters):
        now = f"{type(optimizer).__name__} of {len(parameters)}"
        raise MisfitError(
            f"the optimizer was {kept['class']} of {len(kept['state'])} parameters, now it is {now}"
        )
    for parameter, state in zip(parameters, kept["state"], strict=True):
        if state is None:
            optimizer.state.pop(parameter, None)
            continue
        now = optimizer.state[parameter]
        for key in now.keys() - state.keys():
            del now[key]
        for key, value in state.items():
            device = "cpu" if key == "step" else parameter.device
            now[key] = refilled(now.get(key), value, device)
    set_numbers(kept["groups"], optimizer)


def refilled(now: Any, kept: Any, device: Any = None) -> Any:
    """Return the program's tensor with the kept contents, or else a new one."""
    if not hasattr(kept, "shape"):
        return kept
    target = local_part(now)
    if getattr(target, "shape", None) == kept.shape and target.dtype == kept.dtype:
        target.data.copy_(kept)
        return now
    where = device if device is not None else getattr(target, "device", "cpu")
    return kept.clone().to(where)
