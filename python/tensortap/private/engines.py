"""Engines that repack the weights of a model once they are loaded: the moment before that.

vLLM calls `process_weights_after_loading`, which may transpose, quantise or empty parameters.  The
function is replaced where it is looked up, by one that looks at the model first.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from tensortap.files.imports import when_imported
from tensortap.private.capability import Capability, find

LOADER, PROCESS = "vllm.model_executor.model_loader.base_loader", "process_weights_after_loading"

LOADING = Capability(
    "see the weights of a model of vLLM as they were loaded",
    "weights of models of vLLM as they were loaded are not seen",
)

_kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def keep_loaded_weights(read: Callable[[Any], Any]) -> None:
    """Keep what *read* returns of each model that an engine loads, before the engine changes it."""
    if LOADER in sys.modules:
        _listen(read)
    else:
        when_imported(LOADER, functools.partial(_listen, read))


def loaded_weights(model: Any) -> Any:
    """Return what was kept of a model; None: no engine has loaded it."""
    return _kept.get(model)


@LOADING.guards(otherwise=None)
def _listen(read: Callable[[Any], Any]) -> None:
    loader = sys.modules[LOADER]
    process = find(loader, PROCESS)
    if hasattr(process, "tensortap"):
        return

    @functools.wraps(process)
    def call(model: Any, *args: Any, **kwargs: Any) -> Any:
        _keep(read, model)
        return process(model, *args, **kwargs)

    call.tensortap = True  # type: ignore[attr-defined]
    setattr(loader, PROCESS, call)


@LOADING.guards(otherwise=None)
def _keep(read: Callable[[Any], Any], model: Any) -> None:
    _kept[model] = read(model)
