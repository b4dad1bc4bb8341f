"""H5PYSaverCallback with 1 MB tensors against bare h5py, one item a chunk; a tmpfs if there is one.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
import tempfile
from statistics import median

import h5py
import harness
import torch

from tensortap.trace import H5PYSaverCallback

torch.set_num_threads(1)
COUNT, TURNS = 64, 9
values = [torch.randn(512, 512) for _ in range(COUNT)]
arrays = [value.numpy() for value in values]


def ours(path: str) -> None:
    with H5PYSaverCallback(path) as saver:
        for i, value in enumerate(values):  # a gather each
            saver("x", [value], [i + 1], [0])


def bare(path: str) -> None:
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "x",
            (0, 512, 512),
            maxshape=(None, None, None),
            chunks=(1, 512, 512),
            dtype="f4",
        )
        for i, array in enumerate(arrays):
            data.resize(i + 1, axis=0)
            data[i] = array


with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
    path = os.path.join(folder, "x.h5")
    ours(path), bare(path)
    ratios, speeds = [], []
    for _ in range(TURNS):
        a = harness.seconds(lambda: ours(path))
        b = harness.seconds(lambda: bare(path))
        ratios.append(b / a)
        speeds.append(COUNT * 1.048576 / a)
    print(f"{median(speeds):.0f} MB/s", file=sys.stderr)
harness.row("trace: H5PYSaverCallback, 1 MB tensors, of bare h5py", median(ratios), 0.8)
