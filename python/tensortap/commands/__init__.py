"""The Python halves of commands; `cli/python_exec.c` starts them.

SPDX-License-Identifier: Apache-2.0
"""
