"""The core and the program compile for macOS on arm64; nobody has run them there."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = ("libdeflate.h", "microhttpd.h", "xxhash.h", "zstd.h", "zstd_errors.h")  # of libraries
FLAGS = [
    "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
    "-ffp-contract=off", "-D_GNU_SOURCE", "-Wno-enum-float-conversion",
]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None,
    reason="needs the compiler of `pip install ziglang`; ./dev test --all installs it",
)
@pytest.mark.parametrize("kind", ["core", "cli", "kernels"])
def test_it_compiles_for_macos(kind: str, tmp_path: Path) -> None:
    home = "cli" if kind == "cli" else "core"
    sources = [
        path
        for path in ROOT.glob(f"{home}/**/*.c")
        if path.name != "linux.c" and path.name.endswith("_kernel.c") == (kind == "kernels")
    ]
    for name in HEADERS:  # not all of /usr/include, which is for Linux
        if (Path("/usr/include") / name).exists():
            shutil.copy(Path("/usr/include") / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos", "-c", *FLAGS]
        + (["-DTT_ISA=neon"] if kind == "kernels" else [])
        + [f"-I{ROOT / home}", f"-I{ROOT / 'include'}", "-isystem", str(tmp_path)]
        + [str(path) for path in sources],
        cwd=tmp_path,  # for the objects
        capture_output=True,
        text=True,
    )
    assert len(sources) > 5
    assert (done.returncode, done.stderr) == (0, "")
