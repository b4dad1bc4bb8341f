"""The public interface as a list of facts, and how it differs from that of the last release.

    .venv/bin/python tests/interface.py            say what has changed since the release
    .venv/bin/python tests/interface.py --write    make this one the released interface

A fact is a line: a public Python name or parameter, a declaration of tensortap.h, a command or an
option of it, a property of a JSON schema.  A new fact breaks nobody's program.  One that is gone or
that says something else may; CHANGELOG.md must name it under [Unreleased].
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tensortap

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import make_site  # noqa: E402 -- it knows what is public, and what the stubs say

RELEASED = ROOT / "tests/golden/interface.txt"
REQUIRED = "required"
Fact = tuple[str, str]  # its name, and what it says


def of_python() -> Iterator[Fact]:
    """Yield the names of all public packages, and the parameters of functions."""
    for package in make_site.packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, ModuleType) or name.startswith("__"):
                continue
            key = f"python {package}.{name}"
            yield from of_callable(key, name, thing)
            if isinstance(thing, type) and thing.__module__.startswith("tensortap"):
                for member, value in make_site.members(thing):
                    inner = getattr(value, "__func__", value)
                    yield from of_callable(f"{key}.{member}", f"{name}.{member}", inner)


def of_callable(key: str, name: str, thing: Any) -> Iterator[Fact]:
    """Yield what kind of thing it is, and each parameter with its default."""
    is_class = isinstance(thing, type)
    if not callable(thing):
        yield key, "attribute"
        return
    yield key, "class" if is_class else "function"
    if is_class and issubclass(thing, BaseException):
        return
    written = make_site.signature(thing, name)
    while (plain := re.sub(r"<[^<>]*>", "...", written)) != written:  # <object at 0x...>
        written = plain
    if not written:
        return  # a class of C that nobody makes
    (made,) = ast.parse(f"def f{written}: ...").body
    assert isinstance(made, ast.FunctionDef)
    given = made.args
    places = [*given.posonlyargs, *given.args]
    late: list[ast.expr | None] = [None] * (len(places) - len(given.defaults)) + [*given.defaults]
    for number, (one, default) in enumerate(zip(places, late, strict=True)):
        name_counts = "" if one in given.posonlyargs else " or by name"
        yield f"{key}({one.arg})", f"place {number}{name_counts}, {said_of(default)}"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield f"{key}({one.arg})", f"by name, {said_of(default)}"
    for stars, more in (("*", given.vararg), ("**", given.kwarg)):
        if more is not None:
            yield f"{key}({stars})", "any number"


def said_of(default: ast.expr | None) -> str:
    """Return what a parameter's default is."""
    return REQUIRED if default is None else f"default {ast.unparse(default)}"


def of_header() -> Iterator[Fact]:
    """Yield the declarations of tensortap.h, as the preprocessor leaves them."""
    header = ROOT / "include/tensortap.h"
    command = ["cc", "-std=c11", "-E", "-dD", "-x", "c", str(header)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text, is_ours = "", False
    for line in printed.splitlines():
        if mark := re.match(r'# \d+ "(.*?)"', line):
            is_ours = mark[1] == str(header)
        elif is_ours and (macro := re.match(r"#define (TT_\w+) (.+)", line)):
            if macro[1] != "TT_VERSION":
                yield f"c {macro[1]}", macro[2]
        elif is_ours and not line.startswith("#"):
            text += f" {line}"
    for declaration in statements(text):
        yield from of_declaration(declaration)


def statements(text: str) -> Iterator[str]:
    """Yield what ends with a semicolon outside of braces, with single spaces."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield " ".join(text[start:at].split())
            start = at + 1


def of_declaration(text: str) -> Iterator[Fact]:
    """Yield a function, a type with its members, or an enumeration with its values."""
    if found := re.fullmatch(r"(?:typedef )?enum (\w+ )?\{(.*)\}( \w+)?", text):
        value = -1
        for row in filter(None, map(str.strip, found[2].split(","))):
            name, _, given = row.partition("=")
            value = int(given.strip(" ()"), 0) if re.fullmatch(r"[\s()\d-]+", given) else value + 1
            if not name.strip().endswith("_COUNT_"):
                yield f"c {name.strip()}", given.strip() if "<<" in given else str(value)
    elif found := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \w+", text):
        for number, member in enumerate(statements(found[2])):
            yield f"c {found[1]}.{number}", member
    else:
        named = re.search(r"(\w+)\s*\((?!\*)|\(\*(\w+)\)|(\w+)$", text)
        assert named is not None, text
        yield f"c {named[1] or named[2] or named[3]}", text


def of_command() -> Iterator[Fact]:
    """Yield the commands and their options."""

    def said(*words: str) -> str:
        done = subprocess.run(["tensortap", *words], capture_output=True, text=True, check=True)
        return done.stdout

    for name in re.findall(r"^  (\w+) ", said("--help"), re.MULTILINE):
        yield f"command {name}", "command"
        for option in re.findall(r"^ +(?:-\w, )?(--[\w-]+)", said(name, "--help"), re.MULTILINE):
            yield f"command {name} {option}", "option"


def of_schemas() -> Iterator[Fact]:
    """Yield what the schemas of JSON answers promise, without the prose."""

    def walk(key: str, node: Any) -> Iterator[Fact]:
        if isinstance(node, dict):
            for name, inner in node.items():
                if name not in ("description", "title", "$schema") or isinstance(inner, dict):
                    yield from walk(f"{key} {name}", inner)
        elif isinstance(node, list):
            for inner in node:
                if isinstance(inner, (dict, list)):
                    yield from walk(f"{key} any", inner)
                else:
                    yield f"{key} {inner}", "listed"
        else:
            yield key, str(node)

    for path in sorted((ROOT / "docs/schemas").glob("*.json")):
        yield from walk(f"schema {path.stem}", json.loads(path.read_text(encoding="utf-8")))


def listing() -> dict[str, str]:
    """Return the interface as it is now."""
    found: dict[str, str] = {}
    for name, said in (*of_python(), *of_header(), *of_command(), *of_schemas()):
        found[name] = f"{found[name]} | {said}" if name in found else said
    return dict(sorted(found.items()))


def released() -> tuple[str, dict[str, str]]:
    """Return the version of the last release, and its interface."""
    version, *lines = RELEASED.read_text(encoding="utf-8").splitlines()
    return version, dict(line.split(" = ", 1) for line in lines)


def undeclared(before: dict[str, str], now: dict[str, str], changes: str) -> list[str]:
    """Return what broke and is not named in the text of the changes."""
    broken = []
    for name in sorted({*before, *now}):
        owner = name.partition("(")[0]
        if name not in before and not (owner in before and now[name].endswith(REQUIRED)):
            continue
        if before.get(name) == now.get(name):
            continue
        words = re.findall(r"[A-Za-z_][\w-]*", name)
        if not re.search(rf"(?<![\w-]){re.escape(words[-1])}(?![\w-])", changes):
            was, is_now = before.get(name, "not there"), now.get(name, "gone")
            broken.append(f"{name}: was {was}, is {is_now}")
    return broken


def unreleased() -> str:
    """Return what CHANGELOG.md says about the next version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("## [Unreleased]")[2].partition("\n## [")[0]


def main() -> int:
    """Print or write; return the exit code."""
    now = listing()
    if "--write" in sys.argv:
        lines = [tensortap.__version__, *(f"{name} = {said}" for name, said in now.items())]
        RELEASED.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{RELEASED}: {len(now)} facts about {tensortap.__version__}")
        return 0
    version, before = released()
    broken = undeclared(before, now, unreleased())
    print(f"{len(now.keys() - before.keys())} facts are new since {version}")
    print("\n".join(broken), end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
