"""Compare two implementations of one model, and name the layer where they part.

    >>> import torch, tensortap as tt
    >>> _ = torch.manual_seed(0)
    >>> a, b = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)) for _ in "ab")
    >>> _ = b.load_state_dict(a.state_dict())
    >>> b[1].eps = 0.1
    >>> tt.compare_models(a, b, torch.randn(16, 8)).first.a
    '1'

Nothing is imported here: `tt.diff` works without torch and NumPy, the rest needs them.
SPDX-License-Identifier: Apache-2.0
"""
