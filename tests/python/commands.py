"""Start the `tensortap` program that is installed beside this Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
PROGRAM = Path(sys.executable).parent / "tensortap"


def tensortap(
    *arguments: object, folder: Path, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder; torch with one thread."""
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,  # a busy machine
    )


def answer(*arguments: object, folder: Path) -> Any:
    """Give what the program answers as JSON; it must not fail."""
    done = tensortap(*arguments, "--json", folder=folder)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def check_schema(answered: Any, name: str) -> None:
    """Validate an answer with its JSON Schema in docs/schemas."""
    jsonschema, referencing = (pytest.importorskip(x) for x in ("jsonschema", "referencing"))
    schemas = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    registry = referencing.Registry().with_resources(
        (file, referencing.Resource.from_contents(schema)) for file, schema in schemas.items()
    )
    jsonschema.Draft202012Validator(schemas[f"{name}.json"], registry=registry).validate(answered)
