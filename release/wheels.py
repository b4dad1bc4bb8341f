"""Build the wheels and the source archive into dist/.

    ./dev wheels [VERSION...]      all, or those of some Pythons: 3.11 3.14

zig compiles for both architectures against glibc 2.28; the libraries are compiled from Debian's
source packages and linked statically, so that a wheel needs nothing.  The headers of a Python
come from Debian's packages, or from an installed Python where Debian has none of this version.
The same commit gives the same bytes, in whatever folder and at whatever time it is built.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import hardening
import readme
import sbom
import ziglang
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from debian import Archive
from libraries import LIBRARIES, OFFER, licenses

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build" / "wheels"
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
GLIBC = (2, 28)
MOST = 4_000_000  # bytes of a wheel
ZIG = Path(ziglang.__file__).parent / "zig"
NO_FOLDER = f"-ffile-prefix-map={ROOT}=."  # the path of the tree is in no byte
FLAGS = [
    "-O3",
    "-fPIC",
    "-ffunction-sections",
    "-fvisibility=hidden",
    "-fno-sanitize=undefined",
    "-DNDEBUG",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    NO_FOLDER,
]


def target(machine: str) -> str:
    """Return what zig calls the oldest system that a wheel is for."""
    return f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"


def git(*words: str) -> str:
    """Return what git says about the tree."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(*command: str | Path, **options: object) -> None:
    """Run a command; end with what it printed if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(str(word) for word in command)}")


# ---- libraries ------------------------------------------------------------------


def compile_library(
    name: str, source: Path, sources: Iterable[str], prefix: Path, machine: str
) -> None:
    """Compile one library into prefix/lib/<name>.a."""
    paths = sorted(path for pattern in sources for path in source.glob(pattern))
    objects = prefix / "objects" / name
    objects.mkdir(parents=True)
    # All at once: the compiler starts once.
    run(ZIG, "cc", "-target", target(machine), *FLAGS, f"-I{source}", "-c", *paths, cwd=objects)
    (prefix / "lib").mkdir(exist_ok=True)
    run(ZIG, "ar", "rcs", prefix / "lib" / f"{name}.a", *sorted(objects.glob("*.o")))


def configure_library(name: str, source: Path, prefix: Path, machine: str) -> None:
    """Build libmicrohttpd, which has a configure script, into prefix/lib/<name>.a."""
    folder = prefix / "objects" / name
    folder.mkdir(parents=True)
    off = ["https", "curl", "doc", "examples", "tools", "bauth", "dauth", "postprocessor"]
    off += ["httpupgrade", "shared"]
    run(
        *(source / "configure", f"--host={machine}-linux-gnu", "--enable-static"),
        *(f"--disable-{feature}" for feature in off),
        f"CC={ZIG} cc -target {target(machine)}",
        *(f"AR={ZIG} ar", f"RANLIB={ZIG} ranlib", f"CFLAGS={' '.join(FLAGS)}"),
        cwd=folder,
    )
    # Debian patches Makefile.am; what it generates is there already.
    idle = [f"{tool}=:" for tool in ("ACLOCAL", "AUTOCONF", "AUTOHEADER", "AUTOMAKE")]
    run("make", "-s", "-C", folder / "src/microhttpd", *idle, "libmicrohttpd.la")
    (prefix / "lib").mkdir(exist_ok=True)
    shutil.copy(folder / "src/microhttpd/.libs/libmicrohttpd.a", prefix / "lib")


def make_libraries(archive: Archive, machine: str) -> Path:
    """Return a folder with the headers, the archives and the pkg-config files of all libraries."""
    prefix = BUILD / f"libraries-{machine}"
    wanted = hashlib.sha256(repr((LIBRARIES, FLAGS, target(machine))).encode()).hexdigest()
    if (prefix / "complete").exists() and (prefix / "complete").read_text() == wanted:
        return prefix
    shutil.rmtree(prefix, ignore_errors=True)
    (prefix / "include").mkdir(parents=True)
    (prefix / "pkgconfig").mkdir()
    (prefix / "licenses").mkdir()
    for name, one in LIBRARIES.items():
        folder = BUILD / "sources" / f"{name}-{one.version}"
        source = archive.source(name, one.version, one.sha256, folder)
        print(f"{name} {one.version} for {machine}", flush=True)
        for header in one.headers:
            shutil.copy(source / header, prefix / "include")
        shutil.copy(source / one.text, prefix / "licenses" / f"{name}.txt")
        if one.sources == ["configure"]:
            configure_library(name, source, prefix, machine)
        elif one.sources:
            compile_library(name, source, one.sources, prefix, machine)
        (prefix / "pkgconfig" / f"{name}.pc").write_text(
            f"Name: {name}\nDescription: {name}\nVersion: {one.upstream}\n"
            f"Cflags: -I{prefix}/include\n"
            + (f"Libs: {prefix}/lib/{name}.a\n" if one.sources else "")
        )
    (prefix / "complete").write_text(wanted)
    return prefix


# ---- Python ---------------------------------------------------------------------


def find_headers(archive: Archive, version: str, machine: str) -> Path | None:
    """Return a folder with Python.h and the pyconfig.h of this machine."""
    package, debian = f"libpython{version}-dev", MACHINES[machine]
    folder = BUILD / f"python-{version}-{machine}"
    if (folder / "Python.h").exists():
        return folder
    if archive.has(package):
        files = (
            archive.unpack(package, debian, BUILD / f"unpacked-{version}-{machine}") / "usr/include"
        )
        shutil.copytree(files / f"python{version}", folder, dirs_exist_ok=True)
        shutil.copy(files / f"{machine}-linux-gnu/python{version}/pyconfig.h", folder)
        return folder
    # pyconfig.h of both machines says the same about all that the headers ask for.
    code = (
        "import sys, sysconfig as s; print(s.get_path('include'), '%d.%d' % sys.version_info[:2])"
    )
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in [f"python{version}", *map(str, pyenv.glob(f"{version}.*/bin/python"))]:
        try:
            found = subprocess.run(
                [python, "-c", code], capture_output=True, text=True
            ).stdout.split()
        except OSError:
            continue
        if found[1:] == [version] and (Path(found[0]) / "Python.h").exists():
            return Path(shutil.copytree(found[0], folder, dirs_exist_ok=True))
    return None


def extension_suffix(version: str, machine: str) -> str:
    """Return how the name of an extension for this Python ends."""
    return f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so"


def describe_python(version: str, machine: str, headers: Path) -> Path:
    """Write the build-details.json (PEP 739) of a Python that is not here; return its path."""
    path = BUILD / f"python-{version}-{machine}.json"
    path.write_text(
        json.dumps(
            {
                "schema_version": "1.0",
                "base_prefix": "/usr",
                "platform": f"linux-{machine}",
                "language": {"version": version},
                "implementation": {"name": "cpython"},
                "abi": {
                    "flags": [],
                    "extension_suffix": extension_suffix(version, machine),
                    "stable_abi_suffix": ".abi3.so",
                },
                "libpython": {"link_extensions": False},
                "c_api": {"headers": str(headers)},
            }
        )
    )
    return path


# ---- wheels ---------------------------------------------------------------------


def write_cross_file(machine: str, prefix: Path) -> Path:
    """Write the file that names compiler and machine to Meson; return it."""
    path = BUILD / f"{machine}.ini"
    path.write_text(
        f"[binaries]\nc = ['{ZIG}', 'cc', '-target', '{target(machine)}']\nar = ['{ZIG}', 'ar']\n"
        f"pkg-config = 'pkg-config'\n"
        f"[properties]\npkg_config_libdir = '{prefix}/pkgconfig'\n"
        "[built-in options]\n"
        f"c_args = ['-fno-sanitize=undefined', '-I{prefix}/include', '{NO_FOLDER}']\n"
        "c_link_args = ['-s']\n"
        f"[host_machine]\nsystem = 'linux'\ncpu_family = '{machine}'\ncpu = '{machine}'\n"
        "endian = 'little'\n"
    )
    return path


def finish(wheel: Path, version: str, machine: str, texts: Path) -> Path:
    """Set the tag of the wheel; add licences, the bill of materials and links that work."""
    tag = f"cp{version.replace('.', '')}"
    platform = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
    folder = wheel.parent / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "wheel", "unpack", wheel, "-d", folder)
    (content,) = folder.iterdir()
    (about,) = content.glob("*.dist-info")
    own = about.name.removesuffix(".dist-info").removeprefix("tensortap-")
    text = (about / "WHEEL").read_text()
    (about / "WHEEL").write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}-{tag}-{platform}", text))
    shutil.copytree(texts, about / "licenses" / "linked")
    (about / "licenses/linked/libmicrohttpd-source.txt").write_text(offer(own))
    describe_licenses(about / "METADATA", about / "licenses/linked", own)
    (about / "sboms").mkdir()
    name = f"tensortap-{own}-{tag}-{tag}-{platform}.whl"
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    bill = sbom.bill(name, own, git("rev-parse", "HEAD"), epoch)
    (about / "sboms/tensortap.cdx.json").write_text(bill)
    for path in content.rglob("*"):  # whatever the umask
        runs = path.is_dir() or "scripts" in path.parts or path.suffix == ".so"
        path.chmod(0o755 if runs else 0o644)
    run(sys.executable, "-m", "wheel", "pack", content, "-d", DIST)
    return DIST / name


def offer(version: str) -> str:
    """Return what a receiver of libmicrohttpd must be told."""
    one = LIBRARIES["libmicrohttpd"]
    authors = readme.project()["authors"]
    assert isinstance(authors, list)
    return OFFER.format(
        version=one.upstream,
        debian=one.version,
        tensortap=version,
        address=readme.source(),
        email=authors[0]["email"],
    )


def describe_licenses(metadata: Path, linked: Path, version: str) -> None:
    """Name all licences in the metadata, and let the links of the description lead somewhere."""
    head, _, page = metadata.read_text(encoding="utf-8").partition("\n\n")
    head = re.sub(r"(?m)^License-Expression: .*$", f"License-Expression: {licenses()}", head)
    more = "".join(f"\nLicense-File: linked/{path.name}" for path in sorted(linked.iterdir()))
    last = [found.end() for found in re.finditer(r"(?m)^License-File: .*$", head)][-1]
    head = head[:last] + more + head[last:]
    text = f"{head}\n\n{readme.with_addresses(page, version)}"
    metadata.write_text(text, encoding="utf-8")


def check(wheel: Path, version: str, machine: str) -> str:
    """Return what is wrong with a wheel; empty: nothing."""
    extension = f"tensortap/_core{extension_suffix(version, machine)}"
    with zipfile.ZipFile(wheel) as content:
        found = [name for name in content.namelist() if name.endswith(".so")]
    if found != [extension]:
        return f"its extensions are {found}, not {extension}"
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True
    ).stdout
    oldest = re.search(r'"manylinux_(\d+)_(\d+)_(\w+)"', shown.replace("\n", " "))
    if oldest is None or (int(oldest[1]), int(oldest[2])) > GLIBC or oldest[3] != machine:
        return f"auditwheel says: {shown}"
    with zipfile.ZipFile(wheel) as content:
        (program,) = (name for name in content.namelist() if name.endswith("scripts/tensortap"))
        content.extract(program, BUILD / "checked")
        content.extract(extension, BUILD / "checked")
        (bill,) = (name for name in content.namelist() if "/sboms/" in name)
        wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.read(bill).decode())
    if wrong is not None:
        return f"{bill}: {wrong}"
    for path in (program, extension):
        if lacks := hardening.missing(BUILD / "checked" / path, BUILD / f"build-{machine}"):
            return f"{path} lacks {', '.join(lacks)}"
    if wheel.stat().st_size > MOST:
        return f"{wheel.stat().st_size} bytes are more than {MOST}"
    return ""


def build(version: str, machine: str, headers: Path, prefix: Path) -> Path:
    """Build one wheel; return it."""
    out = BUILD / f"wheel-{version}-{machine}"
    shutil.rmtree(out, ignore_errors=True)
    objects = BUILD / f"build-{machine}"  # of all Pythons: only the extension is compiled again
    if objects.exists():  # Meson would go on with the headers of the last Python
        run(sys.executable, "-m", "mesonbuild.mesonmain", "configure", "--clearcache", objects)
    setup = [
        f"--cross-file={write_cross_file(machine, prefix)}",
        f"-Dpython.build_config={describe_python(version, machine, headers)}",
    ]
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT),
        *(f"-Csetup-args={argument}" for argument in setup),
        f"-Cbuild-dir={objects}",
        f"-Ccompile-args=-j{os.environ.get('JOBS', os.cpu_count())}",
    )
    (wheel,) = out.glob("*.whl")
    return finish(wheel, version, machine, prefix / "licenses")


def main() -> int:
    """Build everything; return the exit code."""
    versions = sys.argv[1:] or PYTHONS
    archive = Archive(ROOT / ".build" / "debian")
    DIST.mkdir(exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = git("log", "-1", "--format=%ct")
    os.environ["PYTHONHASHSEED"] = "0"
    wrong = 0
    for machine in MACHINES:
        prefix = make_libraries(archive, machine)
        for version in versions:
            headers = find_headers(archive, version, machine)
            if headers is None:
                print(f"Python {version}: no headers in Debian and none installed")
                wrong += 1
                continue
            wheel = build(version, machine, headers, prefix)
            problem = check(wheel, version, machine)
            wrong += problem != ""
            print(f"{wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB  {problem}", flush=True)
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", DIST, ROOT)
    print(*sorted(path.name for path in DIST.glob("*.tar.gz")))
    one = LIBRARIES["libmicrohttpd"]
    (DIST / "sources").mkdir(exist_ok=True)  # what libmicrohttpd-source.txt promises
    for part in archive.parts("libmicrohttpd", one.version):
        shutil.copy(part, DIST / "sources")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
