"""Tensors that ranks share: DTensor.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from typing import Any

from tensortap.private.capability import Capability, expect


def _try_local() -> None:
    module = sys.modules.get("torch.distributed.tensor")
    slots = getattr(getattr(module, "DTensor", None), "__slots__", ("_local_tensor",))
    expect("_local_tensor" in slots, "DTensor has no _local_tensor")


SHARDS = Capability(
    "read what this rank has of a DTensor",
    "contents of sharded tensors are not seen",
    _try_local,
)


def is_sharded(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor."""
    return type(tensor).__name__ == "DTensor" or hasattr(tensor, "_local_tensor")


def local_part(tensor: Any) -> Any:
    """Return what this rank has of a tensor."""
    if not is_sharded(tensor) or not SHARDS.works():
        return tensor
    return getattr(tensor, "_local_tensor", tensor)
