"""The program and the extension are built with what makes a memory error harder to use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensortap import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "release"))
import hardening

pytestmark = [
    pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils are not installed"),
    pytest.mark.skipif("libasan" in Path("/proc/self/maps").read_text(), reason="sanitized"),
]


def test_the_program_is_hardened() -> None:
    program = Path(sys.executable).with_name("tensortap")
    assert hardening.missing(program) == []


def test_the_extension_is_hardened() -> None:
    assert hardening.missing(Path(_core.__file__)) == []


def test_a_program_without_protections_is_noticed(tmp_path: Path) -> None:
    source = "#include <stdio.h>\nint main(int n, char **v) { char b[9]; return sprintf(b, *v); }\n"
    words = ["cc", "-w", "-xc", "-", "-O0", "-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE"]
    words += ["-z", "norelro", "-z", "lazy", "-z", "execstack", "-o", str(tmp_path / "soft")]
    subprocess.run(words, input=source, text=True, check=True)
    assert len(hardening.missing(tmp_path / "soft")) == 7
