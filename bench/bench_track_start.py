"""What `tensortap.pth` costs every start of Python while TENSORTAP_TRACK is not set.

That file lets TENSORTAP_TRACK work without an import; the `site` module reads it.
"""

import os
import site
from importlib.metadata import files
from pathlib import Path

import harness


def main():
    os.environ.pop("TENSORTAP_TRACK", None)
    (path,) = (Path(f.locate()) for f in files("tensortap") if f.name == "tensortap.pth")
    folder, name = str(path.parent), path.name
    call = harness.per_call(lambda: site.addpackage(folder, name, set()), loops=500)
    harness.row("track: a start of Python", call * 1e3, 0.2, unit="ms more", at_most=True)


main()
