"""The process group that the program made, and its store.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any


def default_store() -> Any:
    """Return the store of the default group."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def default_group() -> Any:
    """Return the default group."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_group()


def backend_of(group: Any, device: str) -> Any:
    """Return what a group uses for tensors of a device; raise RuntimeError if nothing."""
    import torch

    return group._get_backend(torch.device(device))
