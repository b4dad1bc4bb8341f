"""A chart as one page that needs nothing else: pan, zoom, statistics on hover.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from string import Template

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>tensor flow</title>
<style>
html, body { margin: 0; height: 100%; overflow: hidden; background: #f7f9fb;
  font: 13px sans-serif; }
#chart { width: 100%; height: 100%; cursor: grab; touch-action: none; }
#chart:active { cursor: grabbing; }
#chart svg { width: 100%; height: 100%; }
#chart text { text-rendering: geometricPrecision; }  /* as wide as Graphviz thinks, at any zoom */
#facts { position: fixed; display: none; max-width: 46em; padding: 8px 12px; background: #102a43;
  color: #f0f4f8; border-radius: 6px; font: 12px/1.5 monospace; white-space: pre-wrap;
  pointer-events: none; z-index: 2; }
#unfold { position: fixed; left: 12px; bottom: 8px; }
#help { position: fixed; right: 12px; bottom: 8px; color: #627d98; }
</style>
</head>
<body>
<div id="chart">$svg</div>
$unfold
<div id="facts"></div>
<div id="help">drag: move &middot; wheel: zoom &middot; double click: all</div>
<script type="application/json" id="data">$json</script>
<script>
"use strict";
const facts = document.querySelector("#facts");
const data = JSON.parse(document.querySelector("#data").textContent);
const nodes = new Map(data.nodes.map(n => ["n" + n.id, n]));
const number = x => {
  if (!Array.isArray(x)) return String(x);
  const imag = String(x[1]);
  return x[0] + (imag.startsWith("-") ? "" : "+") + imag + "j";
};
function describe(n) {
  const shape = n.shape ? "[" + n.shape.join(", ") + "]" : "shape not known";
  const head = n.name + "  " + n.dtype + " " + shape + "  " + n.device;
  const lines = [head, n.file + ":" + n.line, n.code || ""];
  const skip = new Set(["shape", "dtype"]);
  for (const [key, value] of Object.entries(n.stats || {}))
    if (!skip.has(key)) lines.push(key.padEnd(8) + number(value));
  if (n.sampled) lines.push("sampled: not every element is shown");
  return lines.join("\\n");
}
function open(svg) {
const all = svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
let view = all.slice(), hand = null;
svg.removeAttribute("width");
svg.removeAttribute("height");
const look = () => svg.setAttribute("viewBox", view.join(" "));
const scale = () => Math.max(view[2] / svg.clientWidth, view[3] / svg.clientHeight);
const point = e => {
  const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [p.x, p.y];
};
svg.addEventListener("wheel", e => {
  e.preventDefault();
  const factor = Math.exp(Math.sign(e.deltaY) * 0.15), [x, y] = point(e);
  const [left, top, width, height] = view;
  view = [x - (x - left) * factor, y - (y - top) * factor, width * factor, height * factor];
  look();
}, { passive: false });
svg.addEventListener("pointerdown", e => { hand = [e.clientX, e.clientY]; });
window.addEventListener("pointerup", () => { hand = null; });
window.addEventListener("pointermove", e => {
  if (!hand) return;
  const s = scale();
  view[0] -= (e.clientX - hand[0]) * s;
  view[1] -= (e.clientY - hand[1]) * s;
  hand = [e.clientX, e.clientY];
  look();
});
svg.addEventListener("dblclick", () => { view = all.slice(); look(); });
for (const title of svg.querySelectorAll("title")) title.remove();
for (const link of svg.querySelectorAll("a"))
  link.removeAttributeNS("http://www.w3.org/1999/xlink", "title");
for (const group of svg.querySelectorAll("g.node")) {
  const node = nodes.get(group.id);
  if (!node) continue;
  group.addEventListener("pointermove", e => {
    facts.textContent = describe(node);
    facts.style.display = "block";
    const x = Math.min(e.clientX + 14, innerWidth - facts.offsetWidth - 8);
    const y = Math.min(e.clientY + 14, innerHeight - facts.offsetHeight - 8);
    facts.style.left = Math.max(x, 0) + "px";
    facts.style.top = Math.max(y, 0) + "px";
  });
  group.addEventListener("pointerleave", () => { facts.style.display = "none"; });
}
}
const pages = Array.from(document.querySelectorAll("#chart > svg"));
pages.forEach(open);
const button = document.querySelector("#unfold");
if (button) {
  const show = which => pages.forEach((page, i) => {
    page.style.display = i == which ? "" : "none";
  });
  show(0);
  button.addEventListener("click", () => {
    const is_folded = pages[0].style.display == "";
    show(is_folded ? 1 : 0);
    button.textContent = is_folded ? "fold equal blocks" : "unfold equal blocks";
  });
}
</script>
</body>
</html>
""")


def html_page(svg: str, json: str, whole: str | None = None) -> str:
    """Put a chart's SVG and JSON into a page; *whole* is the chart with nothing folded."""
    data = json.replace("<", "\\u003c")  # no text of the user's ends the script
    button = "" if whole is None else '<button id="unfold">unfold equal blocks</button>'
    pages = _inline(svg) + ("" if whole is None else _inline(whole))
    return _PAGE.substitute(svg=pages, unfold=button, json=data)


def _inline(svg: str) -> str:
    return re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
