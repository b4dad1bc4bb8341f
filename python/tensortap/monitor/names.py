"""What modules and parameters are called in the keys of metrics.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from tensortap.models.modules import can_run, named_parameters, walk


def modules(
    root: torch.nn.Module, format_fn: Callable[[str], str]
) -> Iterator[tuple[str, torch.nn.Module, bool]]:
    """Yield (formatted name, module, whether to look at its calls).

    A list of modules has none, and a wrapper has those of what it wraps.
    """
    for name, module, is_called in walk(root, with_wrappers=True):
        yield format_fn(name), module, is_called and can_run(module)


def parameters(
    root: torch.nn.Module, format_fn: Callable[[str], str]
) -> Iterator[tuple[str, str, torch.nn.Parameter]]:
    """Yield (name as torch gives it, formatted name, parameter)."""
    plain = {id(parameter): name for name, parameter in named_parameters(root).items()}
    for raw, parameter in root.named_parameters():
        yield raw, format_fn(plain.get(id(parameter), raw)), parameter
