"""A black box on disk: one .safetensors file for each rank, complete or absent.

Its tensors are the state and the batches; the rest is a JSON text in the file's metadata.  Reading
checks every name, type, shape and place before it is used, and executes nothing.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensortap.blackbox.memory import WORDS, Memory
from tensortap.blackbox.values import MISSING, join
from tensortap.files.whole import whole_file

KEY = "tensortap black box"  # in the metadata
VERSION = 1
FOLDER = "blackbox"  # in a run
MOST_HEAD = 100 << 20  # bytes, as in other readers of .safetensors
STEP = re.compile(r"step(\d{1,18})")
#: What replay relies on.
KINDS = {
    "step": int,
    "first_step": int,
    "rank": int,
    "world_size": int,
    "cause": str,
    "text": str,
    "program": dict,
    "fetched": dict,
    "snapshot": dict,
    "steps": list,
}
KINDS_IN_STEP = {
    "fetched": dict,
    "random": list,
    "batches": list,
    "forwards": list,
    "losses": list,
    "updates": list,
    "digests": dict,
}
KINDS_IN_PART: dict[str, dict[str, type]] = {
    "batches": {"loader": str, "number": int},
    "forwards": {"inputs": list},
    "updates": {"numbers": list},
}
MOST_RANKS = 1 << 20
Place = tuple[str, list[int], int, int]  # of a tensor: type, shape, begin, end


class DamagedError(ValueError):
    """The file is no black box, or does not fit itself."""


def write(path: Path, facts: dict[str, Any], parts: Iterable[tuple[str, Memory]]) -> int:
    """Write a black box that only its owner can read; return its bytes.

    Args:
        path: Name of the file.
        facts: Everything but the tensors.
        parts: What comes before the names of the tensors, and their memory.

    Raises:
        OSError: The disk is full, for example; then there is no file.
    """
    blocks = [(before, memory) for before, memory in parts if memory.entries]
    head: dict[str, Any] = {"__metadata__": {KEY: str(VERSION), "facts": json.dumps(facts)}}
    start = 0
    for before, memory in blocks:
        for name, word, shape, at in memory.entries:
            size = math.prod(shape) * _width(word)
            head[before + name] = {
                "dtype": word,
                "shape": shape,
                "data_offsets": [start + at, start + at + size],
            }
        start += memory.used
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # so that the tensors are aligned: 8 bytes come before
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole_file(os.fspath(path)) as temporary:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write_all(fd, memoryview(len(text).to_bytes(8, "little") + text))
            for _, memory in blocks:
                with memoryview(memory.block) as block:  # type: ignore[arg-type]
                    _write_all(fd, block[: memory.used])
            os.fsync(fd)
        finally:
            os.close(fd)
    return 8 + len(text) + start


def read_facts(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Place], int]:
    """Return everything but the tensors, the places of those, and where they begin.

    Raises:
        DamagedError: It is no black box, or its names, types, shapes or places are wrong.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MOST_HEAD, size - 8):
                raise DamagedError(f"a head of {length} bytes in a file of {size}")
            head = json.loads(file.read(length))
        places = _check_head(head, size - 8 - length)
        facts = json.loads(head["__metadata__"]["facts"])
        _check_facts(facts)
    except DamagedError as error:
        raise DamagedError(f"{path} is not a black box that can be read: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"{path} is not a black box that can be read: {error!r}") from None
    return facts, places, 8 + length


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts and the tensors of a black box; raises as read_facts does."""
    facts, places, start = read_facts(path)
    with open(path, "rb") as file:
        return facts, {name: _load(file, start, *place) for name, place in places.items()}


def value_at(tree: Any, before: str, tensors: dict[str, Any], own: Any = MISSING) -> Any:
    """Return a value whose tensors have names that begin with *before*."""
    inner = {
        name.removeprefix(before): tensor
        for name, tensor in tensors.items()
        if name == before or name.startswith(f"{before}/")
    }
    return join(tree, inner, own)


def dumps(run: Path) -> dict[int, list[Path]]:
    """Return the files of the black boxes of a run by their steps, the first rank first."""
    found: dict[int, list[Path]] = {}
    for path in sorted((run / FOLDER).glob("step*/rank*.safetensors"), key=_rank):
        named = STEP.fullmatch(path.parent.name)
        if named is not None:
            found.setdefault(int(named[1]), []).append(path)
    return dict(sorted(found.items()))


def _rank(path: Path) -> int:
    number = path.stem.removeprefix("rank")
    return int(number) if number.isdecimal() else -1


def _width(word: str) -> int:
    """Return the bytes of an element: most types have their bits in their names."""
    if word == "BOOL":
        return 1
    return int(re.sub(r"\D*(\d+).*", r"\1", word)) // 8


def _write_all(fd: int, data: memoryview) -> None:
    at = 0
    while at < len(data):
        at += os.write(fd, data[at : at + (1 << 30)])


# ---- reading


def _check_head(head: Any, room: int) -> dict[str, Place]:
    """Return type, shape, begin and end of each tensor."""
    if not isinstance(head, dict) or not isinstance(head.get("__metadata__"), dict):
        raise DamagedError("the head has no metadata")
    if head["__metadata__"].get(KEY) != str(VERSION):
        raise DamagedError(f"its version is {head['__metadata__'].get(KEY)!r}, not {VERSION}")
    places = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        word, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if word not in WORDS.values():
            raise DamagedError(f"{name[:80]!r} has the unknown type {word!r}")
        numbers = [*shape, begin, end]
        if any(type(n) is not int or not 0 <= n < 1 << 48 for n in numbers) or len(shape) > 64:
            raise DamagedError(f"{name[:80]!r} has the shape {shape!r:.80} at {begin}:{end}")
        if not begin <= end <= room or end - begin != math.prod(shape) * _width(word):
            raise DamagedError(f"{name[:80]!r} with shape {shape} does not lie at {begin}:{end}")
        places[name] = (word, shape, begin, end)
    used = sum(end - begin for _, _, begin, end in places.values())
    if used > room:  # several tensors in the same bytes: a small file that fills the memory
        raise DamagedError(f"its tensors have {used} bytes, and it has room for {room}")
    return places


def _load(file: Any, start: int, word: str, shape: list[int], begin: int, end: int) -> Any:
    import torch

    dtype = getattr(torch, next(name for name, other in WORDS.items() if other == word))
    file.seek(start + begin)
    data = bytearray(file.read(end - begin))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _check_facts(facts: Any) -> None:
    """Raise DamagedError unless the parts that replay relies on are what they must be."""
    if not isinstance(facts, dict):
        raise DamagedError("it has no facts")
    for key, kind in KINDS.items():
        if type(facts.get(key)) is not kind:
            raise DamagedError(f"it has no valid {key!r}")
    for step in facts["steps"]:
        if not isinstance(step, dict) or type(step.get("step")) is not int:
            raise DamagedError("its steps have no numbers")
        if any(not isinstance(step.get(key), kind) for key, kind in KINDS_IN_STEP.items()):
            raise DamagedError(f"its step {step['step']} is not complete")
        _check_parts(step)
    if not 0 <= facts["rank"] < facts["world_size"] <= MOST_RANKS:
        raise DamagedError(f"it is of rank {facts['rank']} of {facts['world_size']}")
    if type(facts["snapshot"].get("step")) is not int or "state" not in facts["snapshot"]:
        raise DamagedError("its snapshot is not complete")
    if type(facts.get("seconds", 0.0)) is not float:
        raise DamagedError("it has no valid 'seconds'")
    words = facts["program"].get("command", [])
    if not isinstance(words, list) or not all(map(_is_text, words)):
        raise DamagedError("its command is not a list of words")
    for key in ("kind", "cwd", "file", "hash"):
        if facts["program"].get(key) is not None and not _is_text(facts["program"][key]):
            raise DamagedError(f"its program has no valid {key!r}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _check_parts(step: dict[str, Any]) -> None:
    """Raise DamagedError unless the lists of a step hold what they must."""
    for key, kinds in KINDS_IN_PART.items():
        for one in step[key]:
            if not isinstance(one, dict) or any(
                not isinstance(one.get(name), kind) for name, kind in kinds.items()
            ):
                raise DamagedError(f"its step {step['step']} has no valid {key!r}")
    pairs = [one for one in step["losses"] if not isinstance(one, list) or len(one) != 2]
    rows = step.get("variables", [])
    if pairs or not isinstance(rows, list) or any(not _is_variable(row) for row in rows):
        raise DamagedError(f"its step {step['step']} has no valid losses or variables")
    for forward in step["forwards"]:
        if any(not isinstance(one, list) or len(one) != 3 for one in forward["inputs"]):
            raise DamagedError(f"its step {step['step']} has no valid inputs")


def _is_variable(row: Any) -> bool:
    kinds: tuple[Any, ...] = (str, int, str, (bool, int, float, str))
    return (
        isinstance(row, list)
        and len(row) == len(kinds)
        and all(isinstance(one, kind) for one, kind in zip(row, kinds, strict=True))
    )
