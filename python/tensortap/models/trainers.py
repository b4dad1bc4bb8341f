"""Callbacks for libraries that own a training loop.

Each library is imported when a class for it is first asked for.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def transformers() -> Any:
    """Return the module that has TrainerCallback."""
    import transformers

    return transformers


def lightning() -> Any:
    """Return the module that has Callback and LightningModule, under its new or its old name."""
    try:
        import lightning.pytorch as lightning
    except ImportError:
        import pytorch_lightning as lightning
    return lightning


def made_later(module: str, **makers: Callable[[], type]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose classes are made when they are first asked for."""

    def get(name: str) -> Any:
        if name not in makers:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        made = makers[name]()
        setattr(sys.modules[module], name, made)
        return made

    return get
