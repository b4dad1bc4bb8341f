"""Runs: recording one, watching a model, reading what was recorded.

SPDX-License-Identifier: Apache-2.0
"""
