"""Questions about models that several packages ask.

SPDX-License-Identifier: Apache-2.0
"""

from tensortap.models import probes as probes  # what torch.compile finds of our objects
