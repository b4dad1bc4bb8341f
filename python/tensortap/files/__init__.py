"""HDF5, complete files, locks; frames of the program, whose code it is, what it imports.

SPDX-License-Identifier: Apache-2.0
"""
