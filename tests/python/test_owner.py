"""Whose code is it?  One rule answers for warnings, losses, operators, flow and track."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402

import tensortap as tt  # noqa: E402
from tensortap.files.owners import Owner, owner_of  # noqa: E402


@dataclasses.dataclass
class Data:
    x: int


Pair = collections.namedtuple("Pair", "a b")


def typed() -> CodeType:
    names: dict[str, object] = {}
    exec("class Typed:\n    def __init__(self): self.x = 1\n", names)
    return names["Typed"].__init__.__code__  # type: ignore[misc]


@pytest.mark.parametrize(
    ("code", "owner"),
    [
        (typed.__code__, Owner.PROGRAM),
        (typed(), Owner.PROGRAM),
        ("<stdin>", Owner.PROGRAM),
        ("/tmp/ipykernel_7/123.py", Owner.PROGRAM),
        ("/home/me/lib/python3tricks/train.py", Owner.PROGRAM),
        ("train.py", Owner.PROGRAM),
        ("caf\udce9.py", Owner.PROGRAM),
        (np.__file__, Owner.PACKAGE),
        ("<attrs generated init a.B>", Owner.PACKAGE),
        (contextlib.contextmanager.__code__, Owner.PYTHON),
        (Data.__init__.__code__, Owner.PYTHON),
        (Pair.__new__.__code__, Owner.PYTHON),
        ("<frozen runpy>", Owner.PYTHON),
        (torch.nn.Linear.forward.__code__, Owner.TORCH),
        ("<eval_with_key>.3", Owner.TORCH),
        (tt.record.__code__, Owner.OURS),
    ],
)
def test_code_has_one_owner(code: CodeType | str, owner: Owner) -> None:
    assert owner_of(code) is owner


def test_the_extension_and_python_have_the_same_owners() -> None:
    header = Path(__file__).parents[2] / "python/ext/binding/state.h"
    text = header.read_text()
    listed = text[text.index("typedef enum binding_owner") : text.index("} binding_owner;")]
    names = [word.strip(",") for word in listed.split() if word.startswith("BINDING_OWNER_")]
    assert names == [f"BINDING_OWNER_{owner.name}" for owner in Owner]


def test_a_loss_is_named_by_the_program_wherever_that_lies(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "python3tricks"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(
        "import torch, tensortap as tt\n"
        "def train():\n"
        "    model = torch.nn.Linear(2, 1)\n"
        "    with tt.record('run', model=model):\n"
        "        model(torch.ones(1, 2)).sum().backward()\n"
    )
    (tmp_path / "main.py").write_text(
        f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport train\ntrain.train()\n"
    )
    subprocess.run([sys.executable, "main.py"], cwd=tmp_path, check=True)
    names = tt.open(tmp_path / "run").names("loss/*")
    assert names == ["loss/train.py:5"]
