"""Record what the program has set: optimizers, modules, data, torch, and where its code is.

    optimizer/class         torch.optim.adamw.AdamW
    optimizer/weight_decay  0.01
    module/h.*.drop         Dropout(p=0.1, inplace=False)
    code/Block              model.py:94
    batch/inputs            float32 [64, 3, 224, 224]

A setting is a key and a text.  It is recorded once, and again when it changes; what changes all
the time is no setting.  Only plain values are read, never the representation of an object that
we do not know: that may be long, or raise.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from tensortap.models.living import living
from tensortap.models.modules import ROOT, class_of
from tensortap.runs.program import is_private, without_secrets

if TYPE_CHECKING:
    from tensortap import _core

MOST_BYTES = 20_000  # of all settings
MOST_TEXT = 500  # characters of one
MOST_SAID = 2000  # characters of what a module says that are read
MOST_ITEMS = 16  # of a list
MOST_CHANGES = 8  # of one setting; then it is no setting
MOST_OF_A_KIND = 4  # schedulers, DataLoaders
MOST_FILE = 4 << 20  # bytes of a file of code that is hashed
MOVING = ("lr", "initial_lr")  # a series of the run, or set by torch
#: Of a scheduler: what changes, or is said elsewhere.
SCHEDULED = ("optimizer", "last_epoch", "base_lrs", "best", "num_bad_epochs", "cooldown_counter")
FRAMEWORKS = ("torch", "lightning", "pytorch_lightning")
NUMBERS = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")

Found = Iterator[tuple[str, str]]


class Settings:
    """The settings that a run knows of."""

    def __init__(self, recorder: _core.Recorder) -> None:
        """Remember the run to record into."""
        self._recorder = recorder
        self._known: dict[str, str] = {}
        self._changes: dict[str, int] = {}
        self._bytes = 0
        self.is_first = True  # what is recorded now is valid from the beginning
        self._left_out = 0

    def record(self, *sources: Callable[[], Found]) -> None:
        """Record what is new.  A source that raises gives less, and the program sees nothing."""
        for source in sources:
            try:
                for key, text in source():
                    self._put(key, text)
            except Exception as error:
                self._put("tensortap/error", type(error).__name__)

    def _put(self, key: str, text: str) -> None:
        if self._known.get(key) == text or self._recorder.closed:
            return
        is_new = key not in self._known
        changes = self._changes[key] = self._changes.get(key, -1) + 1
        size = len(key) + len(text) + 16
        if (is_new and self._bytes + size > MOST_BYTES) or changes > MOST_CHANGES:
            self._left_out += 1
            return
        self._known[key] = text
        self._bytes += size
        self._recorder.setting(0 if self.is_first else self._recorder.current_step, key, text)

    def close(self) -> None:
        """Note how many did not fit."""
        if self._left_out and not self._recorder.closed:
            self._recorder.setting(0, "tensortap/left_out", str(self._left_out))


def text_of(value: Any) -> str:
    """Return a plain value as text, and of other objects the class."""
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _short(without_secrets(value))
    if isinstance(value, (list, tuple)):
        inner = [text_of(one) for one in value[:MOST_ITEMS]]
        more = [f"… {len(value)} in all"] if len(value) > MOST_ITEMS else []
        return _short(f"({', '.join(inner + more)})")
    if isinstance(value, dict):
        pairs = [f"{text_of(k)}: {text_of(v)}" for k, v in list(value.items())[:MOST_ITEMS]]
        return _short(f"{{{', '.join(pairs)}}}")
    if callable(value) and hasattr(value, "__qualname__"):
        return _short(str(value.__qualname__))
    return type(value).__qualname__


def _short(text: str) -> str:
    plain = text.encode("utf-8", "replace").decode().replace("\n", " ")
    return plain if len(plain) <= MOST_TEXT else f"{plain[:MOST_TEXT]}… ({len(plain)} characters)"


def full_class(one: Any) -> str:
    """Return the full name of the class of an object; that of torch without its file."""
    kind = type(one)
    module = re.sub(r"^(torch\.(?:optim|nn))\..*", r"\1", kind.__module__)
    return kind.__qualname__ if module == "__main__" else f"{module}.{kind.__qualname__}"


# ---- where they come from


def of_optimizer(optimizer: Any, prefix: str, names: dict[int, str], before: int = 0) -> Found:
    """Yield the class and the groups of an optimizer.

    *names*: of parameters, by id.  *before*: how many steps it had done before the run.
    """
    yield f"{prefix}/class", full_class(optimizer)
    if before > 0:
        yield f"{prefix}/steps_before", str(before)
    groups = optimizer.param_groups
    for i, group in enumerate(groups):
        at = f"{prefix}/group{i}" if len(groups) > 1 else prefix
        parameters = group["params"]
        if len(groups) > 1:
            shown = [names.get(id(p), "?") for p in parameters]
            folded = sorted(set(map(fold, shown)))
            yield f"{at}/parameters", _short(f"{len(parameters)}: {', '.join(folded)}")
        else:
            yield f"{at}/parameters", str(len(parameters))
        yield f"{at}/lr", text_of(_number(group.get("initial_lr", group.get("lr"))))
        for key, value in group.items():
            if key != "params" and key not in MOVING:
                yield f"{at}/{key}", text_of(_number(value))


def _number(value: Any) -> Any:
    """Return the number in a tensor of one element, unless a device would have to be waited for."""
    if hasattr(value, "item") and hasattr(value, "device"):
        return value.item() if value.device.type == "cpu" and value.numel() == 1 else value
    return value


def steps_of(optimizer: Any) -> int:
    """Return how many steps an optimizer has done, as far as its state says it; 0: none."""
    try:
        first: dict[str, Any] = next(iter(optimizer.state.values()), {})
        return int(_number(first.get("step", 0)))
    except Exception:  # a state that is built otherwise
        return 0


def plain_of(optimizer: Any) -> tuple[Any, ...]:
    """Return the values of an optimizer that are settings, to see if one has changed."""
    return tuple(
        (id(g), *(v for k, v in g.items() if k != "params" and k not in MOVING))
        for g in optimizer.param_groups
    )


def of_schedulers(schedulers: Iterable[Any], optimizers: Iterable[Any]) -> Found:
    """Yield the schedulers of these optimizers."""
    mine = set(map(id, optimizers))
    theirs = [one for one in schedulers if id(getattr(one, "optimizer", None)) in mine]
    for i, one in enumerate(theirs[:MOST_OF_A_KIND]):
        prefix = f"scheduler{i + 1 if i else ''}"
        yield f"{prefix}/class", full_class(one)
        for key, value in vars(one).items():
            if not key.startswith("_") and key not in SCHEDULED:
                yield f"{prefix}/{key}", text_of(value)


def of_scaler(scaler: Any) -> Found:
    """Yield how a GradScaler changes its scale."""
    for key in ("growth_factor", "backoff_factor", "growth_interval"):
        yield f"scaler/{key}", text_of(getattr(scaler, f"get_{key}")())


def of_modules(named: Iterable[tuple[str, Any]], kinds: Iterable[type]) -> Found:
    """Yield what modules say of themselves (`p=0.1`), and where the code of these classes is."""
    said: dict[str, dict[str, str]] = {}
    code: dict[str, set[str]] = {}
    for path, module in named:
        try:
            extra = module.extra_repr()
        except Exception:  # a module's own
            extra = ""
        if isinstance(extra, str) and extra:
            text = _short(f"{class_of(module).__name__}({without_secrets(extra[:MOST_SAID])})")
            said.setdefault(fold(path), {})[path] = text
    for kind in kinds:
        if (line := code_of(kind)) is not None:
            code.setdefault(kind.__name__, set()).add(line)
    for name, lines in code.items():
        yield f"code/{name}", _short(", ".join(sorted(lines)))
    for folded, texts in said.items():
        if len(set(texts.values())) == 1:
            yield f"module/{folded if len(texts) > 1 else next(iter(texts))}", texts.popitem()[1]
        else:
            yield from ((f"module/{path}", text) for path, text in texts.items())


def code_of(kind: type) -> str | None:
    """Return file:line of the forward of a class, unless it is one of torch's own."""
    code = _forward_of(kind)
    return f"{short_path(code.co_filename)}:{code.co_firstlineno}" if code is not None else None


def _forward_of(kind: type) -> CodeType | None:
    """Return the code that runs when a module is called; Lightning's is in `training_step`."""
    import inspect  # it takes milliseconds to import

    for name in ("forward", "training_step"):
        for base in kind.__mro__:
            function = vars(base).get(name)
            if function is not None and base.__module__.partition(".")[0] not in FRAMEWORKS:
                code = getattr(inspect.unwrap(function), "__code__", None)
                return code if isinstance(code, CodeType) else None
    return None


def short_path(name: str) -> str:
    """Return a path below the working folder, or below that of the packages, or as it is."""
    for above in (f"{os.getcwd()}{os.sep}", f"site-packages{os.sep}"):
        _, found, below = name.rpartition(above)
        if found and below:
            return below
    return name


def of_files(kinds: Iterable[type]) -> Found:
    """Yield a hash of each file of code that is the user's: the program and the model's classes."""
    if is_private():
        return
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    names = {main} if main and "site-packages" not in main else set()  # pytest's, a launcher's
    for kind in kinds:
        code = _forward_of(kind)
        if code is not None:
            names.add(code.co_filename)
    for name in sorted(names):
        path = Path(name)
        if path.is_file() and path.stat().st_size <= MOST_FILE:
            digest = hashlib.blake2s(path.read_bytes(), digest_size=8).hexdigest()
            yield f"file/{short_path(os.path.abspath(name))}", digest


def of_parameters(parameters: Iterable[Any], prefix: str) -> Found:
    """Yield how many parameters there are, of which types, where."""
    elements: dict[str, int] = {}
    count = trained = 0
    for one in parameters:
        kind = f"{str(one.dtype).removeprefix('torch.')} on {one.device.type}"
        elements[kind] = elements.get(kind, 0) + one.numel()
        count += 1
        trained += one.numel() if one.requires_grad else 0
    types = ", ".join(f"{number} {kind}" for kind, number in sorted(elements.items()))
    yield f"{prefix}/parameters", f"{count} tensors: {types}"
    if trained != sum(elements.values()):
        yield f"{prefix}/trained", str(trained)


def of_batch(watch: Any, prefix: str) -> Found:
    """Yield the first size of a batch, and types and shapes of what the model is called with."""
    if watch.batch_size:
        yield f"{prefix}batch/size", str(watch.batch_size)
    yield "tensortap/batch_digest", "2"  # which elements it is of: others cannot be compared
    if watch.batch_inputs:
        yield f"{prefix}batch/inputs", _short(watch.batch_inputs)


def of_call(watch: Any, prefix: str) -> Found:
    """Yield the line of the program that calls the model."""
    if watch.called_at:
        yield f"code/{prefix}{ROOT}", _short(watch.called_at)


def of_torch(autocast: str) -> Found:
    """Yield torch's own switches."""
    import torch

    yield "torch/threads", str(torch.get_num_threads())
    yield "torch/deterministic", str(torch.are_deterministic_algorithms_enabled())
    yield "torch/default_dtype", str(torch.get_default_dtype()).removeprefix("torch.")
    yield "torch/float32_matmul_precision", torch.get_float32_matmul_precision()
    yield "torch/cudnn_benchmark", str(torch.backends.cudnn.benchmark)
    yield "torch/autocast", autocast


def hash_of_generators() -> float:
    """Return a hash of the states of torch's generators, as a number; they stay as they are."""
    import torch

    found = hashlib.sha256(torch.default_generator.get_state().numpy().tobytes())
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found.update(torch.cuda.get_rng_state().numpy().tobytes())
    return float(int.from_bytes(found.digest()[:6], "little"))  # exactly, as a double


def of_loaders(loaders: Iterable[Any]) -> Found:
    """Yield what DataLoaders give out."""
    for i, one in enumerate(list(loaders)[:MOST_OF_A_KIND]):
        prefix = f"data{i + 1 if i else ''}"
        batches = one if one.batch_size is not None else one.batch_sampler  # accelerate's has none
        sampler = getattr(batches, "sampler", None)
        yield f"{prefix}/batch_size", text_of(getattr(batches, "batch_size", None))
        yield f"{prefix}/shuffle", str("Random" in type(sampler).__name__)
        yield f"{prefix}/workers", text_of(one.num_workers)
        yield f"{prefix}/dataset", type(one.dataset).__qualname__
        if hasattr(one.dataset, "__len__"):  # else it is a stream
            yield f"{prefix}/samples", str(len(one.dataset))


def of_living(optimizers: Iterable[Any]) -> Found:
    """Yield the schedulers of these optimizers, and the DataLoaders.  Only a search finds them."""
    schedulers = sys.modules.get("torch.optim.lr_scheduler")  # nothing is imported for it
    data = sys.modules.get("torch.utils.data")
    kinds = [(schedulers, "LRScheduler"), (schedulers, "ReduceLROnPlateau"), (data, "DataLoader")]
    known = [getattr(module, name) for module, name in kinds if hasattr(module, name)]
    unique = {id(one): one for one in living(*known)}.values() if known else ()
    loaders = [one for one in unique if hasattr(one, "batch_sampler")]
    yield from of_loaders(loaders)
    yield from of_schedulers(
        (one for one in unique if not hasattr(one, "batch_sampler")), optimizers
    )


def fold(path: str) -> str:
    """Return a path with a star for each number of a layer: `h.0.drop` is `h.*.drop`."""
    return NUMBERS.sub("*", path) if path != ROOT else path
