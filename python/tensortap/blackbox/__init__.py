"""Keep the last steps of a training in memory, write them to disk when something goes wrong, replay.

SPDX-License-Identifier: Apache-2.0
"""
