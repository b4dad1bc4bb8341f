"""./dev installs what is missing, or says what to run: tried with programs that only pretend."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DEV = Path(__file__).resolve().parents[2] / "dev"
PYTHON = """#!/bin/sh
case "$2" in
*_base_executable*) echo "$0" ;;
*version_info*) echo 3.11 ;;
*get_path*) dirname "$0" ;;
*metadata*) exit 1 ;; # no torch
esac
"""
COMPILER = """#!/bin/sh
! grep -qE 'cmocka.h|zstd.h'
"""


def pretend(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder with ./dev that another user can enter; pytest's own are closed to them."""
    made = Path(tempfile.mkdtemp(prefix="tensortap-dev-"))
    made.chmod(0o777)
    shutil.copy(DEV, made / "dev")
    (made / "bin").mkdir()
    (made / "bin").chmod(0o755)  # whatever the umask
    pretend(made / "bin/python", PYTHON)
    pretend(made / "bin/compiler", COMPILER)
    for program in ("pkg-config", "g++"):
        pretend(made / "bin" / program, "#!/bin/sh\n")
    pretend(made / "bin/sudo", "#!/bin/sh\nexit 1\n")
    (made / "bin/Python.h").touch()
    yield made
    shutil.rmtree(made)


def set_up(
    folder: Path, command: str = "setup", **changed: str
) -> subprocess.CompletedProcess[str]:
    """Run ./dev setup, or another command, as somebody who is not root."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    programs = folder / "bin"
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHON": str(programs / "python"),
        "CC": str(programs / "compiler"),
        "HOME": str(folder),
        **changed,
    }
    return subprocess.run(
        [folder / "dev", command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        **nobody,  # type: ignore[call-overload]
    )


def test_with_neither_root_nor_sudo_the_one_line_to_run_is_printed(folder: Path) -> None:
    done = set_up(folder)
    line = "sudo apt-get install -y --no-install-recommends libcmocka-dev libzstd-dev\n"
    assert (done.returncode, done.stdout) == (3, line)
    assert "need an administrator" in done.stderr


def test_one_line_has_all_that_a_bare_machine_lacks(folder: Path) -> None:
    pretend(folder / "bin/compiler", "#!/bin/sh\nexit 1\n")
    few = folder / "few"
    few.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "chromium":
            (few / program.name).symlink_to(program)
    done = set_up(folder, "test", PATH=f"{folder}/bin:{few}")
    (line,) = done.stdout.splitlines()
    headers = {"libcmocka-dev", "libxxhash-dev", "libzstd-dev", "libdeflate-dev"}
    assert done.returncode == 3
    assert {"gcc", "libc6-dev", "libmicrohttpd-dev", "chromium"} | headers <= set(line.split())


def test_without_apt_the_names_of_what_is_missing_are_printed(folder: Path) -> None:
    others = folder / "others"
    others.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "apt-get":
            (others / program.name).symlink_to(program)
    done = set_up(folder, PATH=f"{folder}/bin:{others}")
    assert (done.returncode, done.stdout) == (3, "cmocka.h\nzstd.h\n")
    assert "there is no apt-get here" in done.stderr
    assert "apt-get install" not in done.stderr


def test_a_python_that_has_torch_comes_first(folder: Path) -> None:
    answer = "*metadata*) printf '/site\\n2.9.0\\n' ;;\n*_base"
    pretend(folder / "bin/python3.11", PYTHON)
    pretend(folder / "bin/python3.12", PYTHON.replace("3.11", "3.12").replace("*_base", answer, 1))
    said = set_up(folder, PYTHON="", PYENV_ROOT="/nowhere").stderr.splitlines()[0]
    assert said == f"Python 3.12: {folder}/bin/python3.12, with torch 2.9.0 of /site"


def test_sudo_installs_what_is_missing_and_nothing_else(folder: Path) -> None:
    asked = folder / "asked"
    pretend(folder / "bin/sudo", f'#!/bin/sh\necho "$*" >>{asked}\n')
    set_up(folder)
    assert asked.read_text().splitlines()[1:] == [
        "-n apt-get update",
        "-n env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
        " libcmocka-dev libzstd-dev",
    ]


def test_an_install_that_fails_ends_with_3(folder: Path) -> None:
    pretend(
        folder / "bin/sudo", '#!/bin/sh\nif [ "$2" = env ]; then echo no network; exit 100; fi\n'
    )
    done = set_up(folder)
    assert done.returncode == 3
    assert "no network" in done.stderr
    assert "could not run: apt-get install" in done.stderr


def test_the_python_in_use_is_printed(folder: Path) -> None:
    assert f"Python 3.11: {folder}/bin/python\n" in set_up(folder).stderr


INSTALLER = """#!/bin/sh
case "$2" in
*_base_executable*) echo "$0" ;;
*version_info*) echo 3.11 ;;
*get_path*) dirname "$0" ;;
venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
pip) printf 'Collecting numpy\\n  Downloading numpy-9.whl (5M)\\nUsing cached other\\n'; exit %d ;;
esac
"""


@pytest.mark.parametrize("fails", [0, 1])
def test_each_package_is_named_while_it_is_installed(folder: Path, fails: int) -> None:
    pretend(folder / "bin/python", INSTALLER % fails)
    pretend(folder / "bin/compiler", "#!/bin/sh\n")
    (folder / "tests").mkdir()
    (folder / "tests/requirements.txt").write_text("numpy\n")
    done = set_up(folder)
    shown = done.stderr.splitlines()
    assert any(line.endswith("s  Collecting numpy") for line in shown), done.stderr
    assert any(line.endswith("s  Downloading numpy-9.whl (5M)") for line in shown)
    assert ("Using cached other" in shown) == bool(fails)  # all of it when it failed
    assert ("pip could not install" in done.stderr) == bool(fails)


@pytest.mark.parametrize("word", ["nonsense", "--all"])
def test_a_command_that_is_not_there_is_a_usage_error(folder: Path, word: str) -> None:
    done = subprocess.run([folder / "dev", word], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"no command '{word}'" in done.stderr
