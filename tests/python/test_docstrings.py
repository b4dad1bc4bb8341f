"""Every public name says what it takes, returns and raises, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

FRONT_ENDS = ("flow", "monitor", "operators", "spy", "trace", "track")
PACKAGES = ("tensortap", *(f"tensortap.{name}" for name in FRONT_ENDS))
NO_CODE = {"__version__", "logger"}  # a text and a logging.Logger


def public_names() -> list[tuple[str, str]]:
    """Return (package, name) of everything public; of a thing with two names the first."""
    found: dict[int, tuple[str, str]] = {}
    for package in PACKAGES:
        for name in importlib.import_module(package).__all__:
            if name not in NO_CODE:
                found.setdefault(id(lookup(package, name)), (package, name))
    return list(found.values())


def lookup(package: str, name: str) -> Any:
    return getattr(importlib.import_module(package), name)


def parameters(thing: Any) -> list[str]:
    try:
        names = list(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return []
    return [name for name in names if name != "iterable"]  # of list, dict and tuple


NAMES = public_names()
IDS = [f"{package}.{name}" for package, name in NAMES]


@pytest.mark.parametrize(("package", "name"), NAMES, ids=IDS)
def test_a_public_name_has_a_docstring_in_the_form_of_google(package: str, name: str) -> None:
    thing = lookup(package, name)
    text = inspect.getdoc(thing) or ""
    first = text.split("\n", 1)[0]
    assert re.match(r"[A-Z`].*[.:]$", first), f"no summary line: {first!r}"
    assert not re.match(r"Gives? ", first), "write 'Return …'"
    assert re.search(r"^Example:\n    >>> ", text, re.MULTILINE), "no Example:"
    is_error = isinstance(thing, type) and issubclass(thing, BaseException)
    lists = re.findall(r"^    ([\w*]+(?:, [\w*]+)*): ", text, re.MULTILINE)
    described = {name.strip(" *") for names in lists for name in names.split(",")}
    missing = set() if is_error else set(parameters(thing)) - described
    assert not missing, f"Args: lacks {sorted(missing)}"
    if not isinstance(thing, type) and callable(thing):
        returns = getattr(thing, "__annotations__", {}).get("return")
        if returns not in (None, "None"):
            assert re.search(r"^(Returns|Yields):\n", text, re.MULTILINE), "no Returns:"


@pytest.mark.parametrize(("package", "name"), NAMES, ids=IDS)
def test_the_example_of_a_public_name_runs(
    package: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(lookup(package, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    printed: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(example, out=printed.append)
    assert runner.failures == 0, "".join(printed)
