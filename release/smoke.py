"""Install the wheels of dist/ into bare systems and try them.

    ./dev wheels --check [VERSION...]

x86-64: a Debian with nothing but its Python, made by debootstrap.  No Debian has 3.12: the one that
is installed here is copied into the Debian of 3.11.  AArch64: the files of such a Debian, run by
qemu-user.  Each wheel is tried without and with NumPy; that of 3.11 also with torch.
Needs root, for chroot.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from debian import address

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build" / "smoke"
SUITES = {"3.11": "bookworm", "3.12": "bookworm", "3.13": "trixie", "3.14": "sid", "3.15": "sid"}
COPIED = "3.12"  # in no Debian
EMULATED = ("3.11", "3.13")
INSTALL, IMPORT = 5.0, 50.0  # the most: seconds, milliseconds


def run(*command: str | Path) -> str:
    """Run a command; return its output, or end with it if it fails."""
    words = [str(word) for word in command]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def processor_time() -> float:
    """Return the seconds that commands have taken so far, however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wheel_of(version: str, machine: str) -> Path:
    """Return the wheel of a Python."""
    tag = version.replace(".", "")
    found = sorted((ROOT / "dist").glob(f"*-cp{tag}-*_{machine}.whl"))
    if not found:
        raise RuntimeError("there is no wheel; run ./dev wheels first")
    return found[-1]


def download(version: str, machine: str, *packages: str) -> Path:
    """Return a folder with wheels of other packages for that Python."""
    folder = BUILD / f"packages-{version}-{machine}"
    marks = [folder / f".{package}" for package in packages]
    if not all(mark.exists() for mark in marks):
        platforms = [f"manylinux_2_{minor}_{machine}" for minor in (28, 27, 17)]
        platforms.append(f"manylinux2014_{machine}")
        run(
            *(sys.executable, "-m", "pip", "download", "-q", "-d", folder, "--only-binary=:all:"),
            *("--python-version", version, "--implementation", "cp"),
            *(word for name in platforms for word in ("--platform", name)),
            *packages,
        )
        for mark in marks:
            mark.touch()
    return folder


def make_root(suite: str, machine: str, versions: list[str]) -> Path:
    """Return the folder of a bare Debian with these Pythons."""
    folder = BUILD / f"{suite}-{machine}"
    if (folder / ".complete").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    packages = [f"python{one}{end}" for one in versions if one != COPIED for end in ("", "-venv")]
    if "3.11" in versions:
        packages.append("python3-distutils")  # provides what python3.11-venv depends on
    is_foreign = machine != "x86_64"
    run(
        *("debootstrap", "--variant=minbase", f"--include={','.join(packages)}"),
        *(["--foreign", "--arch=arm64"] if is_foreign else []),
        *(suite, folder, address()),
    )
    if is_foreign:  # its programs cannot run here, so nothing is configured: the files are enough
        for deb in (folder / "var/cache/apt/archives").glob("*.deb"):
            run("dpkg-deb", "-x", deb, folder)
    (folder / ".complete").touch()
    return folder


def copy_python(version: str, root: Path) -> str:
    """Copy a Python of this machine to the same path in a bare system; return that path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for home in pyenv.glob(f"{version}.*"):
        shutil.copytree(
            home,
            root / home.relative_to("/"),
            symlinks=True,
            ignore=shutil.ignore_patterns("test", "site-packages", "__pycache__"),
            dirs_exist_ok=True,
        )
        return f"{home}/bin/python{version}"
    raise RuntimeError(f"Debian has no Python {version}, and {pyenv} has none either")


def try_wheel(version: str, machine: str) -> str:
    """Install one wheel and run the smoke program; return what was measured."""
    wheel = wheel_of(version, machine)
    extras = ["numpy", "torch==2.13.0"] if (version, machine) == ("3.11", "x86_64") else ["numpy"]
    packages = download(version, machine, *extras)
    code = Path(__file__).with_name("smoke_program.py")
    if machine != "x86_64":
        return try_emulated(version, machine, wheel, packages, code)
    suite = SUITES[version]
    root = make_root(suite, machine, [one for one in SUITES if SUITES[one] == suite])
    python = copy_python(version, root) if version == COPIED else f"/usr/bin/python{version}"
    work, home, before = root / "smoke", "/smoke", ["chroot", root]
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for path in (wheel, code):
        shutil.copy(path, work)
    shutil.copytree(packages, work / "packages")
    run(*before, python, "-m", "venv", f"{home}/env")
    own = f"{home}/env/bin/python"
    pip = [*before, own, "-m", "pip", "install", "-q", "--no-index"]
    installed = -processor_time()
    run(*pip, f"{home}/{wheel.name}")
    installed += processor_time()
    words = [own, f"{home}/{code.name}", f"{home}/env/bin/tensortap"]
    run(*before, *words, "none")
    times = [float(run(*before, *words, "none")) for _ in range(3)]
    if (work / "env/bin/tensortap").read_bytes()[:4] != b"\x7fELF":
        raise RuntimeError("env/bin/tensortap is not the C program")
    for extra in extras:
        run(*pip, "--find-links", f"{home}/packages", extra)
        run(*before, *words, "numpy", "line", *(["torch"] if extra.startswith("torch") else []))
    outlive([*before, own], pip, home, work, wheel)
    left = list((work / "env").rglob("*tensortap*"))
    if left:
        raise RuntimeError(f"uninstalling leaves {left}")
    if installed > INSTALL or min(times) > IMPORT:
        raise RuntimeError(f"install {installed:.1f} s, import {min(times):.0f} ms")
    shutil.rmtree(work)
    tried = ", ".join(["bare", *extras])
    return f"{tried}; installed in {installed:.1f} s, imported in {min(times):.0f} ms"


RECORDS = """
import sys, time, pathlib, tensortap as tt
go = pathlib.Path(sys.argv[1])
with tt.record(sys.argv[2]) as run:
    for step in range(1000):
        run.log("loss", step)
        run.step()
        if step == 500:
            (go.parent / "ready").touch()
            while not go.exists():
                time.sleep(0.05)
"""


def make_older(wheel: Path, folder: Path) -> Path:
    """Return a copy of the wheel that calls itself version 0.0.1."""
    tool = [sys.executable, "-m", "wheel"]
    run(*tool, "unpack", wheel, "-d", folder / "older")
    (content,) = (folder / "older").iterdir()
    (about,) = content.glob("*.dist-info")
    text = (about / "METADATA").read_text()
    (about / "METADATA").write_text(re.sub(r"(?m)^Version: .*$", "Version: 0.0.1", text))
    about.rename(content / "tensortap-0.0.1.dist-info")
    run(*tool, "pack", content, "-d", folder)
    (made,) = folder.glob("tensortap-0.0.1-*.whl")
    return made


def outlive(
    own: list[str | Path], pip: list[str | Path], home: str, work: Path, wheel: Path
) -> None:
    """Downgrade, upgrade and remove the package while a program records: its run is complete."""
    (work / "records.py").write_text(RECORDS)
    program = f"{home}/env/bin/tensortap"
    older = make_older(wheel, work)
    words = [*own, f"{home}/records.py", f"{home}/go", f"{home}/run"]
    with subprocess.Popen([str(word) for word in words]) as recording:
        while not (work / "ready").exists() and recording.poll() is None:
            time.sleep(0.05)
        for name in (older.name, wheel.name):
            run(*pip, f"{home}/{name}")
            run(*own[:-1], program, "show", f"{home}/run")
        run(*own, "-m", "pip", "uninstall", "-q", "-y", "tensortap")
        (work / "go").touch()
        if recording.wait() != 0:
            raise RuntimeError("a program that recorded did not survive the removal of tensortap")
    run(*pip, f"{home}/{wheel.name}")
    run(*own[:-1], program, "check", f"{home}/run")
    run(*own, "-m", "pip", "uninstall", "-q", "-y", "tensortap")
    shutil.rmtree(work / "run")


def try_emulated(version: str, machine: str, wheel: Path, packages: Path, code: Path) -> str:
    """Do the same with the files of another machine's Debian, under qemu."""
    root = make_root(SUITES[version], machine, [version])
    target = BUILD / f"target-{version}-{machine}"
    shutil.rmtree(target, ignore_errors=True)
    pip = next((root / "usr/share/python-wheels").glob("pip-*.whl"))
    start = ["qemu-aarch64", "-L", root, "-E", f"PYTHONPATH={target}"]
    start.append(root / f"usr/bin/python{version}")
    program = f"qemu-aarch64 -L {root} {target}/bin/tensortap"
    install = [*start, f"{pip}/pip", "install", "-q", "--no-index", "--target", target]
    run(*install, wheel)
    run(*start, code, program, "none")
    run(*install, "--find-links", packages, "numpy")
    run(*start, code, program, "numpy", "line")
    return "bare, numpy; under qemu"


def main() -> int:
    """Try every wheel; return the exit code."""
    if os.geteuid() != 0:
        print("a bare system needs chroot, and that needs root")
        return 3
    wanted = sys.argv[1:] or list(SUITES)
    cases = [(version, "x86_64") for version in wanted]
    cases += [(version, "aarch64") for version in wanted if version in EMULATED]
    wrong = 0
    for version, machine in cases:
        try:
            said = try_wheel(version, machine)
        except (RuntimeError, OSError) as error:
            said = "FAILED: " + re.sub(r"\s+", " ", str(error))[:2000]
            wrong += 1
        print(f"{version} {machine}: {said}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
