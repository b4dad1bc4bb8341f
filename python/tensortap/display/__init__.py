"""Text and pictures for users.

SPDX-License-Identifier: Apache-2.0
"""
