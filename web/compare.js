/* compare.js -- two runs: where they diverge, both curves and their difference.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {count, facts, loadDifferences, onChange, runs, view} from "./data.js";
import {el, fresh, GREY, short, visible} from "./dom.js";
import {Grid, legend} from "./grid.js";
import {goTo} from "./verdict.js";

const LISTED = 10, MAPPED = 400;

/** Relative difference of two rows, for each bin.
 * @param {Float32Array} a @param {Float32Array} b */
function deviations(a, b) {
  return a.map((x, i) => {
    const size = Math.max(Math.abs(x), Math.abs(b[i]));
    return Number.isNaN(x) || Number.isNaN(b[i]) ? NaN : size === 0 ? 0 : Math.abs(x - b[i]) / size;
  });
}

export async function showCompare() {
  const differences = runs.length > 1 ? await loadDifferences() : null;
  if (!differences) return;
  const [a, b] = runs, section = fresh("compare");
  const size = (/** @type {number|string|undefined} */ x) => (x === undefined ? 0 : Number(x));
  const differing =
      differences.filter((one) => one.verdict === "differs")
          .sort(
              (p, q) => Number(q.first) - Number(p.first) || (p.first_step || 0) - (q.first_step || 0) ||
                  size(q.deviation) - size(p.deviation));
  const tally = new Map();
  for (const one of differences) tally.set(one.verdict, (tally.get(one.verdict) || 0) + 1);
  section.append(el("p", {
    className: "faint",
    textContent:
        `A is ${visible(facts.runs[0].path, 120)}, B is ${visible(facts.runs[1].path, 120)}. Sites: ${
                [...tally].map(([verdict, n]) => `${count(n)} ${verdict}`).join(", ")}.`
  }));
  const charts = el("div", {className: "charts wide"});
  if (differing.length) {
    section.append(el(
        "div", {className: "scrollx"},
        el("table", {className: "plain"},
           el("thead", {},
              el("tr", {},
                 ...["site that differs", "from step", "field", "A", "B", "largest difference",
                     "rounding explains"]
                     .map((text, i) => el("th", {className: i && i !== 2 ? "n" : "", textContent: text})))),
           el("tbody", {},
              ...differing.slice(0, LISTED).map(
                  (one) =>
                      el("tr", {}, el("td", {}, el("button", {
                                        type: "button",
                                        className: "link name",
                                        textContent: visible(one.name, 120),
                                        onclick: () => {
                                          drawPair(one.name);
                                          if (one.a >= 0) goTo(0, one.a, one.first_step ?? -1);
                                        }
                                      })),
                         ...[one.first_step, one.field, one.value_a, one.value_b,
                             short(size(one.deviation), 2), short(size(one.floor), 2)]
                             .map(
                                 (x, i) =>
                                     el("td", {className: i === 1 ? "" : "n", textContent: String(x)}))))))));
    if (differing.length > LISTED)
      section.append(el("p", {
        className: "faint",
        textContent: `and ${differing.length - LISTED} more; the map below has them.`
      }));
  }
  section.append(charts);
  /** @type {Chart[]} */
  let pair = [], shownPair = "";

  /** @param {string} name */
  async function drawPair(name) {
    shownPair = name;
    for (const chart of pair) chart.remove();
    pair = [];
    charts.replaceChildren();
    const sites = [a.byName.get(name), b.byName.get(name)];
    const found = [a, b].map((run, i) => {
      const site = sites[i];
      return site === undefined ? null : run.seriesOf(site);
    });
    if (!found[0] || !found[1]) return;
    const column = found[0].bins === a.tensors ? "rms" : "value";
    for (const one of found)
      if (one) await one.bins.load([column]);
    const values =
        found.map((one) => /** @type {any} */ (one).bins.values(/** @type {any} */ (one).series, column));
    const x = found[0].bins.steps, floor = size(differences?.find((one) => one.name === name)?.floor);
    const hosts = [el("div", {className: "chart"}), el("div", {className: "chart"})];
    charts.append(...hosts);
    pair.push(
        new Chart(hosts[0], {
          title: `${name}: ${column}`,
          x,
          height: 200,
          lines: [
            {label: "A", values: values[0], color: 0}, {label: "B", values: values[1], color: 1, dash: [6, 3]}
          ]
        }),
        new Chart(hosts[1], {
          title: "Relative difference, and what rounding explains",
          x,
          height: 200,
          log: true,
          lines: [
            {label: "difference", values: deviations(values[0], values[1]), color: 3}, {
              label: "rounding",
              values: new Float32Array(x.length).fill(floor || NaN),
              color: GREY,
              dash: [3, 3]
            }
          ]
        }));
  }
  const first = differing[0] ||
      differences.find((one) => one.verdict !== "only in the first" && one.verdict !== "only in the second");
  if (first) await drawPair(first.name);

  const bins = a.tensors;
  onChange((changed) => {
    if (changed.has("data") && shownPair) drawPair(shownPair);
  });
  if (!differing.length) return;
  await bins.load(["rms"]);
  await b.tensors.load(["rms"]);
  const host = el("div", {});
  section.append(el("h3", {textContent: "Map of differences (rms)"}), host);
  const rows = [];
  for (const one of [...differing, ...differences.filter((other) => other.verdict === "noise")].slice(
           0, MAPPED)) {
    const i = a.byName.get(one.name), k = b.byName.get(one.name);
    const p = i === undefined ? undefined : bins.find(i, 0, view.isEval),
          q = k === undefined ? undefined : b.tensors.find(k, 0, view.isEval);
    if (!p || !q || i === undefined) continue;
    const values = deviations(bins.values(p, "rms"), b.tensors.values(q, "rms"));
    const bad = bins.badOf(p).map((x, n) => (b.tensors.badOf(q)[n] !== x ? 1 : 0));
    rows.push({
      label: one.name,
      site: i,
      values: () => values,
      bad: () => bad,
      isMarked: () => one.verdict === "differs"
    });
  }
  if (!rows.length) return;
  const scale = {
    toUnit: (/** @type {number} */ x) => (x === 0 ? 0 : 1 + Math.log10(x) / 8),
    isDiverging: false
  };
  new Grid(host, "Map of differences").show({
    bins,
    scale,
    rows,
    describe: (row, bin) =>
        `${row.label}, ${bins.stepText(bin)}: relative difference ${short(row.values()[bin], 2)}`,
    onPick: (row) => {
      drawPair(row.label);
      goTo(0, row.site, -1);
    }
  });
  host.append(legend(scale, ["1e-8", "1e-4", "1"]));
  onChange((changed) => {
    if (changed.has("site") && view.run === 0 && a.sites[view.site]) drawPair(a.sites[view.site].name);
  });
}
