"""Answers: what the core says of a run, its rules asked while it is written and afterwards.

`tensortap.findings` has the public names.
SPDX-License-Identifier: Apache-2.0
"""
