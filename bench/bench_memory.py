"""The memory each summary needs besides its result: a constant, whatever the tensor."""

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
for name, call in (
    ("stats", _core.stats),
    ("histogram", _core.histogram),
    ("digest", _core.digest),
    ("compare", lambda x: _core.compare(x, x)),
    ("stats of a transposed view", lambda x: _core.stats(x.view(4096, -1).T)),
):
    x = torch.randn(64 << 20)
    extra = harness.peak_extra(lambda call=call, x=x: call(x))
    harness.row(f"{name}, extra memory for 256 MB", extra / 2**20, 1, unit="MB", at_most=True)
