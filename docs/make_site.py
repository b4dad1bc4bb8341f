"""Build the documentation site: .build/site/html.

    ./dev docs --site

Copies the pages of docs/, executes the notebooks among them, writes the reference from
docstrings, from the program's help and from the header, and runs mkdocs strictly.  A broken link,
a public name without documentation and a page in no section are errors.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tensortap

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / ".build" / "site"
PAGES = SITE / "pages"
AT_ROOT = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md"),
    *("SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md"),
)  # pages that are not in docs/
SECTIONS = ("Args", "Returns", "Raises", "Yields", "Attributes")
#: Title of a section -> its pages; `*` stands for all pages of a folder that are not named.
NAVIGATION: dict[str, list[str]] = {
    "Home": ["index.md", "install.md", "glossary.md", "SUPPORT.md"],
    "Tutorials": ["tutorial/bug.md", "tutorial/*"],
    "How to": ["howto/*"],
    "Guides": ["guide/command.md", "guide/record.md", "guide/report.md", "guide/*"],
    "Coming from": ["from/*"],
    "Reference": [
        "reference/tensortap.md",
        "reference/commands.md",
        "reference/c.md",
        "FORMAT.md",
        "reference/environment.md",
        "reference/examples.md",
        "reference/*",
    ],
    "Explanations": ["ARCHITECTURE.md", "explain/*", "PERFORMANCE.md", "CHANGELOG.md"],
}
#: Wide enough for 120 columns of output; lines of text stay short.  A table may have no head.
LOOKS = """
.md-grid { max-width: 78rem }
.md-typeset > :is(p, ul, ol, blockquote) { max-width: 42rem }
.md-typeset thead:not(:has(th:not(:empty))) { display: none }
.md-typeset pre > code { font-size: .8em }
"""


class Undocumented(Exception):
    """A public name that does not say what it is."""


# ---- reference: Python ------------------------------------------------------------


def packages() -> list[str]:
    """Return the public packages."""
    found = sorted(name for name, home in tensortap._LATER.items() if not home)
    return ["tensortap", *(f"tensortap.{name}" for name in found)]


def stubs() -> dict[str, ast.AST]:
    """Return what _core.pyi declares: "name", "Class.method"."""
    tree = ast.parse((ROOT / "python/tensortap/_core.pyi").read_text(encoding="utf-8"))
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef):
                    found[f"{node.name}.{one.name}"] = one
                elif isinstance(one, ast.AnnAssign):
                    found[f"{node.name}.{ast.unparse(one.target)}"] = one.annotation
    return found


STUBS = stubs()


def signature(thing: Any, name: str) -> str:
    """Return "(x: int) -> str"; empty: unknown."""
    stub = STUBS.get(name)
    if isinstance(stub, ast.ClassDef):
        stub = STUBS.get(f"{name}.__init__")
    if isinstance(stub, ast.FunctionDef):
        given = ast.unparse(stub.args).removeprefix("self, ").removeprefix("self")
        returned = f" -> {ast.unparse(stub.returns)}" if stub.returns is not None else ""
        return f"({given}){'' if returned == ' -> None' else returned}"
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations that are texts
    return re.sub(r"^\(self(, )?", "(", text).removesuffix(" -> None")


def type_of(value: Any, name: str) -> str:
    """Return the type of an attribute or property; empty: unknown."""
    stub = STUBS.get(name)
    if isinstance(stub, ast.FunctionDef):
        stub = stub.returns
    if stub is not None:
        return re.sub(r"^Final\[(.*)\]$", r"\1", ast.unparse(stub))
    found = getattr(getattr(value, "fget", None), "__annotations__", {}).get("return", "")
    return found if isinstance(found, str) else inspect.formatannotation(found)


def markdown(text: str) -> str:
    """Return a docstring in Google's form as Markdown."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        head = re.fullmatch(r"(\w+):", line)
        if head and (head[1] in SECTIONS or head[1].startswith("Example")):
            if section == "Example":
                lines.append("```")
            section = "Example" if head[1].startswith("Example") else head[1]
            lines += ["", f"**{head[1]}**", "", *(["```pycon"] if section == "Example" else [])]
        elif section == "Example":
            lines.append(line.removeprefix("    "))
        elif section in ("Args", "Raises", "Attributes") and re.match(r"    \S", line):
            names, _, rest = line.strip().partition(": ")
            lines.append(f"- `{names}`: {rest}")
        else:
            lines.append(line.strip() if section else line)
    return "\n".join([*lines, *(["```"] if section == "Example" else [])])


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class of ours defines."""
    seen = set()
    for base in thing.__mro__:
        if not base.__module__.startswith("tensortap"):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if (
                callable(value)
                or isinstance(value, property | classmethod | staticmethod)
                or (inspect.isdatadescriptor(value) or inspect.ismethoddescriptor(value))
            ):
                yield name, value


def describe(package: str, name: str, thing: Any) -> Iterator[str]:
    """Yield the lines about one public name."""
    text = inspect.getdoc(thing)
    if not text or (isinstance(thing, type) and text == inspect.getdoc(object)):
        raise Undocumented(f"{package}.{name} has no docstring")
    yield f"## {name}\n"
    kind = "class " if isinstance(thing, type) else ""
    if callable(thing):
        yield f"```python\n{kind}{name}{signature(thing, name)}\n```\n"
    yield markdown(text) + "\n"
    if not isinstance(thing, type) or issubclass(thing, BaseException):
        return
    for member, value in sorted(members(thing)):
        inner = getattr(value, "__func__", value)
        said = inspect.getdoc(inner)
        if not said:
            fields = getattr(thing, "__annotations__", {})
            if member in fields or "Alias for field" in str(said):
                continue
            raise Undocumented(f"{package}.{name}.{member} has no docstring")
        if said.startswith("Alias for field"):
            continue  # of a named tuple: the class says what it is
        yield f"### {name}.{member}\n"
        if callable(inner):
            yield f"```python\n{member}{signature(inner, f'{name}.{member}')}\n```\n"
        elif written := type_of(value, f"{name}.{member}"):
            yield f"```python\n{member}: {written}\n```\n"
        yield markdown(said) + "\n"


def write_python() -> Iterator[str]:
    """Write a page for each package; yield what is not documented."""
    shown: dict[int, str] = {}
    for package in packages():
        module: ModuleType = importlib.import_module(package)
        head = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
        if not head:
            yield f"{package} has no docstring"
        lines = [f"# {package}\n", f"{head}\n"]
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if name.startswith("__") or isinstance(thing, ModuleType):
                continue
            if id(thing) in shown:
                home = shown[id(thing)]
                lines.append(
                    f"## {name}\n\nThe same as [{home}.{name}]({home}.md#{name.lower()}).\n"
                )
                continue
            shown[id(thing)] = package
            try:
                lines += describe(package, name, thing)
            except Undocumented as why:
                yield str(why)
        (PAGES / "reference" / f"{package}.md").write_text("\n".join(lines), encoding="utf-8")


# ---- reference: the program, the header, the examples --------------------------------


def write_commands() -> None:
    """Write the help of every command."""

    def said(*words: str) -> str:
        done = subprocess.run(["tensortap", *words], capture_output=True, text=True, check=True)
        return f"```text\n{done.stdout}```\n"

    top = said("--help")
    lines = ["# Commands\n", top]
    for name in re.findall(r"^  (\w+) ", top, re.MULTILINE):
        lines += [f"## tensortap {name}\n", said(name, "--help")]
    (PAGES / "reference/commands.md").write_text("\n".join(lines), encoding="utf-8")


def write_header() -> None:
    """Write the C interface, section by section."""
    text = (ROOT / "include/tensortap.h").read_text(encoding="utf-8")
    head, *sections = re.split(r"(?m)^/\* -{4} (.+?) -+ \*/\n", text)
    intro = "\n".join(re.sub(r"^(/\*| \*/?) ?", "", line) for line in head.splitlines())
    intro = intro.partition("SPDX")[0].strip().replace("tensortap.h -- ", "", 1)
    intro = re.sub(r"(?m)^  - ", "\n- ", intro)
    lines = ["# The C interface\n", intro, ""]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        body = body.partition("#ifdef __cplusplus")[0].strip()
        lines.append(f"## {title.capitalize()}\n\n```c\n{body}\n```\n")
    (PAGES / "reference/c.md").write_text("\n".join(lines), encoding="utf-8")


def write_examples() -> None:
    """Write the example programs."""
    lines = ["# Examples\n"]
    for path in sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("examples/c/*.c")]):
        name = path.relative_to(ROOT).as_posix()
        language = "c" if path.suffix == ".c" else "python"
        lines.append(f"## {name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n")
    (PAGES / "reference/examples.md").write_text("\n".join(lines), encoding="utf-8")


# ---- pages -------------------------------------------------------------------------


def execute(path: Path, to: Path) -> None:
    """Run a notebook and write it, with what it put out, as a page."""
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter

    os.environ.update(NO_COLOR="1", COLUMNS="120")  # notebooks run commands in a terminal
    notebook = nbformat.read(path, as_version=4)
    with_folder = SITE / "notebook"
    with_folder.mkdir(exist_ok=True)
    (with_folder / "examples").unlink(missing_ok=True)
    (with_folder / "examples").symlink_to(ROOT / "examples")
    NotebookClient(
        notebook,
        timeout=120,
        resources={"metadata": {"path": with_folder}},
        extra_arguments=["--log-level=40"],  # errors
    ).execute()
    body, resources = MarkdownExporter().from_notebook_node(
        notebook, resources={"output_files_dir": f"{path.stem}_files"}
    )
    to.write_text(rewrite_links(body, to.relative_to(PAGES)), encoding="utf-8")
    for name, data in resources["outputs"].items():
        (to.parent / name).parent.mkdir(exist_ok=True)
        (to.parent / name).write_bytes(data)


def rewrite_links(text: str, page: Path) -> str:
    """Let links to files outside of docs/ lead to where the site has them."""
    up = "../" * (len(page.parts) - 1)
    text = re.sub(r"\]\((?:\.\./)*README\.md(#[\w-]+)?\)", f"]({up}index.md)", text)
    others = "|".join(name.removesuffix(".md") for name in AT_ROOT)
    text = re.sub(rf"\]\((?:\.\./)*(?:docs/)?({others})\.md", rf"]({up}\1.md", text)
    text = re.sub(
        r"\[`?([^]`]*)`?\]\((?:\.\./)*((?:python|skills|tests)/[\w/.-]+|pyproject\.toml)\)",
        lambda found: f"`{found[2]}`" if found[1] in found[2] else f"{found[1]} (`{found[2]}`)",
        text,
    )  # the site does not have them
    text = re.sub(
        r"\]\((?:\.\./)*(examples/[\w/]+\.(?:py|c))\)",
        lambda found: f"]({up}reference/examples.md#{re.sub(r'[/.]', '', found[1]).lower()})",
        text,
    )
    text = re.sub(r'src="(?:\.\./)*(?:docs/)?pictures/', f'src="{up}pictures/', text)
    return re.sub(r"\.ipynb\)", ".md)", text)


def copy_pages() -> None:
    """Copy docs/, and run the notebooks in it."""
    for path in [*sorted(DOCS.rglob("*.md")), *map(ROOT.joinpath, AT_ROOT)]:
        page = path.relative_to(DOCS) if path.is_relative_to(DOCS) else Path(path.name)
        (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
        text = rewrite_links(path.read_text(encoding="utf-8"), page).replace("](docs/", "](")
        (PAGES / page).write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "pictures", PAGES / "pictures")
    for path in DOCS.rglob("*.ipynb"):
        page = path.relative_to(DOCS).with_suffix(".md")
        (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
        execute(path, PAGES / page)


def navigation() -> list[dict[str, list[str]]]:
    """Return the sections with their pages."""
    named = {page for pages in NAVIGATION.values() for page in pages}
    made = []
    for title, patterns in NAVIGATION.items():
        found: list[str] = []
        for pattern in patterns:
            if not pattern.endswith("*"):
                found.append(pattern)
                continue
            for path in sorted(PAGES.glob(f"{pattern}.md")):
                page = path.relative_to(PAGES).as_posix()
                if page not in named:
                    found.append(page)
        made.append({title: found})
    return made


def configure() -> Path:
    """Write mkdocs' configuration; return its path."""
    about = {
        "site_name": "tensortap",
        "site_description": "See what the tensors of a PyTorch program do.",
        "docs_dir": str(PAGES),
        "site_dir": str(SITE / "html"),
        "use_directory_urls": False,  # opens from disk, too
        "theme": {
            "name": "material",
            "font": False,  # no request to another host
            "features": [
                "navigation.tabs",
                "navigation.indexes",
                "content.code.copy",
                "toc.follow",
            ],
            "palette": [
                {
                    "media": "(prefers-color-scheme: light)",
                    "scheme": "default",
                    "primary": "blue grey",
                },
                {
                    "media": "(prefers-color-scheme: dark)",
                    "scheme": "slate",
                    "primary": "blue grey",
                },
            ],
        },
        "extra_css": ["looks.css"],
        "plugins": ["search"],
        "markdown_extensions": [
            "tables",
            "attr_list",
            "pymdownx.superfences",
            {"pymdownx.highlight": {"anchor_linenums": False}},
            {"toc": {"permalink": True, "toc_depth": 3}},
        ],
        "validation": {
            "nav": {"omitted_files": "warn", "not_found": "warn", "absolute_links": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn"},
        },
        "not_in_nav": "CONTRIBUTING.md\nRELEASING.md\nSECURITY.md\nCODE_OF_CONDUCT.md",
        "nav": navigation(),
    }
    (PAGES / "looks.css").write_text(LOOKS, encoding="utf-8")
    path = SITE / "mkdocs.yml"
    path.write_text(json.dumps(about), encoding="utf-8")  # JSON is YAML
    return path


def main() -> int:
    """Build everything; return the exit code."""
    shutil.rmtree(SITE, ignore_errors=True)
    (PAGES / "reference").mkdir(parents=True)
    copy_pages()
    wrong = list(write_python())
    print("\n".join(wrong), end="\n" if wrong else "")
    if wrong:
        return 1
    write_commands()
    write_header()
    write_examples()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(configure())]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # about another generator
    # Not with -q: then warnings are not counted.
    done = subprocess.run(command, env=quiet, stderr=subprocess.PIPE, text=True)
    print("\n".join(re.findall(r"(?m)^(?!INFO).+$", done.stderr)))
    code = done.returncode
    if code == 0:
        print(f"the site is in {SITE / 'html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
