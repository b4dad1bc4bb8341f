/* save.js -- a chart as a file: SVG, PNG or CSV.
 *
 * The picture is drawn anew as SVG, and the PNG from that, so that both have title and legend.
 * SPDX-License-Identifier: Apache-2.0 */
import {cssColor, el, short, visible} from "./dom.js";

/** @typedef {{name: string, values: ArrayLike<number>, steps?: ArrayLike<number>}} Column
 * @typedef {{x: (number|null)[], label: string, lines: {label: string, color: string, dash: number[],
 *   values: (number|null)[], isBand: boolean}[], min: number, max: number, low: number, high: number,
 *   isLog: boolean}} Drawn */

const WIDTH = 960, HEIGHT = 480, LEFT = 78, RIGHT = 20, TOP = 46, BOTTOM = 46, LEGEND = 20;
const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag
 * @param {Object<string, string|number>} values @param {string} [text] */
function node(tag, values, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(values)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Some five round numbers from low to high.
 * @param {number} low @param {number} high @param {boolean} isLog */
export function ticksOf(low, high, isLog) {
  const ticks = [];
  if (isLog) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const apart = Math.max(Math.ceil((last - first + 1) / 6), 1);
    for (let i = first; i <= last; i += apart) ticks.push(10 ** i);
    if (ticks.length > 1) return ticks;
    return [low, high];
  }
  const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const apart = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
  for (let x = Math.ceil(low / apart) * apart; x <= high + apart * 1e-9 && ticks.length < 20; x += apart)
    ticks.push(Math.abs(x) < apart * 1e-9 ? 0 : x);
  return ticks;
}

/** A picture of what is drawn.
 * @param {string} title @param {Drawn} drawn */
export function svgOf(title, drawn) {
  const {x, lines, min, max, low, high, isLog} = drawn;
  const named = lines.filter((line) => !line.isBand);
  const across = WIDTH - LEFT - RIGHT, rows = Math.ceil(named.length / 2), down = HEIGHT - TOP - BOTTOM;
  const all = HEIGHT + rows * LEGEND;
  const unit = (/** @type {number} */ v) =>
      isLog ? Math.log(v / low) / Math.log(high / low || 2) : (v - low) / (high - low || 1);
  const atX = (/** @type {number} */ v) => LEFT + ((v - min) / (max - min || 1)) * across;
  const atY = (/** @type {number} */ v) => TOP + (1 - unit(v)) * down;
  const svg = node("svg", {xmlns: SVG, width: WIDTH, height: all, viewBox: `0 0 ${WIDTH} ${all}`});
  const text = cssColor("--text"), faint = cssColor("--faint"), grid = cssColor("--line");
  const words = {"font-family": "system-ui, Helvetica, Arial, sans-serif", "font-size": 14};
  svg.append(
      node("rect", {width: WIDTH, height: all, fill: cssColor("--ground")}),
      node("text", {...words, x: LEFT, y: 26, fill: text, "font-weight": 600}, visible(title, 100)));
  for (const tick of ticksOf(low, high, isLog)) {
    const y = atY(tick).toFixed(1);
    svg.append(
        node("line", {x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, stroke: grid}),
        node(
            "text",
            {...words, x: LEFT - 8, y, fill: faint, "text-anchor": "end", "dominant-baseline": "middle"},
            short(tick, 3)));
  }
  for (const tick of ticksOf(min, max, false))
    svg.append(node(
        "text",
        {...words, x: atX(tick).toFixed(1), y: HEIGHT - BOTTOM + 20, fill: faint, "text-anchor": "middle"},
        short(tick, 6)));
  svg.append(node(
      "text", {...words, x: WIDTH - RIGHT, y: HEIGHT - 8, fill: faint, "text-anchor": "end"}, drawn.label));
  for (const line of lines) {
    const points = line.values.flatMap((v, i) => {
      const at = x[i];
      return v === null || at === null || at < min || at > max ?
          [] :
          [`${atX(at).toFixed(1)},${Math.min(Math.max(atY(v), TOP), TOP + down).toFixed(1)}`];
    });
    svg.append(node("polyline", {
      points: points.join(" "),
      fill: "none",
      stroke: line.color,
      "stroke-width": line.isBand ? 0.7 : 1.6,
      "stroke-dasharray": line.dash.join(" ") || "none"
    }));
  }
  named.forEach((line, i) => {
    const left = LEFT + (i % 2) * (across / 2), y = HEIGHT + Math.floor(i / 2) * LEGEND + 2;
    svg.append(
        node("line", {
          x1: left,
          x2: left + 28,
          y1: y,
          y2: y,
          stroke: line.color,
          "stroke-width": 2.5,
          "stroke-dasharray": line.dash.join(" ") || "none"
        }),
        node(
            "text", {...words, x: left + 36, y, fill: text, "dominant-baseline": "middle"},
            visible(line.label, 56)));
  });
  return svg;
}

/** @param {string} text of a cell */
function quoted(text) {
  const safe = /^[=+@\t\r-]/.test(text) ? `'${text}` : text; /* no spreadsheet runs a name */
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The digits that a number of 32 bits has.
 * @param {number} x */
function digits(x) { return Number.isNaN(x) ? "" : String(Number(x.toPrecision(8))); }

/** @param {Column[]} columns */
export function csvOf(columns) {
  const rows = [columns.map((column) => quoted(column.name)).join(",")];
  const count = columns[0] ? columns[0].values.length : 0;
  for (let i = 0; i < count; i++) {
    const cells = columns.map((column) => digits(column.values[i]));
    if (cells.slice(1).some((cell) => cell !== "")) rows.push(cells.join(","));
  }
  return `${rows.join("\n")}\n`;
}

/** Lets the browser save a file.
 * @param {string} name @param {Blob} blob */
function download(name, blob) {
  const link = el("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** @param {SVGElement|Element} svg @returns {Promise<Blob>} */
async function pngOf(svg) {
  const image = new Image();
  image.src =
      `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const canvas = el("canvas", {width: image.width * 2, height: image.height * 2});
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(
      (done, failed) => canvas.toBlob(
          (/** @type {Blob|null} */ blob) => (blob ? done(blob) : failed(new Error("no picture"))),
          "image/png"));
}

/** Saves a chart.
 * @param {"PNG"|"SVG"|"CSV"} kind @param {string} title @param {() => Drawn} drawn @param {() => Column[]} columns */
export async function saveChart(kind, title, drawn, columns) {
  const name = `${visible(title, 80).replace(/[^\w.-]+/g, "_") || "chart"}.${kind.toLowerCase()}`;
  if (kind === "CSV") return download(name, new Blob([csvOf(columns())], {type: "text/csv"}));
  const svg = svgOf(title, drawn());
  if (kind === "PNG") return download(name, await pngOf(svg));
  download(name, new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"}));
}
