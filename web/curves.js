/* curves.js -- the numbers that the program logged.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {onChange, runs, UPDATES, view} from "./data.js";
import {el, fresh, visible} from "./dom.js";

const AT_FIRST = 24;

/** What people look at first: losses, of training before others, norms of gradients, learning rates.
 * @param {string} name */
function importance(name) {
  const patterns = [/train.*loss|^loss\b/i, /loss/i, /grad.*norm|norm.*grad/i, /(^|\W)lr\b|learning.?rate/i];
  const found = patterns.findIndex((pattern) => pattern.test(name));
  return found < 0 ? patterns.length : found;
}

export function showCurves() {
  const names = new Map();
  for (const run of runs)
    for (const series of run.numbers.series) {
      const name = run.sites[series.site].name;
      if (name.startsWith(UPDATES)) continue; /* in the map */
      if (!names.has(name)) names.set(name, []);
      names.get(name).push({run, series});
    }
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
  const linesOfName = (name) => {
    const all = names.get(name);
    const lines = all.map((/** @type {any} */ {run, series}, /** @type {number} */ i) => {
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
      run.numbers.badOf(series).forEach((/** @type {number} */ b, /** @type {number} */ i) => {
        bad[i] |= b;
      });
    return {x: bins.steps, lines, bad};
  };

  /** @param {string} name */
  const make = (name) => {
    const host = el("div", {className: "chart"});
    grid.append(host);
    shown.set(name, new Chart(host, {title: name, ...linesOfName(name), ...options()}));
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
  onChange((changed) => {
    if (changed.has("data"))
      for (const [name, chart] of shown) chart.update(linesOfName(name));
  });
  more.addEventListener("click", () => {
    most += AT_FIRST;
    update();
  });
  section.append(
      el("div", {className: "controls"}, sorted.length > 6 ? filter : null,
         el("label", {}, "Smoothing", smooth), el("label", {}, log, "Log scale"), el("span", {
           className: "faint",
           textContent: "Drag to zoom, double click to show all, click to choose a step."
         })),
      grid, more);
  update();
}
