"""Files that other programs read: HDF5, and files that appear complete or not at all.

SPDX-License-Identifier: Apache-2.0
"""
