"""Record which tokens a model was given, and digests of its weights, for `diff --align tokens`.

Only where sketches of tokens are recorded (keep="tokens").  Everything is under `tensortap/`:

    tensortap/tokens/forward          a number for each call of the model
    tensortap/tokens/input_ids        what the call was given: ids, positions, mask, as values
    tensortap/weights/layers.0.weight type, shape and digests of rows and columns, once

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

from tensortap import _core
from tensortap.compiled.hooks import unseen
from tensortap.models.modules import unwrapped, walk
from tensortap.private.engines import keep_loaded_weights, loaded_weights
from tensortap.private.modules import parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

TOKENS, WEIGHTS = "tensortap/tokens/", "tensortap/weights/"
FORWARD = "forward"
WORDS = ("ids", "idx", "token", "position", "mask", "seq_len")  # in names of arguments
MOST = 1 << 22  # elements of an argument
VERSION = 1  # of the numbers of a weight
DTYPES = (  # their numbers in a run file
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
AWAY = "sketches of tokens of tensors on other devices are not seen"


class TokenLog:
    """Records the tokens of each call of a model.

    Args:
        recorder: The run.
        model: The model.
        prefix: What the names of its tensors begin with.
    """

    def __init__(self, recorder: _core.Recorder, model: torch.nn.Module, prefix: str) -> None:
        self._recorder, self._prefix = recorder, prefix
        self._count = 0
        self._names: list[str] | None = None  # of the positional arguments
        self._forward = ref(unwrapped(model))
        # A wrapper of torch.compile is called eagerly, what is in it is not.
        _, root, _ = next(walk(model, with_wrappers=True))
        self._consumer = _core.ModuleConsumer(unseen(self._before, is_traced=False), raises=False)
        self._consumer.add(root, prefix)
        record_weights(recorder, model, prefix)
        if any(p.device.type != "cpu" for p in model.parameters()):
            recorder.note(AWAY)

    def _before(self, event: _core.ModuleEvent) -> None:
        if self._recorder.closed:
            return
        self._recorder.log(f"{TOKENS}{self._prefix}{FORWARD}", self._count)
        self._count += 1
        for name, value in self._arguments(event):
            self._recorder.tensor(f"{TOKENS}{self._prefix}{name}", value, keep="value")

    def _arguments(self, event: _core.ModuleEvent) -> Iterator[tuple[str, Any]]:
        """Yield the arguments that say which tokens these are."""
        if self._names is None:
            import inspect  # it takes milliseconds to import

            model = self._forward()
            self._names = []
            with suppress(TypeError, ValueError):
                self._names = list(inspect.signature(model.forward).parameters) if model else []
        named = dict(zip(self._names, event.args, strict=False)) | (event.kwargs or {})
        whole = {name: x for name, x in named.items() if _is_whole(x)}
        told = {n: x for n, x in whole.items() if any(word in n.lower() for word in WORDS)}
        yield from (told or (whole if len(whole) == 1 else {})).items()

    def close(self) -> None:
        """Stop listening."""
        self._consumer.remove()


def _is_whole(x: Any) -> bool:
    """Return whether it is a tensor of whole numbers that has at most two dimensions."""
    import torch

    is_tensor = isinstance(x, torch.Tensor)
    if not is_tensor or x.is_floating_point() or x.is_complex():
        return False
    return x.ndim in (1, 2) and 0 < x.numel() <= MOST


def record_weights(recorder: _core.Recorder, model: torch.nn.Module, prefix: str) -> None:
    """Record digests of the parameters: as they were loaded, if an engine changed them since."""
    import torch

    found = loaded_weights(unwrapped(model)) or weight_numbers(model)
    unread = 0
    for name, numbers in found.items():
        if numbers is None:
            unread += 1
            continue
        with suppress(ValueError):  # no text that UTF-8 can hold, or very long
            kept = torch.frombuffer(numbers, dtype=torch.int64)
            recorder.tensor(f"{WEIGHTS}{prefix}{name}", kept, keep="value")
    if unread:
        recorder.note(f"the content of {unread} parameters is not seen: it cannot be read here")


def keep_loaded() -> None:
    """Read the weights of models that engines load from now on before they are repacked."""
    keep_loaded_weights(weight_numbers)


def weight_numbers(model: torch.nn.Module) -> dict[str, array[int] | None]:
    """Return the numbers that are recorded of each parameter, also of a tied one; None: unreadable.

    The version, the type, the number of dimensions and the sizes; the digest of the whole (two);
    then of each row and each column.
    """
    return {
        f"{path}.{key}" if path else key: numbers_of(value)
        for path, module, _ in walk(model)
        for key, value in parameters_of(module).items()
        if value is not None and value.numel() > 0
    }


def numbers_of(value: torch.Tensor) -> array[int] | None:
    """Return the numbers of one parameter."""
    try:
        here = value.detach() if hasattr(value, "detach") else value  # NumPy's
        here = here.cpu() if hasattr(here, "cpu") and here.device.type != "cpu" else here
        rows, columns = _core._axes(here)
        digest = int(_core.digest(here).hex(), 16)
        dtype = DTYPES.index(str(value.dtype).rpartition(".")[2])
    except Exception:
        return None
    whole = array("q", [VERSION, dtype, value.ndim, *value.shape])
    for one in (digest.to_bytes(16, "little"), rows, columns):
        whole.frombytes(bytes(one))
    return whole
