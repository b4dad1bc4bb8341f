"""Names that torch does not promise to keep: every use of one stands here or in `compiled`.

One file for each part of torch.  Each use is behind a `Capability`, which says what it is for and
what is lost without it.
SPDX-License-Identifier: Apache-2.0
"""
