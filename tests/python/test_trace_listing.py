"""What could be traced: listed by paths(), or named where a path matched nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tensortap.trace import ModelTracer, paths  # noqa: E402


def test_listing_leaves_random_numbers_and_buffers_as_they_were():
    class Draws(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            noise = random.random() + np.random.rand() + torch.rand(())
            return self.norm(x) + noise

    def drawn():
        return random.random(), np.random.rand(), float(torch.rand(()))

    model, x = Draws(), torch.randn(3, 4)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    expected = drawn()
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(7)
    assert "forward.noise" in [one.path for one in paths(model, x)]
    assert drawn() == expected
    assert float(model.norm.running_mean.abs().sum()) == int(model.norm.num_batches_tracked) == 0


def test_the_nearest_of_many_names_is_told():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(30)))
    with (
        pytest.warns(
            RuntimeWarning, match=r"'17\.0\.forwar\.input'.*near it: 17\.0\.forward\.input,"
        ),
        ModelTracer(model, "17.0.forwar.input"),
    ):
        model(torch.ones(1, 2))
