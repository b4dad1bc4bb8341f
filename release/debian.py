"""Debian packages of several suites and architectures, without touching the machine's own.

The address comes from the machine's apt configuration, so that a mirror which is set there is
used here.  Lists and downloads stay in one folder.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

SUITES = ("bookworm", "trixie", "sid")
ARCHITECTURES = ("amd64", "arm64")


def address() -> str:
    """Return where this machine gets Debian's packages from."""
    files = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    for path in files:
        found = re.search(
            r"(https?://\S+/debian)/?(?=\s|$)", path.read_text() if path.is_file() else ""
        )
        if found:
            return found[1]
    sys.exit("no Debian archive in /etc/apt: the sources of the libraries cannot be had here")


class Archive:
    """The packages of all suites."""

    def __init__(self, folder: Path) -> None:
        """Fetch the lists of packages, once."""
        self.folder = folder
        self.downloads = folder / "downloads"
        for name in ("lists/partial", "cache/archives/partial", "parts", "downloads"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "parts" / "debian.sources").write_text(
            f"Types: deb deb-src\nURIs: {address()}\nSuites: {' '.join(SUITES)}\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        )
        listed = " ".join(f'"{name}";' for name in ARCHITECTURES)
        (folder / "apt.conf").write_text(
            f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{folder}/parts";\n'
            f'Dir::State::Lists "{folder}/lists";\nDir::Cache "{folder}/cache";\n'
            f'APT::Architectures {{ {listed} }};\nAPT::Sandbox::User "root";\n'
        )
        if not any((folder / "lists").glob("*_Sources*")):
            self.apt("apt-get", "update", "-qq")

    def apt(self, *command: str) -> str:
        """Run a command of apt in the downloads; return what it printed."""
        done = subprocess.run(
            command,
            cwd=self.downloads,
            env={**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def has(self, package: str) -> bool:
        """Return whether any suite has this package."""
        return package in self.apt("apt-cache", "pkgnames", package).split()

    def source(self, name: str, version: str, sha256: str, to: Path) -> Path:
        """Unpack exactly this source package; return its folder."""
        if to.exists():
            return to
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.apt("apt-get", "source", "-qq", "--download-only", f"{name}={version}")
        except RuntimeError as error:
            sys.exit(f"{error}\nno suite of {', '.join(SUITES)} delivers {name} {version}")
        (about,) = self.parts(name, version, ".dsc")
        found = hashlib.sha256(about.read_bytes()).hexdigest()
        if found != sha256:
            sys.exit(f"{about.name} has the hash {found}, and {sha256} is expected")
        # It compares the other parts with the hashes in this file.
        unpack = ["dpkg-source", "-x", str(about), str(to)]
        subprocess.run(unpack, check=True, capture_output=True)
        return to

    def parts(self, name: str, version: str, end: str = "") -> list[Path]:
        """Return the downloaded files of a source package."""
        upstream = version.rpartition("-")[0]
        return sorted(
            path
            for path in self.downloads.glob(f"{name}_{upstream}[.-]*{end}")
            if path.name.startswith((f"{name}_{version}.", f"{name}_{upstream}.orig"))
        )

    def unpack(self, package: str, architecture: str, to: Path) -> Path:
        """Unpack the files of a binary package into a folder; return it."""
        self.apt("apt-get", "download", "-qq", f"{package}:{architecture}")
        for deb in self.downloads.glob(f"{package}_*_{architecture}.deb"):
            subprocess.run(["dpkg-deb", "-x", str(deb), str(to)], check=True)
            deb.unlink()
        return to
