"""The tree log of calls and changes: from a wrong value to the line that made it.

    >>> from tensortap.track import auto_diff, var_tracker
    >>> @var_tracker("video")     # each change of video, here and in what is called
    ... def load(path): ...

Lines are printed and written to `process_{pid}_thread_{tid}.log` below
$TENSORTAP_LOG_DIR, or ttracker_logs/.  Importing this writes nothing.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from tensortap.track.calls import auto_diff, fstack, get_call_stack
from tensortap.track.inherited import (
    IndentManager,
    check_run_count,
    extract_tensor_info,
    h4logger,
    is_content_changed,
    setup_logger,
)
from tensortap.track.inherited import log_change as _log_change
from tensortap.track.log import ThreadFileHandler, log2file, logger
from tensortap.track.tracking import block, debug_trace, var_tracker

__all__ = [
    "IndentManager",
    "ThreadFileHandler",
    "_log_change",
    "auto_diff",
    "block",
    "check_run_count",
    "debug_trace",
    "extract_tensor_info",
    "fstack",
    "get_call_stack",
    "h4logger",
    "is_content_changed",
    "log2file",
    "logger",
    "setup_logger",
    "var_tracker",
]
