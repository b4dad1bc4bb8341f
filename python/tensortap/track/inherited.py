"""What is here only because ttracker has it; its programs run with a changed import.

Labels in Chinese, names of folders and variables, helpers beside the log.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from tensortap import _core
from tensortap.track.log import ThreadFileHandler, default_handler, log, logger
from tensortap.track.rendering import MOST_ITEMS, is_array, is_tensor

# ---- labels

_WORDS = {  # in English and in Chinese
    "function": ("function", "函数"),
    "called": ("called at", "被调用于"),
    "input": ("input", "输入"),
    "output": ("output", "输出"),
    "time": ("time", "耗时"),
}


def words() -> dict[str, str]:
    """Return the labels of the language that TENSORTAP_LANG names."""
    is_chinese = os.environ.get("TENSORTAP_LANG", "").lower().startswith("zh")
    return {key: both[is_chinese] for key, both in _WORDS.items()}


# ---- the log


def log_folder() -> str:
    """Return $TENSORTAP_LOG_DIR, or ttracker_logs; $TENSORTAP_LOG_TAG is a folder in it."""
    folder = os.environ.get("TENSORTAP_LOG_DIR") or "ttracker_logs"
    tag = os.environ.get("TENSORTAP_LOG_TAG") or os.environ.get("LTAG")  # as in ttracker
    return os.path.join(folder, tag) if tag else folder


def h4logger(path: str | os.PathLike[str] | None = None) -> ThreadFileHandler:
    """Return a handler for `logger.addHandler` that writes a file for each thread.

    Args:
        path: Folder of the files. Defaults to that of the log.

    Returns:
        The handler.

    Example:
        >>> from tensortap.track import h4logger, logger
        >>> handler = h4logger("logs")
        >>> logger.addHandler(handler)
        >>> logger.removeHandler(handler)
    """
    return ThreadFileHandler(path) if path is not None else ThreadFileHandler(log_folder())


def setup_logger() -> logging.Logger:
    """Add the file handler to the logger, once.

    Returns:
        The logger.

    Example:
        >>> from tensortap.track import logger, setup_logger
        >>> setup_logger() is logger
        True
    """
    if not any(isinstance(handler, ThreadFileHandler) for handler in logger.handlers):
        logger.addHandler(default_handler())
    return logger


class IndentManager:
    """The depth of this thread's tree; every thread has its own.

    Example:
        >>> from tensortap.track import IndentManager
        >>> IndentManager.get()
        0
    """

    @staticmethod
    def get() -> int:
        """Return how many calls are open."""
        return log.depth

    @staticmethod
    def increase() -> int:
        """Go one call deeper."""
        log.depth += 1
        return log.depth

    @staticmethod
    def decrease() -> int:
        """Come back from a call."""
        log.depth -= 1  # never below 0
        return log.depth

    @staticmethod
    def text() -> str:
        """Return the guides that stand before a line."""
        return "│   " * log.depth


def log_change(prestr: str, name: str, value: object, indent: str, lineno: int = 0) -> None:
    """Log one value; of a tuple, such as the input of a hook, each item.

    Args:
        prestr: Text before the name.
        name: Name of the value.
        value: The value.
        indent: Text at the start of the line.
        lineno: Line in the program; 0 for none.

    Example:
        >>> from tensortap.track import _log_change
        >>> _log_change("", "x", 1, "")
        ├─ [Var] x@0 value: 1
    """
    before = f"{prestr} " if prestr else ""
    if isinstance(value, tuple) and value:
        for i, item in enumerate(value):
            log.value(indent, before, f"{name}[{i}]", item, lineno)
    else:
        log.value(indent, before, name, value, lineno)


# ---- values


def extract_tensor_info(data: Any, max_elements: int = MOST_ITEMS) -> Any:
    """Return a value as plain data: few elements as lists, more of them as a summary.

    Args:
        data: A tensor, an array, or containers of them.
        max_elements: Largest number of elements to return as a list.

    Returns:
        Lists, dicts, numbers and text.

    Example:
        >>> import torch
        >>> from tensortap.track import extract_tensor_info
        >>> info = extract_tensor_info({"x": torch.ones(2)})
    """
    if is_tensor(data):
        if data.numel() <= max_elements and data.device.type != "meta":
            return data.tolist()
        info = {"type": "Tensor", "shape": data.shape, "dtype": str(data.dtype)}
        try:
            stats = _core.stats(data.cpu() if data.device.type not in ("cpu", "meta") else data)
        except TypeError:  # meta, sparse: no values to read
            return info
        return {**info, "sum": stats.sum, "mean": stats.mean, "min": stats.min, "max": stats.max}
    if is_array(data):
        if data.size <= max_elements:
            return data.tolist()
        return {"type": "ndarray", "shape": data.shape, "dtype": str(data.dtype)}
    if isinstance(data, list | tuple | set):
        return [extract_tensor_info(item, max_elements) for item in data]
    if isinstance(data, dict):
        return {key: extract_tensor_info(item, max_elements) for key, item in data.items()}
    return data


def is_content_changed(last: object, current: object) -> bool:
    """Return whether two values differ; tensors by shape, type, device and contents.

    Args:
        last: A value.
        current: Another value.

    Returns:
        True if they differ.

    Example:
        >>> import torch
        >>> from tensortap.track import is_content_changed
        >>> is_content_changed(torch.ones(2), torch.zeros(2))
        True
    """
    if last is current and not isinstance(current, list | tuple | dict | set | frozenset):
        return False
    if _core.track_key(last) == _core.track_key(current):
        return False
    if is_tensor(last) or is_array(last) or isinstance(last, list | tuple | dict | set | frozenset):
        return True
    try:
        return not bool(last == current)
    except Exception:
        return True


# ---- the program

_counts: dict[tuple[int, int, object], int] = {}


def check_run_count(unique_id: object, max_allow: int, remove_when_exit: bool = True) -> None:
    """Count calls in this thread, and exit the program after the last one that is allowed.

    Args:
        unique_id: What is counted.
        max_allow: Number of calls that are allowed.
        remove_when_exit: Forget the count at the exit, so that it starts again.

    Raises:
        SystemExit: There were more than *max_allow* calls.

    Example:
        >>> from tensortap.track import check_run_count
        >>> check_run_count("loop", 2)
    """
    key = (os.getpid(), threading.get_ident(), unique_id)
    count = _counts[key] = _counts.get(key, 0) + 1
    if count > max_allow:
        if remove_when_exit:
            del _counts[key]
        raise SystemExit(1)
