"""TENSORTAP_TRACK decorates functions of programs that know nothing of tensortap."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from commands import tensortap

pytest.importorskip("numpy")

DATA = """\
import numpy as np

def load(n):
    x = np.zeros(n)
    x += 1
    return x

class Reader:
    def read(self, n):
        return load(n)

    @staticmethod
    def skip(n):
        return n
"""
MAIN = """\
import sys
from data import Reader, load

def double(x):
    y = x * 2
    return y

class Step:
    def run(self, x):
        return double(x)

if __name__ == "__main__":
    Step().run(Reader().read(3))
    Reader.skip(2)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "data.py").write_text(DATA)
    (tmp_path / "main.py").write_text(MAIN)
    return tmp_path


def run(folder: Path, track: str, *arguments: str, first: str = "") -> tuple[list[str], str]:
    """Run main.py; give the printed lines without their guides, and what went to stderr."""
    environment = {
        **os.environ,
        "TENSORTAP_TRACK": track,
        "TENSORTAP_LOG_DIR": str(folder / "logs"),
    }
    environment.pop("_TENSORTAP_TRACK_PARENT", None)
    if first:
        (folder / "main.py").write_text(first + MAIN)
    done = subprocess.run(
        [sys.executable, *(arguments or ("main.py",))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [line.strip("│┌├└─ ") for line in done.stdout.splitlines()], done.stderr


def calls(lines: list[str]) -> list[str]:
    return [line.split("[")[2].split("]")[0] for line in lines if " called at " in line]


def is_started_with_python() -> bool:
    """Tell whether the .pth file is where Python looks for it."""
    return any(
        (Path(sysconfig.get_path(key)) / "tensortap.pth").exists() for key in ("platlib", "purelib")
    )


needs_pth = pytest.mark.skipif(
    not is_started_with_python(), reason="tensortap is not installed, only found"
)


def test_the_package_brings_the_file_that_python_reads_at_its_start() -> None:
    import tensortap

    home = Path(tensortap.__file__).parent.parent
    if not (home / "tensortap.pth").exists() and not list(home.glob("tensortap-*.dist-info")):
        pytest.skip("not an installed package")
    assert (home / "tensortap.pth").exists()


@needs_pth
def test_a_function_of_an_imported_module_is_tracked(program: Path) -> None:
    lines, errors = run(program, "data:load:x")
    assert calls(lines) == ["load"]
    assert [line.split(" → ")[0] for line in lines if line.startswith("[Tensor]")] == [
        "[Tensor] x@4",
        "[Tensor] x@5",
    ]
    assert errors == ""


@needs_pth
def test_methods_and_several_entries_are_tracked(program: Path) -> None:
    lines, errors = run(program, "data:Reader.read; data:Reader.skip ;data:load")
    assert calls(lines) == ["Reader.read", "load", "Reader.skip"]
    assert errors == ""


@needs_pth
@pytest.mark.parametrize("name", ["main", "__main__"])
def test_the_program_itself_is_tracked(program: Path, name: str) -> None:
    lines, errors = run(program, f"{name}:Step.run;{name}:double:y")
    assert calls(lines) == ["Step.run", "double"]
    assert any(line.startswith("[Tensor] y@5") for line in lines)
    assert errors == ""


@needs_pth
@pytest.mark.parametrize("name", ["main", "__main__"])
def test_the_program_of_tensortap_run_is_tracked(program: Path, name: str) -> None:
    done = tensortap(
        "run",
        "main.py",
        folder=program,
        TENSORTAP_TRACK=f"{name}:double:y",
        TENSORTAP_LOG_DIR=str(program / "logs"),
    )
    assert "function [double] called" in done.stdout
    assert "TENSORTAP_TRACK" not in done.stderr


@needs_pth
def test_functions_defined_after_an_exec_at_the_top_level_are_tracked(program: Path) -> None:
    lines, errors = run(program, "main:double", first="exec('rate = 0.1\\nsize = 8')\n")
    assert calls(lines) == ["double"]
    assert errors == ""


def test_tensortap_may_be_imported_inside_of_an_exec(program: Path) -> None:
    first = f"import sys; sys.path += {sys.path!r}; exec('import tensortap')\n"
    lines, errors = run(program, "main:double", "-S", "main.py", first=first)
    assert calls(lines) == ["double"]
    assert errors == ""


@needs_pth
def test_a_module_that_is_run_is_tracked(program: Path) -> None:
    assert calls(run(program, "main:double", "-m", "main")[0]) == ["double"]


def test_importing_tensortap_is_enough(program: Path) -> None:
    first = f"import sys; sys.path += {sys.path!r}; import tensortap\n"
    lines, errors = run(program, "data:load;main:double", "-S", "main.py", first=first)
    assert calls(lines) == ["load", "double"]
    assert errors == ""


@needs_pth
@pytest.mark.parametrize(
    ("track", "told"),
    [
        ("data:lode", "data has no function lode"),
        ("main:dubble", "main.py has no function dubble"),
        ("date:load", "no module date was imported"),
        ("load", "'load' is not module:function[:var,…]"),
        ("data:np", ""),
    ],
)
def test_what_is_not_there_is_named(program: Path, track: str, told: str) -> None:
    lines, errors = run(program, track)
    assert lines == []
    assert told in errors
    assert "TENSORTAP_TRACK" in errors


@needs_pth
def test_a_trace_function_is_gone_when_all_functions_were_found(program: Path) -> None:
    (program / "main.py").write_text(MAIN + "    print(sys.gettrace())\n")
    lines, _ = run(program, "main:double")
    assert lines[-1] == "None"


@needs_pth
def test_without_the_variable_nothing_is_imported(program: Path) -> None:
    code = "import sys; print([name for name in sys.modules if 'tensortap' in name])"
    assert run(program, "", "-c", code)[0] == ["[]"]
