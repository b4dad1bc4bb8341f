"""Functions that hold their objects weakly.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from tensortap.compiled.hooks import unseen


def weakly(owner: object, method: Any, otherwise: Any = None) -> Callable[..., Any]:
    """Wrap a bound method such that the wrapper keeps neither its object nor *owner* alive.

    Returns *otherwise* once they are gone; a call holds *owner* until it returns. Dynamo never
    compiles it.
    """
    weak_owner, weak_self, function = ref(owner), ref(method.__self__), method.__func__

    def call(*args: Any) -> Any:
        alive, bound = weak_owner(), weak_self()
        return otherwise if alive is None or bound is None else function(bound, *args)

    return unseen(call, is_traced=False)
