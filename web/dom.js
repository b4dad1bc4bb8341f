/* dom.js -- elements, numbers as text, colours.  Text is always set as text, never as markup.
 * SPDX-License-Identifier: Apache-2.0 */

/** @param {string} tag @param {Object<string, any>} [props] @param {...(Node|string|null|undefined)} children
 * @returns {any} */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on"))
      node.addEventListener(key.slice(2), value);
    else if (key in node) /** @type {any} */
      (node)[key] = value;
    else
      node.setAttribute(key, value);
  }
  for (const child of children)
    if (child !== null && child !== undefined) node.append(child);
  return node;
}

/** @param {string} id @returns {any} */
export function byId(id) { return document.getElementById(id); }

/** Empties a section down to its title, and shows it.
 * @param {string} id @returns {any} */
export function fresh(id) {
  const section = byId(id);
  section.replaceChildren(section.querySelector("h2"));
  section.hidden = false;
  return section;
}

/** Shows control characters and those that change the direction of text; cuts long text.
 * @param {string} text @param {number} [most] */
export function visible(text, most = 400) {
  const safe = text.replace(
      /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return safe.length > most ? `${safe.slice(0, most / 2)} … ${safe.slice(-most / 4)}` : safe;
}

/** @param {number} x @param {number} [digits] */
export function short(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  return size >= 1e6 || size < 1e-4 ? x.toExponential(digits > 4 ? digits - 1 : Math.max(digits - 2, 1)) :
                                      String(Number(x.toPrecision(digits)));
}

/** @param {number} bytes */
export function bytesText(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; bytes >= 1000 && i < 4; i++) bytes /= 1000;
  return `${short(bytes, 3)} ${units[i]}`;
}

/* ---- light and dark ---- */

const THEMES = ["system", "light", "dark"];
export const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
export let theme = "system";

/** @param {string} name of THEMES */
export function setTheme(name) {
  theme = name;
  const isDark = theme === "dark" || (theme === "system" && prefersDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").textContent = `Theme: ${theme}`;
}

export function nextTheme() { return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]; }

/** @param {string} name */
export function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* Viridis, and a blue-white-orange of Crameri's kind: both can be read by the colour-blind. */
const VIRIDIS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99],
  [170, 220, 50], [253, 231, 37]
];
const DIVERGING = [
  [5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222], [240, 240, 240], [253, 200, 130],
  [230, 145, 50], [179, 88, 6], [127, 59, 8]
];
export const NAN_COLOR = [227, 0, 111], INF_COLOR = [255, 255, 255];

/** @param {number[][]} stops @param {number} x from 0 to 1 @returns {number[]} */
function mix(stops, x) {
  const at = Math.min(Math.max(x, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2), part = at - i;
  return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * part));
}

/** A scale from values to colours, as 256 colours.
 * @param {boolean} isDiverging @returns {Uint8Array} */
function paletteOf(isDiverging) {
  const out = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) out.set(mix(isDiverging ? DIVERGING : VIRIDIS, i / 255), 3 * i);
  return out;
}
export const PALETTES = {
  plain: paletteOf(false),
  diverging: paletteOf(true)
};

/* Eight colours for lines (Okabe and Ito), and lighter ones of the same hues. */
const LINES_LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c6bb1"];
const LINES_DARK = ["#56b4e9", "#ff8c42", "#2fc79f", "#e6a3c8", "#f0c24a", "#8fd0f5", "#b0b0b0", "#b79fdd"];

/** The colour of line number i in the theme.
 * @param {number} i */
export function lineColor(i) {
  const isDark = document.documentElement.dataset.theme === "dark";
  return (isDark ? LINES_DARK : LINES_LIGHT)[i % LINES_LIGHT.length];
}

/** The line that is grey. */
export const GREY = 6;
