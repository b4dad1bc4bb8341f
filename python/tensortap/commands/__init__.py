"""The halves of commands that need Python; `cli/python_exec.c` calls them.

SPDX-License-Identifier: Apache-2.0
"""
