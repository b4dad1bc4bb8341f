"""What is linked into a wheel or embedded in it: versions and hashes, each in this one place.

The sources are those of Debian's stable releases, whose archive keeps them.  A .dsc file names the
hashes of all parts of a source package, so its own hash pins them all.  Another version than the
one that is named here is an error: change the number and the hash, read what is new, try it.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "web"))
import embed  # noqa: E402 -- the version and the hash of uPlot


class Library(NamedTuple):
    """A library whose source is compiled into every wheel."""

    version: str  # of Debian's source package
    sha256: str  # of its .dsc
    sources: list[str]  # globs; empty: a header alone
    headers: list[str]
    text: str  # the file with its licence
    license: str  # as SPDX has it
    home: str

    @property
    def upstream(self) -> str:
        """The version as its authors count."""
        (number,) = re.findall(r"^(?:\d+:)?([\d.]+)", self.version)
        return str(number)


LIBRARIES = {
    "libzstd": Library(
        "1.5.7+dfsg-1",
        "8f6ab97fa772d921334e50fa5756a0951e23c718dc913e43a228f28c1a23adf9",
        ["lib/common/*.c", "lib/compress/*.c", "lib/decompress/*.[cS]"],
        ["lib/zstd.h", "lib/zstd_errors.h"],
        "LICENSE",
        "BSD-3-Clause",
        "https://github.com/facebook/zstd",
    ),
    "libdeflate": Library(  # 1.23 is in the lists, but not every mirror has its files
        "1.14-1",
        "1f82791c5ac5623ed110e09cc991471deebfe4c419414392d1242e122c6f4c19",
        ["lib/*.c", "lib/*/*.c"],
        ["libdeflate.h"],
        "COPYING",
        "MIT",
        "https://github.com/ebiggers/libdeflate",
    ),
    "libmicrohttpd": Library(
        "1.0.1-4",
        "4c5ee2a49beb5b9b667fa6816acdc99f3fb0686b6abdfbe1303e304128cff055",
        ["configure"],
        ["src/include/microhttpd.h"],
        "COPYING",
        "LGPL-2.1-or-later",
        "https://www.gnu.org/software/libmicrohttpd/",
    ),
    "xxhash": Library(
        "0.8.3-2",
        "9d1f7aaace7871fbdb8775d756c6eaca84e6ad5d8e9c6ac465b7e0adc06ff90c",
        [],
        ["xxhash.h"],
        "LICENSE",
        "BSD-2-Clause",
        "https://github.com/Cyan4973/xxHash",
    ),
}
UPLOT = (embed.UPLOT_VERSION, embed.UPLOT_SHA256["uPlot.iife.js"], "MIT")

OFFER = """\
The program `tensortap` in this package contains libmicrohttpd {version}, which is free software
under the GNU Lesser General Public License, version 2.1 or later (libmicrohttpd.txt). It is linked
statically.

You may change libmicrohttpd and link the program again:
  - its complete source is published beside this package, in the folder `sources` of the release
    {tensortap} ({address}): the files libmicrohttpd_{version}*.
    It is the source package {debian} of Debian, unchanged; the SBOM in this package has its hash;
  - the source of tensortap, with the scripts that compile and link both, is the archive
    tensortap-{tensortap}.tar.gz: `./dev wheels` builds this package again.

For three years from the day you received it we also send the source of libmicrohttpd to anybody who
asks, for no more than what sending costs: {email}.
"""


def licenses() -> str:
    """Return the licence expression of a wheel: ours, and that of all that is in it."""
    others = {one.license for one in LIBRARIES.values()} | {UPLOT[2]}
    return " AND ".join(["Apache-2.0", *sorted(others)])
