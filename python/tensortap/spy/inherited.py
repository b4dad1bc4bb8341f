"""What is here only because torchspy has it; its programs run with a changed import.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensortap.spy.trace_graph import Node

ROOT = "root"  # the path of the model itself, and the name of a tree; elsewhere it is "(root)"
UNKNOWN = "unknown"  # the path of a module that was not registered
ALONE = "manual"  # stands for the path where spy_save is given no module


class ContextNames:
    """Further names of the attributes of a `DebugContext`."""

    saver: Any

    @property
    def debugger(self) -> Any:
        """The saver, by its other name."""
        return self.saver


def squash_numeric_indices(tree: Node) -> Node:
    """Return the tree itself: `build_tree` has folded the numbers already.

    Args:
        tree: A tree from `build_tree`.

    Returns:
        The same tree.

    Example:
        >>> from tensortap.spy import build_tree, squash_numeric_indices
        >>> tree = build_tree(["a.0"])
        >>> squash_numeric_indices(tree) is tree
        True
    """
    return tree
