"""A C program finds the installed library through pkg-config, and Python reads its run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import tensortap as tt

ROOT = Path(__file__).parents[2]


@pytest.mark.heavy
def test_the_c_example_records_a_run(tmp_path: Path) -> None:
    def run(*command: str | Path, **env: str) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefix = tmp_path / "installed"
    run("meson", "setup", "build", ROOT, "-Dpython=false", f"--prefix={prefix}", "--libdir=lib")
    run("meson", "install", "-C", "build")
    where = str(prefix / "lib" / "pkgconfig")
    flags = run(
        "pkg-config", "--static", "--cflags", "--libs", "tensortap", PKG_CONFIG_PATH=where
    ).split()
    run("cc", ROOT / "examples/c/record.c", "-Wall", "-Wextra", "-Werror", "-o", "record", *flags)
    assert "1200 points of 400 steps" in run("./record", "runs/c")
    read = tt.open(tmp_path / "runs/c")
    assert read.names() == ["activation/line", "parameter/line", "loss"]
    assert read.info["program"] == "record.c"
