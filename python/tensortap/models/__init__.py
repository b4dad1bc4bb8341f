"""Questions about models that several packages ask.

SPDX-License-Identifier: Apache-2.0
"""
