"""Join the page of this folder into C arrays, which the library puts a run's data into.

    python3 embed.py index.html style.css data.js ... main.js assets.c

The modules become one script: import lines and the word `export` are removed, so their
top-level names must differ; this is checked.  uPlot comes from the package uplot-python.  The
page's content security policy names the script and the style by their hashes.
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
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; connect-src {{{{CONNECT}}}}"
)


def uplot() -> tuple[str, str]:
    """Return the script and the style of uPlot, without indentation."""
    found = importlib.util.find_spec("uplot")
    if found is None or not found.submodule_search_locations:
        sys.exit("uPlot is missing: install the Python package uplot-python")
    folder = Path(found.submodule_search_locations[0]) / "static"
    script = (folder / "uPlot.iife.js").read_text(encoding="utf-8")
    head, _, code = script.partition("*/")  # the licence stays
    lines = (line.strip() for line in code.splitlines())
    code = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f"{head}*/\n{code}\n", (folder / "uPlot.min.css").read_text(encoding="utf-8")


def join_modules(paths: list[Path]) -> str:
    """Return the modules as one script."""
    seen: dict[str, str] = {}
    parts = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for name in NAME.findall(text) + NEXT_NAME.findall(text):
            if name in seen:
                sys.exit(f"{path.name}: {name} is also a name of {seen[name]}")
            seen[name] = path.name
        parts.append(re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE))
    return '"use strict";\n' + "".join(parts)


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
    script = f"\n{chart_script}{join_modules(modules)}"
    css = f"\n{chart_style}\n{style.read_text(encoding='utf-8')}"
    if "</script" in script or "</style" in css:
        sys.exit("the page's script or style holds its own end tag")
    page = index.read_text(encoding="utf-8")
    policy = POLICY.format(script=hash_of(script), style=hash_of(css))
    for mark, text in {"POLICY": policy, "STYLE": css, "SCRIPT": script}.items():
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
