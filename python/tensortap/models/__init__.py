"""Questions about models that several packages ask.

SPDX-License-Identifier: Apache-2.0
"""

from tensortap.compiled import module_call as module_call  # what torch.compile finds of our objects
