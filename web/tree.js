/* tree.js -- the module tree with classes and parameter counts, coloured by the map's statistic.
 * SPDX-License-Identifier: Apache-2.0 */
import {count, facts, onChange, runs, view} from "./data.js";
import {el, fresh, NAN_COLOR, PALETTES, short, visible} from "./dom.js";
import {shown, STATISTICS, valuesOf} from "./map.js";
import {goTo} from "./verdict.js";

const MOST = 2000;

/** @typedef {{swatch: any, value: any, sites: number[]}} Cell */

/** Parameters below a module, by path. */
function parameterCounts() {
  const counts = new Map();
  for (const site of runs[0].sites) {
    if (!site.name.startsWith("parameter/") || !site.count) continue;
    const parts = site.name.slice("parameter/".length).split(".");
    for (let n = 1; n <= parts.length; n++) {
      const path = parts.slice(0, n).join(".");
      counts.set(path, (counts.get(path) || 0) + site.count);
    }
  }
  return counts;
}

/** Parameters of the modules that a row stands for.
 * @param {Map<string, number>} counts @param {string[]} names */
function parametersOf(counts, names) {
  let sum = 0;
  for (const name of names) sum += counts.get(name.slice(name.indexOf("/") + 1)) || 0;
  return sum;
}

/** The value of a site at a bin, or the last before it: not every site is recorded at every step.
 * @param {number} site @param {number} bin */
function latest(site, bin) {
  for (const from of [Math.max(bin - 20, 0), 0]) {
    const values = valuesOf(runs[0], site, view.stat, Math.max(view.file, 0), view.isEval, from, bin + 1);
    for (let i = (values || []).length - 1; values && i >= 0; i--)
      if (!Number.isNaN(values[i])) return values[i];
  }
  return NaN;
}

export function showTree() {
  const run = runs[0], bins = run.tensors;
  if (!run.tree.length) return;
  const section = fresh("tree");
  const counts = parameterCounts(), list = el("ul", {className: "modules"});
  const note = el("p", {className: "faint"});
  section.append(note, list);
  const origin = facts.answers.find((one) => one.kind === "origin" && one.run === 0);
  const born = (origin && run.byName.get(origin.sites[0])) ?? -1;
  const words = {parameter: "its parameter", before: "it was computed from this", previous: ""};
  const roles = new Map((origin?.feeds || []).map((feed) => [run.byName.get(feed.site), words[feed.role]]));
  /** @type {Map<Element, Cell>} */
  const cells = new Map();
  let left = 0; /* rows that are not shown */

  /** @param {Cell} cell */
  const colour = ({swatch, value, sites}) => {
    const bin = bins.binOf(view.step), {scale} = shown;
    let most = NaN, isBad = false;
    for (const site of sites) {
      const series = bins.find(site, Math.max(view.file, 0), view.isEval), x = latest(site, bin);
      if (series && bins.bad[series.at + bin]) isBad = true;
      if (Number.isNaN(most) || Math.abs(x) > Math.abs(most)) most = x;
    }
    const palette = scale.isDiverging ? PALETTES.diverging : PALETTES.plain, unit = scale.toUnit(most),
          c = 3 * Math.round(Math.min(Math.max(unit, 0), 1) * 255);
    swatch.style.background = isBad ? `rgb(${NAN_COLOR})` :
        Number.isNaN(unit) ? "" :
                             `rgb(${palette[c]},${palette[c + 1]},${palette[c + 2]})`;
    value.textContent = isBad ? "not finite" : Number.isNaN(most) ? "" : short(most, 3);
    value.classList.toggle("alarm", isBad);
  };

  /** @type {Set<Element>} rows in sight: only they are coloured, but on paper all are */
  const inSight = new Set();
  const sight = new IntersectionObserver((entries) => {
    for (const {target, isIntersecting} of entries)
      if (!isIntersecting)
        inSight.delete(target);
      else if (cells.has(target)) {
        inSight.add(target);
        colour(/** @type {Cell} */ (cells.get(target)));
      }
  });
  window.onbeforeprint = () => cells.forEach(colour);

  const recolour = () => {
    note.textContent = `Coloured by ${/** @type {any} */ (STATISTICS)[view.stat].text} at ${
        bins.stepText(bins.binOf(
            view.step))}, as in the map.${left > 0 ? ` ${count(left)} more rows are only in the map.` : ""}`;
    for (const row of inSight) colour(/** @type {Cell} */ (cells.get(row)));
  };

  const rebuild = async () => {
    const statistic = /** @type {any} */ (STATISTICS)[view.stat];
    await bins.load(statistic.columns);
    cells.clear();
    inSight.clear();
    sight.disconnect();
    left = 0;
    let isInside = false;
    for (const row of run.tree) {
      if (row.depth === 0) isInside = row.label === view.kind;
      if (!isInside || row.depth === 0) continue;
      if (cells.size >= MOST) {
        left++;
        continue;
      }
      const sites = row.sites || [], names = sites.map((site) => run.sites[site].name);
      const swatch = el("span", {className: "swatch"}), value = el("span", {className: "n"});
      const role =
          sites.includes(born) ? "first NaN or Inf" : sites.map((site) => roles.get(site)).find(Boolean);
      const parameters = parametersOf(counts, names);
      const label = el(sites.length ? "button" : "span", {
        className: sites.length ? "link name" : "name",
        textContent: visible(row.label, 80) + (sites.length > 1 ? ` ×${sites.length}` : "") +
            (role ? `  ▲ ${role}` : ""),
        ...(sites.length ?
                {type: "button", onclick: () => goTo(0, (sites.includes(born) ? born : sites[0]), -1)} :
                {})
      });
      label.style.paddingLeft = `${(row.depth - 1) * 14}px`;
      const item =
          el("li", {className: role ? "origin" : ""}, swatch, label,
             el("span", {className: "faint wide", textContent: visible(row.class || "", 60)}), el("span", {
               className: "n faint wide",
               textContent: parameters ? count(parameters) : "",
               title: "parameters"
             }),
             value);
      cells.set(item, {swatch, value, sites});
      sight.observe(item);
    }
    list.replaceChildren(...cells.keys());
    recolour();
  };
  onChange((changed) => {
    if (["kind", "stat", "isEval", "file"].some((key) => changed.has(key)))
      rebuild();
    else if (changed.has("scale") || changed.has("step"))
      recolour();
  });
  return rebuild();
}
