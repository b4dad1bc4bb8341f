"""compare of two tensors of 64 MB, as a part of read speed and against torch.allclose."""

import harness
import torch

from tensortap import _core

torch.set_num_threads(1)
a = torch.randn(16 << 20)
same, other = a.clone(), a * (1 + 1e-6)
holed = torch.where(torch.rand(a.shape) < 0.01, torch.nan, a)

harness.row(
    "compare, 2 x 64 MB f32, equal, of read speed",
    harness.of_read_speed(lambda: _core.compare(a, same), a, same),
    0.7,
)
harness.row(
    "compare, 2 x 64 MB f32, all different, of read speed",
    harness.of_read_speed(lambda: _core.compare(a, other), a, other),
    0.7,
)
harness.row(
    "compare, 2 x 64 MB f32, all different, 1 % NaN, of read speed",
    harness.of_read_speed(lambda: _core.compare(holed, other), holed, other),
    0.3,
)
harness.row(
    "compare with ulp=True, all different, of read speed",
    harness.of_read_speed(lambda: _core.compare(a, other, ulp=True), a, other),
    0.2,
)
ours, theirs = harness.times(
    lambda: _core.compare(a, same), lambda: torch.allclose(a, same), turns=9
)
harness.row("compare, 2 x 64 MB f32, times faster than torch.allclose", theirs / ours, 20, unit="x")
