"""digest of 64 MB, as a part of read speed."""

import harness
import torch

from tensortap import _core

x = torch.randn(16 << 20)
harness.row("digest, 64 MB, of read speed", harness.of_read_speed(lambda: _core.digest(x), x), 0.75)
