/* curves.js -- the numbers that the program logged.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {change, isOverlay, onChange, runs, UPDATES, view} from "./data.js";
import {el, fresh, visible} from "./dom.js";
import {notesOf, overlaid} from "./lines.js";

const AT_FIRST = 24;

/** What people look at first: losses, of training before others, norms of gradients, learning rates.
 * @param {string} name */
function importance(name) {
  const patterns = [/train.*loss|^loss\b/i, /loss/i, /grad.*norm|norm.*grad/i, /(^|\W)lr\b|learning.?rate/i];
  const found = patterns.findIndex((pattern) => pattern.test(name));
  return found < 0 ? patterns.length : found;
}

/** @typedef {{run: import("./data.js").Run, series: import("./data.js").Series}} Found */

/** The series of each name.
 * @returns {Map<string, Found[]>} */
function findNames() {
  const names = new Map();
  for (const run of runs)
    for (const series of run.numbers.series) {
      const name = run.sites[series.site].name;
      if (name.startsWith(UPDATES)) continue; /* in the map */
      if (!names.has(name)) names.set(name, []);
      names.get(name).push({run, series});
    }
  return names;
}

/** The chart of a number that was logged; null: no run has it.
 * @param {string} name @param {Map<string, Found[]>} names */
export function curveOf(name, names = findNames()) {
  const all = names.get(name);
  if (!all) return null;
  const key = `number:${name}`;
  if (isOverlay || view.axis !== "step")
    return {
      title: name,
      key,
      ...overlaid(
          all.map(({run, series}) => ({run, bins: run.numbers, series, names: ["value", "low", "high"]})))
    };
  const lines = all.map(({run, series}, i) => {
    const ranks = run.ranks, bins = run.numbers;
    const label =
        [
          runs.length > 1 ? visible(run.facts.path, 30) : "",
          ranks.length > 1 ? `rank ${ranks[series.file]}` : "", series.isEval ? "eval" : ""
        ].filter(Boolean)
            .join(" ") ||
        "value";
    const hasBand = bins.columns.low !== bins.columns.value && all.length <= 2;
    return {
      label,
      values: bins.values(series, "value"),
      color: i,
      dash: series.isEval ? [5, 4] : undefined,
      ...(hasBand ? {low: bins.values(series, "low"), high: bins.values(series, "high")} : {})
    };
  });
  const bins = all[0].run.numbers, bad = new Uint8Array(bins.steps.length);
  for (const {run, series} of all)
    run.numbers.badOf(series).forEach((b, i) => {
      bad[i] |= b;
    });
  return {
    title: name,
    key,
    axis: "step",
    x: bins.steps,
    lines,
    bad,
    notes: notesOf([...new Set(all.map(({run}) => run))])
  };
}

export function showCurves() {
  const names = findNames();
  if (!names.size) return;
  const section = fresh("curves");
  const sorted = [...names.keys()].sort((a, b) => importance(a) - importance(b) || (a < b ? -1 : 1));
  const grid = el("div", {className: "charts"});
  const filter =
      el("input", {type: "search", placeholder: "Filter by name", ariaLabel: "Filter curves by name"});
  const smooth =
      el("input", {type: "range", min: "0", max: "0.99", step: "0.01", value: String(view.smooth)});
  const log = el("input", {type: "checkbox", checked: view.log});
  filter.value = view.curveFilter;
  const more = el("button", {type: "button"});
  /** @type {Map<string, Chart>} */
  const shown = new Map();
  let most = AT_FIRST;
  const options = () => ({smooth: view.smooth, log: view.log});

  /** @param {string} name */
  const make = (name) => {
    const host = el("div", {className: "chart"});
    grid.append(host);
    shown.set(name, new Chart(host, {.../** @type {any} */ (curveOf(name, names)), ...options()}));
  };

  const update = () => {
    const wanted = sorted.filter((name) => name.toLowerCase().includes(filter.value.toLowerCase()));
    for (const chart of shown.values()) chart.remove();
    shown.clear();
    grid.replaceChildren();
    wanted.slice(0, most).forEach(make);
    more.hidden = wanted.length <= most;
    more.textContent = `Show ${Math.min(wanted.length - most, AT_FIRST)} more of ${wanted.length - most}`;
  };
  const restyle = () => {
    for (const chart of shown.values()) chart.draw(options());
  };
  filter.addEventListener("input", () => {
    view.curveFilter = filter.value;
    update();
  });
  smooth.addEventListener("input", () => {
    view.smooth = Number(smooth.value);
    restyle();
  });
  log.addEventListener("change", () => {
    view.log = log.checked;
    restyle();
  });
  const axis =
      el("select", {
        ariaLabel: "What the curves are drawn over",
        onchange: () => change({axis: axis.value, axisRange: null})
      },
         ...["step", "time", "samples"].map(
             (one) => el("option", {value: one, textContent: `By ${one}`, selected: one === view.axis})));
  onChange((changed) => {
    if (changed.has("data"))
      for (const [name, chart] of shown) chart.update({.../** @type {any} */ (curveOf(name)), ...options()});
    if (changed.has("axis") || changed.has("hidden")) update();
  });
  more.addEventListener("click", () => {
    most += AT_FIRST;
    update();
  });
  section.append(
      el("div", {className: "controls"}, sorted.length > 6 ? filter : null,
         el("label", {}, "Smoothing", smooth), el("label", {}, log, "Log scale"),
         runs.length > 1 ? axis : null, el("span", {
           className: "faint",
           textContent: "Drag to zoom, double click to show all, click to choose a step."
         })),
      grid, more);
  update();
}
