"""The class of modes that torch calls for every operator; it imports torch.

Without it `tensortap.operators` raises ImportError, when it is used.
SPDX-License-Identifier: Apache-2.0
"""

from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
