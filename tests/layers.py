"""Check who includes whom, and the other rules of docs/ARCHITECTURE.md about files.

    python3 tests/layers.py                            the sources
    python3 tests/layers.py --library libtensortap.a   the built core too

Needs only the standard library, so that it runs before anything is installed.
Prints one line for each violation; exits with 1 if there is any.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PUBLIC = ("tensortap.h", "tensortap_tools.h")  # include/, for every folder

# Folder of the core -> the folders that it may use, besides its own: include their headers, or
# call their functions, whichever header declares these.
BELOW = {
    "os": set(),
    "base": {"os"},
    "tensor": {"base"},
    "summary": {"base", "tensor"},
    "site": {"base"},
    "store": {"os", "base", "tensor", "summary", "site"},
    "record": {"os", "base", "tensor", "summary", "site", "store"},
    "format": {"os", "base", "tensor", "summary"},
    "report": {"base", "tensor", "summary", "site", "store", "format"},
    "health": {"base", "tensor", "summary", "site", "store", "report"},
    "arrow": {"base", "tensor", "summary", "site", "store", "report", "health"},
    "page": {"base", "tensor", "summary", "site", "store", "format", "report", "health"},
}

# The same for the program; headers of cli itself (command.h) are for all of its folders.
CLI_BELOW = {
    "output": set(),
    "runs": {"output"},
    "serve": {"output", "runs"},
    "commands": {"output", "runs", "serve"},
}

# The same for the extension; extension.c, which combines the folders, may include all.
SHARED = {"base", "tensor", "binding", "summary", "probe", "calls", "lines", "runs"}
EXT_BELOW = {
    "base": set(),
    "tensor": {"base"},
    "binding": {"base", "tensor"},
    "summary": {"base", "tensor", "binding"},
    "probe": {"base", "tensor", "binding"},
    "calls": {"base", "tensor", "binding", "probe"},
    "lines": {"base", "tensor", "binding"},
    "runs": {"base", "tensor", "binding", "summary", "probe", "calls"},
    **dict.fromkeys(("flow", "track", "trace", "monitor", "spy", "operators"), SHARED),
}

# Package of python/tensortap -> the packages that it may use, besides its own and _core: import
# them, or names of theirs from tensortap itself.
FRONT_ENDS = {"flow", "track", "trace", "monitor", "spy", "operators"}
QUARANTINE = {"private", "compiled"}  # private names of torch stand here
PACKAGES = {
    "files": set(),
    "private": {"files"},
    "display": {"files"},
    "devices": {"files"},
    "compiled": {"private", "devices", "files"},
    "analysis": QUARANTINE,
    "models": {"devices", "files", *QUARANTINE},
    "answers": set(),
    "cloud": {"files"},
    "blackbox": {"models", "files", "answers", *QUARANTINE},
    "operators": {"analysis", "models", "display", "files", "devices", *QUARANTINE},
    "runs": {
        *("models", "display", "files", "devices", "answers", "blackbox", "operators", "cloud"),
        *QUARANTINE,
    },
    "findings": {"models", "answers", "runs"},
    "implementations": {"models", "display", "runs"},
    **{
        name: {"analysis", "models", "display", "files", "devices", "runs", *QUARANTINE}
        for name in FRONT_ENDS - {"operators"}
    },
    "commands": {
        "models",
        "display",
        "files",
        "blackbox",
        "runs",
        "cloud",
        "implementations",
        *QUARANTINE,
        *FRONT_ENDS,
    },
}
#: Files outside of it that use private names, each of one part of torch or Python.
EXCEPTIONS = {
    "blackbox/loaders.py",  # iterators of DataLoader
    "files/frames.py",  # frames of CPython
    "models/call_impl.py",  # the text of nn.Module._call_impl
}
OF_TORCH = {"_buffers", "_modules", "_parameters"}  # private names of torch that we use
#: Private names that are not torch's: documented by Python, or guarded where they are used.
OF_PYTHON = {
    "_at_fork_reinit",
    "_bit_generator",
    "_cls",
    "_exit",
    "_fields",
    "_is_owned",
    "_parse_exception_table",
}
#: The same for files of the extension, relative to python/ext: what of torch each looks up by name.
EXT_QUARANTINE = {
    "calls/pipeline.c",  # functions of torch.distributed.pipelining
    "calls/source.c",  # the slot and the tables of nn.Module
    "calls/source.h",
    "lines/path.c",  # attributes that are found in tables of nn.Module
    "operators/log.c",  # the engine of autograd
    "operators/memory.c",  # storages
    "operators/line.c",
    "operators/read.c",  # sparse tensors
    "runs/watch_graph.c",  # what a softmax saved for backward
    "runs/watch_record.c",  # DTensor
    "tensor/refusal.c",
    "tensor/symbols.h",  # C++
    "tensor/symbols.c",
    "tensor/torch.c",
    "tensor/torch.h",
    "tensor/view.c",
    "tensor/walk.c",
}
TOP = {
    "__init__.py",
    "__main__.py",
    "_core.pyi",
    "py.typed",
}  # files of python/tensortap in no package

MOST_FILES = 30  # in a folder under python/

# Third-party header (a pattern) -> the only paths (a pattern) that may include it.
GUARDED = {
    r"zstd.*\.h|zdict\.h": r"core/store/",
    r"xxhash\.h|xxh3\.h": r"core/(summary|store)/",
    r"libdeflate\.h": r"core/(format|page)/",
    r"microhttpd\.h": r"cli/commands/serve\.c$",
    r"Python\.h|structmember\.h|frameobject\.h|(internal/|cpython/)?pycore_.*": r"python/ext/",
    r"cpuid\.h": r"core/summary/kernels\.c$",
    r"(linux|mach-o|mach)/.*|sys/(random|prctl|syscall|vfs)\.h": r"core/os/",
    r"([a-z0-9]+intrin|arm_(neon|sve|acle))\.h": r"core/(summary|tensor)/\w+_kernel\.[ch]$",
}

# Objects of the core that may change after start: (source file, name).
MUTABLE = {
    ("summary/kernels.c", "chosen"),  # the kernel table, set once
    ("base/worker.c", "registry"),  # pthread_atfork passes no argument
}

VAGUE = {"util", "utils", "common", "misc", "internal", "internals", "helper", "helpers"}
SKIPPED = re.compile(r"^(\..*|build.*|__pycache__|corpus|golden)$")
MADE = {"runs"}  # folders at the root that programs create
INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)$", re.MULTILINE)
NAMED = re.compile(r'^(?:<([^>]+)>|"([^"]+)")')


def files(root: Path) -> Iterator[Path]:
    """Yield every source file of the repository, relative to *root*."""
    for folder, names, leaves in os.walk(root):
        names[:] = sorted(
            name
            for name in names
            if not SKIPPED.match(name) and not (Path(folder) == root and name in MADE)
        )
        for leaf in sorted(leaves):
            yield (Path(folder) / leaf).relative_to(root)


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, text after #include) of a C file."""
    text = path.read_text(encoding="utf-8")
    for found in INCLUDE.finditer(text):
        yield text.count("\n", 0, found.start(1)) + 1, found[1].strip()


def home_of(path: Path) -> tuple[str, dict[str, set[str]]]:
    """Return the folder that a C file's includes start from, and the rules of its folders."""
    homes = {"core": BELOW, "cli": CLI_BELOW, "python": EXT_BELOW}
    top = path.parts[0]
    return ("python/ext" if top == "python" else top), homes[top]


def check_own_header(root: Path, path: Path, name: str) -> str | None:
    """Return what is wrong with `#include "name"` in *path*, or None."""
    if name in PUBLIC:
        return None
    home, below = home_of(path)
    inside = path.relative_to(home).parts
    folder, target = inside[0] if len(inside) > 1 else "", name.split("/")[0]
    is_top = "/" not in name
    if (is_top and home != "cli") or not (root / home / name).exists() or name.startswith("."):
        return f'"{name}" is not a header of {home}; write "folder/file.h"'
    if is_top or (not folder and (home == "cli" or path.name == "extension.c")):
        return None
    if target != folder and target not in below.get(folder, set()):
        return f'"{name}": {folder} may not use {target}'
    return None


def check_includes(root: Path) -> Iterator[str]:
    """Yield every include that a layer rule forbids."""
    for path in files(root):
        place = path.as_posix()
        if path.suffix not in {".c", ".h"} or not place.startswith(
            ("core/", "cli/", "python/ext/")
        ):
            continue
        home, below = home_of(path)
        folder = path.parent.relative_to(home).as_posix()
        if home == "core":  # health/rules is a part of health
            folder = folder.partition("/")[0]
        is_top = path.parent.as_posix() == "cli" or place == "python/ext/extension.c"
        if not is_top and folder not in below:
            yield f"{place}: {home} has no folder of this name; add it to tests/layers.py"
        for line, what in includes(root / path):
            found = NAMED.match(what)
            if found is None:
                yield f"{place}:{line}: name the header itself, not {what}"
                continue
            name = found[1] or found[2]
            for pattern, allowed in GUARDED.items():
                if re.fullmatch(pattern, name) and not re.match(allowed, place):
                    yield f"{place}:{line}: {name} may only be included in {allowed}"
            wrong = check_own_header(root, path, name) if found[2] else None
            if wrong is not None and not any(re.fullmatch(p, name) for p in GUARDED):
                yield f"{place}:{line}: {wrong}"


DEFINED = re.compile(r"(?m)^[a-z][\w \*]*?\b(tt_\w+)\([^;{}]*?\)\n\{")
NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


def core_calls(root: Path) -> Iterator[tuple[Path, int, str, str]]:
    """Yield (file, line number, folder, name) of each call of another folder of the core."""
    texts = {
        path: NO_CODE.sub(
            lambda found: "\n" * found[0].count("\n"), (root / path).read_text("utf-8")
        )
        for path in files(root)
        if path.parts[0] == "core" and path.suffix in {".c", ".h"} and len(path.parts) > 2
    }
    homes = {
        name: path.parts[1]
        for path, text in texts.items()
        if path.suffix == ".c"
        for name in DEFINED.findall(text)
    }
    for path, text in texts.items():
        for found in re.finditer(r"\btt_\w+", text):
            home = homes.get(found[0], path.parts[1])
            if path.suffix == ".c" and home != path.parts[1]:
                yield path, text.count("\n", 0, found.start()) + 1, home, found[0]


def check_calls(root: Path) -> Iterator[str]:
    """Yield functions that a folder of the core may not call, also through the public headers."""
    for path, line, home, name in core_calls(root):
        folder = path.parts[1]
        if home not in BELOW.get(folder, set()):
            yield f"{path.as_posix()}:{line}: {name}: {folder} may not use {home}"


def declared(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, name) of the functions and types that a header declares."""
    for number, line in enumerate(text.splitlines(), 1):
        found = (
            re.match(r"(?!typedef|return|#)[A-Za-z_][\w \t]*[ *]+(\w+)\(", line)  # a function
            or re.match(r"BINDING_FUNCTION\((\w+)\);", line)
            or re.match(r"typedef (?:struct|enum|union) (\w+)", line)
            or re.match(r"extern [\w \*]*?(\w+)(?:\[\]|, \w+)*;", line)
        )
        if found:
            yield number, found[1]


def check_prefixes(root: Path) -> Iterator[str]:
    """Yield names in headers of the extension that do not begin with their folder."""
    for path in files(root):
        place = path.as_posix()
        if not place.startswith("python/ext/") or path.suffix != ".h" or len(path.parts) < 4:
            continue
        folder = path.parts[2]
        for line, name in declared((root / path).read_text(encoding="utf-8")):
            if not name.startswith((f"{folder}_", "Py")):  # Py: names of newer Pythons
                yield f"{place}:{line}: {name} does not begin with {folder}_"


def own_imports(tree: ast.AST) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (line number, module, names) of each import of a tensortap module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tensortap":
                    yield node.lineno, alias.name, []
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tensortap":
            yield node.lineno, node.module or "", [alias.name for alias in node.names]


def public_homes(root: Path) -> dict[str, str]:
    """Return the package of each name that tensortap itself has."""
    path = root / "python/tensortap/__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    homes = {}
    for _, module, names in own_imports(tree):
        parts = module.split(".")
        homes.update({name: parts[1] if len(parts) > 1 else name for name in names})
    return homes


def used_packages(tree: ast.AST, homes: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Yield (line number, package) of each use of a package: an import, or a name of tensortap."""
    for line, module, names in own_imports(tree):
        parts = module.split(".")
        targets = {parts[1]} if len(parts) > 1 else {homes.get(name, name) for name in names}
        yield from ((line, target) for target in sorted(targets & set(PACKAGES)))
    for node in ast.walk(tree):
        is_name = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tensortap"
        if is_name and homes.get(node.attr) in PACKAGES:
            yield node.lineno, homes[node.attr]


def reached_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line number, name) of each use of a private name of another tensortap module."""
    modules = set()
    for line, module, names in own_imports(tree):
        if module != "tensortap._core":
            yield from ((line, name) for name in names if name.startswith("_") and name != "_core")
        modules |= {name for name in names if name.islower() and not name.startswith("_")}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and re.match(r"_(?!_)", node.attr)
        ):
            yield node.lineno, f"{node.value.id}.{node.attr}"


def reached_members(tree: ast.AST, elsewhere: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line number, expression) of each use of a private member of another package."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in elsewhere:
            continue
        owner = ast.unparse(node.value)
        if owner not in {"self", "cls", "super()", "_core"}:
            yield node.lineno, f"{owner}.{node.attr}"


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names that a module defines, those of its classes included."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return {name for name in names if re.match(r"_[a-zA-Z]", name)} - OF_TORCH


def check_packages(root: Path) -> Iterator[str]:
    """Yield imports in python/tensortap that a layer rule forbids, and uses of private names."""
    trees: dict[Path, ast.AST] = {}
    for path in files(root):
        place = path.as_posix()
        if not place.startswith("python/tensortap/"):
            continue
        if len(path.parts) < 4:
            if path.name not in TOP:
                yield f"{place}: in no package; move it into one"
        elif path.parts[2] not in PACKAGES:
            yield f"{place}: no package of this name; add it to PACKAGES in tests/layers.py"
        if path.suffix in {".py", ".pyi"}:
            trees[path] = ast.parse((root / path).read_text(encoding="utf-8"))
    private: dict[str, set[str]] = {}  # package -> the private names in it
    for path, tree in trees.items():
        private.setdefault(path.parent.name, set()).update(private_names(tree))
    shared = private["tensortap"]  # those of _core, which all packages may use
    homes = public_homes(root)
    for path, tree in trees.items():
        package = path.parts[2] if len(path.parts) > 3 else ""
        elsewhere = set().union(*private.values()) - private[path.parent.name] - shared
        for line, target in used_packages(tree, homes):
            if package and target not in {package, *PACKAGES.get(package, set())}:
                yield f"{path.as_posix()}:{line}: {package} may not use {target}"
        for line, name in [*reached_names(tree), *reached_members(tree, elsewhere)]:
            what = f"{name} is private to another module; share a public name"
            yield f"{path.as_posix()}:{line}: {what}"


def named_privately(tree: ast.AST, own: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line number, name) of private modules and members of torch; *own* are ours."""

    modules = {name for _, _, names in own_imports(tree) for name in names}

    def is_private(name: str) -> bool:
        return bool(re.match(r"_[a-zA-Z]", name)) and name not in own

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((node.lineno, part) for part in parts if re.match(r"_[a-zA-Z]", part))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if re.match(r"torch\.(.*\.)?_", alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if ast.unparse(node.value) not in {"self", "cls", "_core", *modules}:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Attribute) and re.match(r"_[a-zA-Z]", node.attr):
            if re.match(r"torch\b", ast.unparse(node.value)):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.match(r"torch\.(\w+\.)*_[a-zA-Z]", node.value):
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "hasattr"}:
            asked = node.args[1] if len(node.args) > 1 else None
            if isinstance(asked, ast.Constant) and is_private(str(asked.value)):
                yield node.lineno, str(asked.value)


def check_quarantine(root: Path) -> Iterator[str]:
    """Yield uses of private names of torch outside of the files that are for them."""
    trees: dict[Path, ast.AST] = {}
    own = set(OF_PYTHON)
    for path in files(root):
        place = path.as_posix()
        if place.startswith("python/tensortap/") and path.suffix in {".py", ".pyi"}:
            tree = ast.parse((root / path).read_text(encoding="utf-8"))
            own |= private_names(tree) | {
                node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)
            }
            if path.suffix == ".py":
                trees[path] = tree
    for path, tree in trees.items():
        inside = path.relative_to("python/tensortap")
        if inside.parts[0] in QUARANTINE or inside.as_posix() in EXCEPTIONS:
            continue
        for line, name in named_privately(tree, own):
            what = f"{name} is private to torch; use it in python/tensortap/private or compiled"
            yield f"{path.as_posix()}:{line}: {what}"
    for path in files(root):
        place = path.as_posix()
        if not place.startswith("python/ext/") or path.suffix not in {".c", ".h"}:
            continue
        if path.relative_to("python/ext").as_posix() in EXT_QUARANTINE:
            continue
        text = (root / path).read_text(encoding="utf-8")
        for found in re.finditer(r'"(torch\._[\w.]*|_[a-zA-Z]\w*)"', text):
            if found[1] in own:
                continue
            line = text.count("\n", 0, found.start()) + 1
            what = f"{found[1]} is private to torch; list the file in EXT_QUARANTINE"
            yield f"{place}:{line}: {what} of tests/layers.py, with the reason"


def check_callers(root: Path) -> Iterator[str]:
    """Yield functions of the public headers that no program uses."""
    users = [
        (root / path).read_text(encoding="utf-8")
        for path in files(root)
        if path.suffix in {".c", ".h"} and path.parts[0] in {"cli", "python", "bench"}
    ]
    used = {name for text in users for name in re.findall(r"\btt_\w+", text)}
    pasted = tuple({name for text in users for name in re.findall(r"\b(tt_\w+_)##", text)})
    for header in PUBLIC:
        path = root / "include" / header
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line, name in declared(re.sub(r"(?m)^typedef.*", "", text)):
            if name.startswith("tt_") and name not in used and not name.startswith(pasted):
                yield f"include/{header}:{line}: neither cli, python/ext nor bench uses {name}"


def check_counts(root: Path) -> Iterator[str]:
    """Yield folders under python/ with too many files."""
    counts: dict[str, int] = {}
    for path in files(root):
        if path.parts[0] == "python":
            folder = path.parent.as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    for folder, count in counts.items():
        if count > MOST_FILES:
            yield f"{folder}: {count} files; {MOST_FILES} is the most"


def check_files(root: Path) -> Iterator[str]:
    """Yield files and folders with a vague name."""
    for path in files(root):
        words = {word for part in path.parts for word in re.split(r"[_.\-]", part.lower())}
        if words & VAGUE:
            yield f"{path.as_posix()}: name it after what it holds, not '{min(words & VAGUE)}'"


def check_symbols(listing: str) -> Iterator[str]:
    """Yield Python symbols and unlisted mutable objects in the output of `nm -f sysv`."""
    member = "?"
    for line in listing.splitlines():
        found = re.match(r"Symbols from .*\[(?:.*/)?([a-z]+)_(\w+\.c)\.o\]", line)
        if found:
            member = f"{found[1]}/{found[2]}"
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 7:
            continue
        name, section = cells[0], cells[6]
        if re.match(r"_?Py[A-Z_]", name):
            yield f"{member}: uses {name}; only python/ext may know Python"
        is_mutable = re.match(r"\.(data|bss|tdata|tbss)|\*COM\*", section)
        if not is_mutable or section.startswith(".data.rel.ro") or cells[3] == "SECTION":
            continue
        plain = re.sub(r"\.\d+$", "", name)  # the compiler numbers statics of functions
        if (member, plain) not in MUTABLE:
            yield f"{member}: {plain} is a mutable global ({section}); the core has none"


CHECKS = (
    check_includes,
    check_calls,
    check_prefixes,
    check_packages,
    check_quarantine,
    check_callers,
    check_counts,
    check_files,
)


def main() -> int:
    """Print every violation; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--library", help="the built libtensortap.a, for a look with nm")
    options = parser.parse_args()
    wrong = [found for check in CHECKS for found in check(options.root)]
    if options.library:
        nm = ["nm", "-f", "sysv", options.library]
        listing = subprocess.run(nm, check=True, capture_output=True, text=True).stdout
        if "tt_version" not in listing:
            wrong.append(f"{options.library}: not the core: there is no tt_version in it")
        wrong.extend(check_symbols(listing))
    print("\n".join(wrong) or "layers: all rules hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
