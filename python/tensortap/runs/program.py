"""How the program of this process was started, and where.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

MASK = "***"  # in place of a secret
#: Endings of the names of options whose values are kept out of the run, and words in them.
SECRET_ENDINGS = ("key", "token", "pwd", "passphrase", "credential", "credentials", "auth")
SECRET_WORDS = ("password", "passwd", "secret")


def command() -> dict[str, Any]:
    """Return the command, its folder and a hash of its file; {} in a notebook, or if private.

    Values of options whose names look like those of secrets are masked.
    """
    main = sys.modules.get("__main__")
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if path is None or is_private():
        return {}
    name = spec.name.removesuffix(".__main__") if spec is not None else os.path.abspath(path)
    return {
        "kind": "module" if spec is not None else "script",
        "command": [name, *masked(sys.argv[1:])],
        "cwd": cwd(),
        "file": os.path.abspath(path),
        "hash": hash_of(path),
    }


def hash_of(path: str) -> str | None:
    """Return a hash of a file; None: it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def rank_and_size() -> tuple[int, int]:
    """Return rank and world size: of torch.distributed if it runs, else of the environment."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        rank = int(os.environ.get("RANK", "0"))
        return (rank, int(os.environ.get("WORLD_SIZE", "1"))) if rank >= 0 else (0, 1)
    except (ValueError, RuntimeError):
        return 0, 1


def is_private() -> bool:
    """Return whether nothing of the command may be kept."""
    return os.environ.get("TENSORTAP_PRIVATE", "") not in ("", "0")


def masked(arguments: list[str]) -> list[str]:
    """Replace the values of options whose names look like those of secrets."""
    out: list[str] = []
    is_value = False  # of the secret before
    for one in map(str, arguments):
        name, equals, _ = one.partition("=")
        is_secret = _is_secret(name)
        if is_value and not one.startswith("-"):
            out.append(MASK)
        else:
            out.append(f"{name}={MASK}" if is_secret and equals else one)
        is_value = is_secret and not equals and one.startswith("-")
    return out


def _is_secret(name: str) -> bool:
    name = name.lower()
    return name.endswith(SECRET_ENDINGS) or any(word in name for word in SECRET_WORDS)


def cwd() -> str:
    """Return the current folder; "" if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def commit(where: str) -> str:
    """Find the git commit of the program's project by reading its files; "" if there is none."""
    from pathlib import Path

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    for start in (main and os.path.dirname(os.path.abspath(main)), where):
        folder = Path(start) if start else None
        while folder is not None:
            found = _commit_in(folder / ".git")
            if found:
                return found
            folder = folder.parent if folder != folder.parent else None
    return ""


def _commit_in(git: Path) -> str:
    try:
        if git.is_file():  # a worktree or a submodule
            git = git.parent / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head[:64]
        ref = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / common.read_text().strip() if common.exists() else git
        for root in (git, shared):
            if (root / ref).is_file():
                return (root / ref).read_text().strip()[:64]
        for line in (shared / "packed-refs").read_text().splitlines():
            if line.endswith(f" {ref}"):
                return line.split(" ")[0][:64]
    except (OSError, ValueError):
        pass
    return ""
