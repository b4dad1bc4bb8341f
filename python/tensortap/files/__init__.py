"""Files of other programs: HDF5, files that appear complete or not at all, imported modules; locks.

SPDX-License-Identifier: Apache-2.0
"""
