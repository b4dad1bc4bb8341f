/* growth.js -- how a number grows from layer to layer, at the chosen step.
 *
 * The map shows repeated layers as one row; what happens between the first and the last is seen here.
 * SPDX-License-Identifier: Apache-2.0 */
import {onChange, runs, view} from "./data.js";
import {cssColor, el, fresh, short, visible} from "./dom.js";
import {goTo} from "./verdict.js";

const FEWEST = 3, MOST_PICTURES = 12, WIDE = 260, TALL = 90;

/** The rows of the chosen kind that stand for several layers.
 * @returns {{label: string, sites: number[]}[]} */
function rowsOfLayers() {
  const run = runs[0], rows = [], path = /** @type {string[]} */ ([]);
  for (const row of run.tree) {
    path.length = row.depth;
    path[row.depth] = row.label;
    const isOfKind = path[0] === view.kind && row.depth > 0;
    if (isOfKind && row.sites && row.sites.length >= FEWEST)
      rows.push({label: path.slice(1).join("."), sites: row.sites});
  }
  return rows.slice(0, MOST_PICTURES);
}

/** The root mean square of a site at the step, or the last before it.
 * @param {number} site */
function rmsAt(site) {
  const bins = runs[0].tensors, series = bins.find(site, Math.max(view.file, 0), view.isEval);
  if (!series) return NaN;
  const values = bins.values(series, "rms");
  for (let bin = bins.binOf(view.step); bin >= 0; bin--)
    if (!Number.isNaN(values[bin])) return values[bin];
  return NaN;
}

/** @param {HTMLCanvasElement} canvas @param {number[]} values */
function paint(canvas, values) {
  const scale = 2, ctx = canvas.getContext("2d");
  if (!ctx) return;
  canvas.width = WIDE * scale;
  canvas.height = TALL * scale;
  ctx.scale(scale, scale);
  const sizes = values.filter((v) => v > 0 && Number.isFinite(v)), low = Math.min(...sizes),
        high = Math.max(...sizes);
  if (!sizes.length) return;
  const span = Math.max(Math.log(high / low), Math.log(2)), middle = (Math.log(high) + Math.log(low)) / 2;
  const x = (/** @type {number} */ i) => 8 + (i / Math.max(values.length - 1, 1)) * (WIDE - 16);
  const y = (/** @type {number} */ v) => TALL / 2 - ((Math.log(v) - middle) / span) * (TALL - 20);
  ctx.strokeStyle = ctx.fillStyle = cssColor("--accent");
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  values.forEach((v, i) => v > 0 && Number.isFinite(v) && ctx.lineTo(x(i), y(v)));
  ctx.stroke();
  values.forEach((v, i) => {
    if (!(v > 0 && Number.isFinite(v))) return;
    ctx.beginPath();
    ctx.arc(x(i), y(v), values.length > 40 ? 1.5 : 2.5, 0, 7);
    ctx.fill();
  });
}

export function showGrowth() {
  const run = runs[0], bins = run.tensors;
  if (!run.tree.some((row) => row.sites && row.sites.length >= FEWEST)) return;
  const section = fresh("growth"), note = el("p", {className: "faint"}),
        host = el("div", {className: "charts"});
  section.append(note, host);
  /** @type {{sites: number[], canvas: HTMLCanvasElement, text: HTMLElement}[]} */
  let pictures = [];

  const draw = () => {
    note.textContent = `Root mean square of each repeated layer at ${
        bins.stepText(
            bins.binOf(view.step))}, first layer left, on a log scale. Click on a layer to open it.`;
    for (const {sites, canvas, text} of pictures) {
      const values = sites.map(rmsAt), first = values[0], last = values[values.length - 1],
            times = last / first;
      paint(canvas, values);
      text.textContent = `${short(first, 3)} → ${short(last, 3)}${
          Number.isFinite(times) && times > 0 ?
              times >= 1 ? `: ${short(times, 3)} times` : `: 1/${short(1 / times, 3)}` :
              ""}`;
      canvas.setAttribute("aria-label", `${sites.length} layers, ${text.textContent}`);
    }
  };
  const rebuild = async () => {
    await bins.load(["rms"]);
    pictures = [];
    const rows = rowsOfLayers();
    section.hidden = !rows.length;
    host.replaceChildren(...rows.map(({label, sites}) => {
      const canvas = el("canvas", {className: "layers", role: "img"}), text = el("div", {className: "faint"});
      canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
        const box = canvas.getBoundingClientRect(), part = ((event.clientX - box.left) / box.width) * WIDE;
        const i = Math.round(((part - 8) / (WIDE - 16)) * (sites.length - 1));
        goTo(0, sites[Math.min(Math.max(i, 0), sites.length - 1)], -1);
      });
      pictures.push({sites, canvas, text});
      return el(
          "div", {className: "chart"}, el("h3", {className: "name", textContent: visible(label, 80)}), canvas,
          text);
    }));
    draw();
  };
  onChange((changed) => {
    if (["kind", "isEval", "file"].some((key) => changed.has(key)))
      rebuild();
    else if (changed.has("step") || changed.has("data"))
      draw();
  });
  return rebuild();
}
