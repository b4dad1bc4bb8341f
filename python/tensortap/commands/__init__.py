"""The Python halves of commands; `cli/python.c` starts them.

SPDX-License-Identifier: Apache-2.0
"""
