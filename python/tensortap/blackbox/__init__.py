"""Keep the last steps of a training, write them when something goes wrong, and replay them.

SPDX-License-Identifier: Apache-2.0
"""
