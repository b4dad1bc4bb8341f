/* pinned.js -- the charts that were pinned, at the top.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {curveOf} from "./curves.js";
import {loadColumns, onChange, view} from "./data.js";
import {el, fresh, visible} from "./dom.js";
import {sizeOf} from "./overlay.js";

/** The chart of a key; null: these runs have no such series.
 * @param {string} key @returns {any} */
function chartOf(key) {
  const name = key.slice(key.indexOf(":") + 1);
  if (key.startsWith("number:")) return curveOf(name);
  const options = key.startsWith("rms:") ? sizeOf(name) : null;
  return options && {...options, log: true};
}

export function showPinned() {
  /** @type {Map<string, Chart>} */
  const shown = new Map();
  const update = async () => {
    const {pins} = view;
    if (pins.some((key) => key.startsWith("rms:"))) await loadColumns("tensors", ["rms", "rms_low"]);
    if (pins !== view.pins) return; /* others meanwhile */
    for (const chart of shown.values()) chart.remove();
    shown.clear();
    const section = fresh("pinned"), grid = el("div", {className: "charts"});
    section.hidden = !pins.length;
    section.append(grid);
    for (const key of pins) {
      const options = chartOf(key), host = el("div", {className: "chart"});
      grid.append(host);
      if (options)
        shown.set(key, new Chart(host, {...options, smooth: view.smooth, log: options.log || view.log}));
      else
        host.append(el(
            "p", {className: "faint", textContent: `Pinned, but not in these runs: ${visible(key, 200)}`}));
    }
  };
  onChange((changed) => {
    if (["pins", "axis", "hidden"].some((key) => changed.has(key)))
      update();
    else if (changed.has("data"))
      for (const [key, chart] of shown) chart.update(chartOf(key));
  });
  return update();
}
