/* map.js -- all layers x all steps, coloured by a statistic.
 * SPDX-License-Identifier: Apache-2.0 */
import {change, onChange, Run, runs, UPDATES, view} from "./data.js";
import {el, fresh, short} from "./dom.js";
import {Grid, legend} from "./grid.js";
import {goTo} from "./verdict.js";

/** @typedef {import("./grid.js").GridRow} GridRow
 * @typedef {import("./data.js").TreeRow} TreeRow */

/** name, text, columns, how several sites become one cell, and the kind of scale */
export const STATISTICS = {
  rms: {text: "rms", columns: ["rms"], scale: "log"},
  absmax: {text: "largest absolute value", columns: ["min", "max"], scale: "log"},
  mean: {text: "mean", columns: ["mean"], scale: "signed"},
  std: {text: "standard deviation", columns: ["std"], scale: "log"},
  zeros: {text: "share of zeros", columns: ["zeros"], scale: "share"},
  norm: {text: "norm (l2)", columns: ["rms"], scale: "log"},
  ratio: {text: "gradient to weight ratio", columns: ["rms"], scale: "log"},
  update: {text: "update to weight ratio", columns: ["rms"], scale: "log"},
  bad: {text: "NaN or Inf only", columns: [], scale: "share"},
};

/** The values of a site, one for each bin.
 * @param {Run} run @param {number} site @param {string} stat @param {number} file @param {boolean} isEval
 * @returns {Float32Array|null} */
export function valuesOf(run, site, stat, file, isEval) {
  const bins = run.tensors, series = bins.find(site, file, isEval);
  if (!series) return null;
  const n = bins.steps.length;
  if (stat === "bad") return Float32Array.from(bins.badOf(series), () => NaN);
  if (stat === "absmax") {
    const low = bins.values(series, "min"), high = bins.values(series, "max");
    return Float32Array.from({length: n}, (_, i) => Math.max(Math.abs(low[i]), Math.abs(high[i])));
  }
  if (stat === "norm")
    return bins.values(series, "rms").map((x) => x * Math.sqrt(run.sites[site].count || 1));
  if (stat === "ratio") {
    const name = run.sites[site].name, rest = name.slice(name.indexOf("/") + 1);
    const weight = run.byName.get(`parameter/${rest}`), gradient = run.byName.get(`gradient/${rest}`);
    const a = gradient === undefined ? undefined : bins.find(gradient, file, isEval),
          b = weight === undefined ? undefined : bins.find(weight, file, isEval);
    if (!a || !b) return null;
    const g = bins.values(a, "rms"), w = bins.values(b, "rms");
    return Float32Array.from({length: n}, (_, i) => (w[i] > 0 ? g[i] / w[i] : NaN));
  }
  if (stat === "update") {
    const name = run.sites[site].name, rest = name.slice(name.indexOf("/") + 1);
    const number = run.byName.get(UPDATES + rest);
    const found = number === undefined ? undefined : run.numbers.find(number, file, isEval);
    if (!found) return null;
    const out = new Float32Array(n).fill(NaN), values = run.numbers.values(found, "high");
    run.numbers.steps.forEach((step, i) => {
      const bin = bins.binOf(step);
      if (!(values[i] <= out[bin])) out[bin] = values[i];
    });
    return out;
  }
  return bins.values(series, stat);
}

/** Carries values on to the bins after them, where a site is recorded less often than others.
 * @param {Float32Array} values */
function carried(values) {
  let missing = 0;
  for (let i = 0; i < values.length; i++) missing += Number(Number.isNaN(values[i]));
  if (missing === 0 || missing > values.length - 2) return values;
  const at = new Int32Array(values.length - missing);
  for (let i = 0, k = 0; i < values.length; i++)
    if (!Number.isNaN(values[i])) at[k++] = i;
  const gaps = at.slice(1).map((x, i) => x - at[i]).sort(), usual = gaps[gaps.length >> 1];
  if (usual < 2) return values;
  const out = values.slice();
  for (const i of at)
    for (let k = i + 1; k < Math.min(i + usual, out.length) && Number.isNaN(values[k]); k++)
      out[k] = values[i];
  return out;
}

/** @param {Float32Array} values */
function medianOf(values) {
  const sorted = values.filter((x) => Number.isFinite(x) && x !== 0).map(Math.abs).sort();
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

const OUTLIER = 1000; /* times what 9 of 10 values stay below */

/** From values to colours, for all values of these rows.
 * @param {Float32Array[]} all @param {string} kind */
export function scaleOf(all, kind) {
  if (kind === "share")
    return {
      scale: {toUnit: (/** @type {number} */ x) => x, isDiverging: false},
      texts: /** @type {[string, string, string]} */ (["0", "", "100 %"])
    };
  if (kind === "relative")
    return {
      scale: {toUnit: (/** @type {number} */ x) => x / 8 + 0.5, isDiverging: true},
      texts: /** @type {[string, string, string]} */ (["1/16", "its own median", "16 times"])
    };
  let low = Infinity, high = 0, top = "";
  const every = Math.ceil(all.reduce((n, values) => n + values.length, 0) / 20000), some = [];
  let number = 0;
  for (const values of all)
    for (let i = 0; i < values.length; i++) {
      const size = Math.abs(values[i]);
      if (!(size > 0) || size === Infinity) continue;
      if (size > high) high = size;
      if (size < low) low = size;
      if (number++ % every === 0) some.push(size);
    }
  const sample = Float32Array.from(some).sort();
  if (sample.length) {
    low = Math.max(low, sample[Math.floor(sample.length * 0.01)]);
    const most = OUTLIER * sample[Math.floor(sample.length * 0.9)];
    if (high > most) { /* a few huge values must not take all colours */
      high = sample.filter((size) => size <= most).at(-1) || high;
      top = "≥ ";
    }
  }
  if (!(high > 0)) {
    low = 1e-3;
    high = 1;
  }
  if (kind === "signed") {
    const small = Math.max(low, high * 1e-4), top = Math.log1p(high / small);
    return {
      scale: {
        toUnit: (/** @type {number} */ x) => 0.5 + 0.5 * Math.sign(x) * Math.log1p(Math.abs(x) / small) / top,
        isDiverging: true
      },
      texts: /** @type {[string, string, string]} */ ([short(-high, 2), "0", top + short(high, 2)])
    };
  }
  const from = Math.log(Math.max(low, high * 1e-9)), span = Math.log(high) - from || 1;
  return {
    scale: {
      toUnit: (/** @type {number} */ x) =>
          (x > 0       ? (Math.log(x) - from) / span :
               x === 0 ? 0 :
                         NaN),
      isDiverging: false
    },
    texts: /** @type {[string, string, string]} */ ([short(Math.exp(from), 2), "", top + short(high, 2)])
  };
}

/** @typedef {{row: TreeRow, label: string}} Line */

/** The rows of a kind with their whole names.
 * @param {Run} run @param {string} kind @returns {Line[]} */
export function linesOf(run, kind) {
  const out = [], path = [];
  let isInside = false;
  for (const row of run.tree) {
    if (row.depth === 0) isInside = row.label === kind;
    if (!isInside) continue;
    path.length = Math.max(row.depth - 1, 0);
    if (row.depth > 0) path.push(row.label);
    const joint = kind === "line" ? ":" : ".";
    if (row.sites) out.push({row, label: path.join(joint) || row.label});
  }
  return out;
}

/** The kinds of tensors that have series.
 * @param {Run} run */
export function kindsOf(run) {
  const tensors = new Set((run.tensors.series).map((series) => series.site));
  const kinds = new Set();
  let kind = "";
  for (const row of run.tree) {
    if (row.depth === 0) kind = row.label;
    if (row.sites && row.sites.some((site) => tensors.has(site))) kinds.add(kind);
  }
  return [...kinds].sort((a, b) => Number(b === "activation") - Number(a === "activation"));
}

/** Statistic, kind, phase and rank: shared by the map and the module tree.
 * @param {string} label @param {Object<string, string>} options @param {keyof import("./data.js").View} key @param {(text: string) => any} parse */
function chooser(label, options, key, parse) {
  const select =
      el("select", {},
         ...Object.entries(options).map(([value, text]) => el("option", {value, textContent: text})));
  const update = () => {
    select.value = String(view[key]);
  };
  select.addEventListener("change", () => change({[key]: parse(select.value)}));
  onChange((changed) => {
    if (changed.has(key)) update();
  });
  update();
  return el("label", {}, label, select);
}

export async function showMap() {
  const run = runs[0], bins = run.tensors;
  if (!bins.series.length) return;
  const section = fresh("map"), kinds = kindsOf(run);
  if (!kinds.includes(view.kind)) change({kind: kinds[0]});
  const filter =
      el("input", {type: "search", placeholder: "Filter by name", ariaLabel: "Filter rows by name"});
  filter.value = view.mapFilter;
  const unfold = el("button", {type: "button", textContent: "Unfold all"});
  const hasUpdates = run.sites.some((site) => site.name.startsWith(UPDATES));
  const hasEval = bins.series.some((series) => series.isEval), ranks = run.facts.ranks;
  section.append(el(
      "div", {className: "controls"},
      chooser("Show", Object.fromEntries(kinds.map((kind) => [kind, kind || "(none)"])), "kind", String),
      chooser(
          "Colour",
          Object.fromEntries(
              Object.entries(STATISTICS)
                  .map(([
                         name, one
                       ]) => [name, one.text + (name === "update" && !hasUpdates ? " (not recorded)" : "")])),
          "stat", String),
      chooser(
          "Scale", {false: "absolute", true: "relative to its own history"}, "relative",
          (text) => text === "true"),
      hasEval ?
          chooser("Phase", {false: "training", true: "evaluation"}, "isEval", (text) => text === "true") :
          null,
      ranks.length > 1 ?
          chooser(
              "Rank",
              Object.fromEntries(
                  [...ranks.map((rank, i) => [String(i), `rank ${rank}`]), ["-1", "all ranks (largest)"]]),
              "file", Number) :
          null,
      filter, unfold));
  const legendHost = el("div", {});
  const grid = new Grid(section, "Map of layers and steps");
  section.append(legendHost);
  /** @type {Line[]} */
  let lines = [];
  const keyOf = (/** @type {Line} */ line) => `${view.kind}/${line.label}`;
  const isOpen = (/** @type {Line} */ line) =>
      (line.row.sites || []).length > 1 && view.unfolded.has(keyOf(line));

  /** One row of values for several sites: the largest.
   * @param {number[]} sites */
  const rowOf = (sites) => {
    const n = bins.steps.length, files = view.file < 0 ? ranks.map((_, i) => i) : [view.file];
    let joined = /** @type {Float32Array|null} */ (null), bad = /** @type {Uint8Array|null} */ (null);
    for (const site of sites)
      for (const file of files) {
        const values = valuesOf(run, site, view.stat, file, view.isEval),
              series = bins.find(site, file, view.isEval);
        if (series) {
          const own = bins.badOf(series);
          bad = bad || new Uint8Array(n);
          for (let i = 0; i < n; i++) bad[i] |= own[i];
        }
        if (!values) continue;
        let own = carried(values);
        if (view.relative) {
          const median = medianOf(values);
          own = own.map((x) => (x > 0 || view.stat === "mean" ? Math.log2(Math.abs(x) / median) : NaN));
        }
        if (!joined) {
          joined = own.slice();
          continue;
        }
        for (let i = 0; i < n; i++)
          if (Number.isNaN(joined[i]) || Math.abs(own[i]) > Math.abs(joined[i])) joined[i] = own[i];
      }
    return {
      values: joined || new Float32Array(n).fill(NaN),
      bad,
      isBad: bad !== null && bad.some((b) => b !== 0)
    };
  };

  const rebuild = async () => {
    const statistic = /** @type {any} */ (STATISTICS)[view.stat];
    await bins.load(statistic.columns);
    lines = linesOf(run, view.kind);
    /** @type {GridRow[]} */
    const rows = [];
    const wanted = filter.value.toLowerCase();
    /** @param {string} label @param {number[]} sites @param {Partial<GridRow>} more */
    const add = (label, sites, more) => {
      const made = rowOf(sites);
      rows.push({
        label,
        site: sites[0],
        sites,
        values: () => made.values,
        bad: () => made.bad,
        isMarked: made.isBad,
        ...more
      });
    };
    for (const line of lines) {
      const sites =
          (line.row.sites ||
           []).filter((site) => bins.find(site, Math.max(view.file, 0), view.isEval) || view.file < 0);
      if (!sites.length ||
          (wanted && !line.label.toLowerCase().includes(wanted) &&
           !sites.some((site) => run.sites[site].name.toLowerCase().includes(wanted))))
        continue;
      const times = sites.length > 1 ? ` ×${sites.length}` : "";
      add(line.label + times, sites,
          {fold: sites.length > 1 ? (isOpen(line) ? "open" : "closed") : null, ...{ line }});
      if (isOpen(line))
        for (const site of sites) add(run.sites[site].name.slice(view.kind.length + 1), [site], {indent: 1});
    }
    const {scale, texts} =
        scaleOf(rows.map((row) => row.values()), view.relative ? "relative" : statistic.scale);
    legendHost.replaceChildren(legend(scale, texts));
    grid.show({
      rows,
      bins,
      scale,
      describe: (row, bin) => {
        const x = row.values()[bin], bad = row.bad();
        const text =
            view.relative ? (Number.isNaN(x) ? "–" : `${short(2 ** x, 3)} times its median`) : short(x);
        return `${row.label}, ${bins.stepText(bin)}: ${statistic.text} ${text}${
            bad && bad[bin] ? (bad[bin] & 1 ? ", holds NaN" : ", holds Inf") : ""}`;
      },
      onPick: (row) => goTo(0, row.site, -1),
      onFold: (row) => {
        const line = /** @type {any} */ (row).line;
        if (line) {
          const key = keyOf(line);
          if (!view.unfolded.delete(key)) view.unfolded.add(key);
          rebuild();
        }
      },
    });
  };
  filter.addEventListener("input", () => {
    view.mapFilter = filter.value;
    rebuild();
  });
  unfold.addEventListener("click", () => {
    const open = !lines.some(isOpen);
    view.unfolded.clear();
    if (open)
      for (const line of lines) view.unfolded.add(keyOf(line));
    unfold.textContent = open ? "Fold all" : "Unfold all";
    rebuild();
  });
  onChange(async (changed) => {
    if (["kind", "stat", "relative", "isEval", "file", "data"].some((key) => changed.has(key)))
      await rebuild();
    if (changed.has("site") && view.run === 0) grid.select(view.site);
  });
  await rebuild();
}
