"""The store and the timeout of the process group that the program made.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from tensortap.private.capability import Capability

STORE = Capability(
    "send what ranks have traced to rank 0 through the store of their group",
    "values that other ranks have traced are not seen",
)


@STORE.guards(otherwise=None)
def default_store() -> Any:
    """Return the store of the default group; None: torch does not say."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def timeout_of(group: Any) -> timedelta:
    """Return the timeout of a group, or the one that groups usually have."""
    import torch
    from torch.distributed.distributed_c10d import default_pg_timeout

    for device in ("cpu", "cuda"):
        with suppress(Exception):  # it has no backend for the device, or torch names it otherwise
            found = group._get_backend(torch.device(device)).options._timeout
            if isinstance(found, timedelta):
                return found
    return default_pg_timeout
