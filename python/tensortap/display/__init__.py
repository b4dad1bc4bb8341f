"""Text and pictures for people.

SPDX-License-Identifier: Apache-2.0
"""
