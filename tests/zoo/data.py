"""Small data sets that can be learned in seconds."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def blobs(count: int = 512, classes: int = 4, width: int = 16) -> tuple[Tensor, Tensor]:
    """Return points around one centre for each class, normalised, and their classes."""
    centres = torch.randn(classes, width) * 1.5
    labels = torch.arange(count) % classes
    points = centres[labels] + torch.randn(count, width)
    return (points - points.mean(0)) / points.std(0), labels


def images(count: int = 256, size: int = 8) -> tuple[Tensor, Tensor]:
    """Return noisy pictures with one bright row, or one bright column, and which of the two."""
    pictures = torch.randn(count, 1, size, size) * 0.5
    labels = torch.arange(count) % 2
    for i, label in enumerate(labels.tolist()):
        at = int(torch.randint(size, ()))
        (pictures[i, 0, at] if label else pictures[i, 0, :, at]).add_(2.0)
    return (pictures - pictures.mean()) / pictures.std(), labels


def sentences(count: int = 256, length: int = 12, words: int = 16) -> Tensor:
    """Return sequences in which a word follows from the one before, but for a few."""
    text = torch.randint(words, (count, length))
    for i in range(1, length):
        follows = (text[:, i - 1] * 5 + 3) % words
        text[:, i] = torch.where(torch.rand(count) < 0.9, follows, text[:, i])
    return text


def batches(*data: Tensor, size: int = 32, steps: int = 100) -> Iterator[list[Tensor]]:
    """Yield random batches, another one for each step."""
    for _ in range(steps):
        chosen = torch.randint(len(data[0]), (size,))
        yield [column[chosen] for column in data]
