"""What an older torch cannot do: tests of it are skipped there, and docs/install.md names it."""

from __future__ import annotations

import pytest
import torch
from layouts import DTYPES

VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
needs_probes = pytest.mark.skipif(
    VERSION < (2, 7),
    reason="this torch compiles calls of modules so that modules inside are not seen",
)
needs_exchange_table = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="tensors of this torch are read through __dlpack__, which runs operators, "
    "takes no 8-bit floating-point types and refuses a storage that was shrunk",
)
needs_sharding_on_cpu = pytest.mark.skipif(
    not hasattr(torch.cpu.Stream, "record_event"),
    reason="fully_shard of this torch does not run on a CPU",
)
#: All element types, for parametrize.
TORCH_DTYPES = [
    pytest.param(name, marks=needs_exchange_table) if name.startswith("float8") else name
    for name in DTYPES
]


def skip_if_unreadable(dtype: str) -> None:
    """Skip a test of an element type that tensors of this torch cannot be read with."""
    if dtype.startswith("float8") and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("tensors of 8-bit floating-point types cannot be read with this torch")
