"""Log which line gave a tensor another shape.

    python examples/track_changes.py

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import torch

from tensortap.track import var_tracker


def cropped(clip: torch.Tensor) -> torch.Tensor:
    """Return the middle of every frame."""
    clip = clip[..., 10:38, :]
    return clip


@var_tracker("clip")
def load(frames: int) -> torch.Tensor:
    """Return a clip as floating point numbers."""
    clip = torch.arange(frames * 48 * 4, dtype=torch.int32).reshape(frames, 48, 4)
    clip = cropped(clip)
    clip = clip.float().div(255)
    return clip


print(tuple(load(2).shape))
