"""Join the page of this folder into C arrays, which the library puts a run's data into.

    python3 embed.py index.html style.css data.js ... main.js assets.c

The modules become two scripts: import lines and the word `export` are removed, so their
top-level names must differ; this is checked.  The first script, up to first.js, shows the verdict;
the data follow, then the second one.  uPlot comes from the package uplot-python.  The page's
content security policy names the scripts and the style by their hashes.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import sys
from pathlib import Path

IMPORT = re.compile(r"^import\s.*?;\n", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
NEXT_NAME = re.compile(r"^(?:export )?(?:const|let) .*?, (\w+) = ", re.MULTILINE)
#: The script goes into every page, so it is exactly this one.
UPLOT_VERSION = "1.6.16"
UPLOT_SHA256 = {
    "uPlot.iife.js": "655bc8aa33781e8721c5af6b59f1699c03c9bda951aa74a6ab518ac20cc4326d",
    "uPlot.min.css": "3f121cd4a997b634e07a887658850018e475c26f0bddd874109a8d382c19de87",
}
POLICY = (
    "default-src 'none'; script-src 'sha256-{first}' 'sha256-{script}'; "
    "style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "connect-src {{{{CONNECT}}}}"
)


def uplot() -> tuple[str, str]:
    """Return the script and the style of uPlot, without indentation."""
    found = importlib.util.find_spec("uplot")
    if found is None or not found.submodule_search_locations:
        sys.exit("uPlot is missing: install the Python package uplot-python==1.1.1")
    folder = Path(found.submodule_search_locations[0]) / "static"
    for name, wanted in UPLOT_SHA256.items():
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != wanted:
            sys.exit(
                f"{folder / name} is not the one of uPlot {UPLOT_VERSION}: install the Python "
                "package uplot-python==1.1.1, which has it"
            )
    script = (folder / "uPlot.iife.js").read_text(encoding="utf-8")
    head, _, code = script.partition("*/")  # the licence stays
    lines = (line.strip() for line in code.splitlines())
    code = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f"{head}*/\n{code}\n", (folder / "uPlot.min.css").read_text(encoding="utf-8")


def join_modules(paths: list[Path]) -> tuple[str, str]:
    """Return the modules as two scripts; the first ends with first.js."""
    seen: dict[str, str] = {}
    scripts = ['"use strict";\n']
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for name in NAME.findall(text) + NEXT_NAME.findall(text):
            if name in seen:
                sys.exit(f"{path.name}: {name} is also a name of {seen[name]}")
            seen[name] = path.name
        scripts[-1] += re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)
        if path.name == "first.js":
            scripts.append('"use strict";\n')
    first, rest = scripts
    return first, rest


def hash_of(text: str) -> str:
    """Return the hash that a policy names the text by."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_array(name: str, text: str) -> str:
    """Return the definition of a C array that holds the text."""
    data = text.encode()
    rows = (
        ", ".join(str(b if b < 128 else b - 256) for b in data[i : i + 32])
        for i in range(0, len(data), 32)
    )
    body = ",\n    ".join(rows)
    return f"const char {name}[] = {{\n    {body}\n}};\nconst size_t {name}_len = sizeof {name};\n"


def main(arguments: list[str]) -> None:
    """Write the arrays."""
    index, style, *modules, out = map(Path, arguments)
    chart_script, chart_style = uplot()
    first, rest = join_modules(modules)
    script = f"\n{chart_script}{rest}"
    css = f"\n{chart_style}\n{style.read_text(encoding='utf-8')}"
    if "</script" in first + script or "</style" in css:
        sys.exit("the page's script or style holds its own end tag")
    page = index.read_text(encoding="utf-8")
    policy = POLICY.format(first=hash_of(first), script=hash_of(script), style=hash_of(css))
    marks = {"POLICY": policy, "STYLE": css, "FIRST": first, "SCRIPT": script}
    for mark, text in marks.items():
        before, found, after = page.partition("{{" + mark + "}}")
        if not found:
            sys.exit(f"{index.name} has no {{{{{mark}}}}}")
        page = before + text + after
    start, _, rest = page.partition("{{CONNECT}}")
    head, _, rest = rest.partition("{{FACTS}}")
    middle, _, tail = rest.partition("{{DATA}}")
    names = ("tt_page_start", "tt_page_head", "tt_page_middle", "tt_page_tail")
    parts = dict(zip(names, (start, head, middle, tail), strict=True))
    text = '#include "page/assets.h"\n' + "".join(as_array(*part) for part in parts.items())
    out.write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
