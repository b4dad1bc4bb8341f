"""How the program of this process was started, and where.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: The newest versions that the tests passed with; docs/install.md has them all.
NEWEST_TESTED = {"python": (3, 15), "torch": (2, 15)}
MASK = "***"  # in place of a secret
#: Endings of the names of options whose values are kept out of the run, and words in them.
SECRET_ENDINGS = ("key", "token", "pwd", "pw", "pass", "credential", "credentials", "auth")
SECRET_WORDS = ("password", "passwd", "passphrase", "secret", "apikey")
OPTION = re.compile(r"[\w.-]+")
#: Secrets in a text, whatever its option is called; the first group stays.
SECRETS = re.compile(
    r"((?i:\bAuthorization\s*:\s*(?:Bearer\s+)?))\S.*"
    r"|((?i:\bBearer\s+))\S+"
    r"|(\w://[^\s/@:]*:)[^\s@]+(?=@)"  # https://user:password@host
    r"|\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza)"
    r"(?=[a-z_-]*[A-Z0-9])[\w-]{6,}"  # as they begin; a word in small letters is none
)
#: name=value or "name": "value" inside a text, such as the query of a URL.
NAMED = re.compile(r"""([A-Za-z_][\w.-]*)(["']?\s*(?:=|:(?!//))\s*["']?)([^\s"',;&}]+)""")


def command() -> dict[str, Any]:
    """Return the command, its folder and a hash of its file; {} in a notebook, or if private.

    Secrets in it are masked.
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


def untested(info: dict[str, str]) -> str:
    """Return a sentence about versions that are newer than any tested; empty: there are none."""
    newer = []
    for name, newest in NEWEST_TESTED.items():
        found = re.match(r"(\d+)\.(\d+)", info.get(name, ""))
        if found and (int(found[1]), int(found[2])) > newest:
            title = "Python" if name == "python" else name
            newer.append(f"{title} {info[name]} (tested up to {newest[0]}.{newest[1]})")
    if not newer:
        return ""
    return (
        f"tensortap {info['tensortap']} was not tested with {' and '.join(newer)}; "
        "everything that can be seen is recorded"
    )


def hash_of(path: str) -> str | None:
    """Return a hash of a file; None: it cannot be read, or is none (a pipe would never end)."""
    try:
        if not os.path.isfile(path):
            return None
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


def is_first_of_node() -> bool:
    """Return whether this is the first process of the job on its machine, as a launcher says."""
    local = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or "0"
    return local == "0"


def read_ranks(text: str) -> list[int]:
    """Return the ranks of a text such as "0-7,12"; raise ValueError for any other."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"ranks must be like '0-7,12', not {text!r}")
        found.update(range(int(first), int(last if dash else first) + 1))
    return sorted(found)


def write_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as a text such as "0-7,12"."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def choose_ranks(chosen: Iterable[int] | None, count: int | None, world: int) -> list[int]:
    """Return the ranks that record: those that were chosen, or some of them, evenly spread.

    Every rank comes to the same answer by itself.
    """
    every = range(world) if chosen is None else [one for one in chosen if one < world]
    if count is None or count >= len(every):
        return list(every)
    return [every[i * len(every) // count] for i in range(count)]


#: Facts about this rank: names in a run, and variables of launchers that hold them.
LAUNCHED = {
    "local_rank": ("LOCAL_RANK", "SLURM_LOCALID"),
    "node": ("GROUP_RANK", "SLURM_NODEID"),
    "elastic_run": ("TORCHELASTIC_RUN_ID",),
    "restart": ("TORCHELASTIC_RESTART_COUNT",),
}


def launch() -> dict[str, str]:
    """Return what the launcher says about this rank, and its device if one is in use already."""
    found = {
        name: os.environ[variable]
        for name, variables in LAUNCHED.items()
        for variable in reversed(variables)
        if variable in os.environ and rank_and_size()[1] > 1
    }
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        index = cuda.current_device()
        device = cuda.get_device_properties(index)
        found["device"] = f"cuda:{index} {device.name} {getattr(device, 'uuid', '')}".strip()
    return found


def is_private() -> bool:
    """Return whether nothing of the command may be kept."""
    return os.environ.get("TENSORTAP_PRIVATE", "") not in ("", "0")


def masked(arguments: list[str]) -> list[str]:
    """Replace values of options whose names look like those of secrets, and what looks like one."""
    out: list[str] = []
    is_value = False  # of the secret before
    for one in map(str, arguments):
        name, equals, _ = one.partition("=")
        is_secret = OPTION.fullmatch(name) is not None and _is_secret(name)
        if is_value and not one.startswith("-"):
            out.append(MASK)
        else:
            out.append(f"{name}={MASK}" if is_secret and equals else without_secrets(one))
        is_value = is_secret and not equals and one.startswith("-")
    return out


def without_secrets(text: str) -> str:
    """Replace what looks like a secret."""
    text = SECRETS.sub(lambda found: "".join(filter(None, found.groups())) + MASK, text)
    return NAMED.sub(
        lambda found: f"{found[1]}{found[2]}{MASK}" if _is_secret(found[1]) else found[0], text
    )


def _is_secret(name: str) -> bool:
    name = re.sub(r"[-_.]", "", name.lower())
    is_ending = name.endswith(SECRET_ENDINGS) and not name.endswith("bypass")
    return is_ending or any(word in name for word in SECRET_WORDS)


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
