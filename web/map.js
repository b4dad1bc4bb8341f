/* map.js -- all layers x all steps, coloured by a statistic.
 * SPDX-License-Identifier: Apache-2.0 */
import {announce, change, onChange, Run, runs, UPDATES, view} from "./data.js";
import {el, fresh, short} from "./dom.js";
import {Grid, legend} from "./grid.js";
import {Range} from "./scale.js";
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

/** The values of a site, one for each bin from `from` to before `to`.
 * @param {Run} run @param {number} site @param {string} stat @param {number} file @param {boolean} isEval
 * @param {number} [from] @param {number} [to] @returns {Float32Array|null} */
export function valuesOf(run, site, stat, file, isEval, from = 0, to = run.tensors.steps.length) {
  const bins = run.tensors, series = bins.find(site, file, isEval);
  if (!series) return null;
  const column = (/** @type {import("./data.js").Series} */ one, /** @type {string} */ name) =>
      bins.values(one, name, from, to);
  const rest = () => {
    const name = run.sites[site].name;
    return name.slice(name.indexOf("/") + 1);
  };
  if (stat === "bad") return new Float32Array(to - from).fill(NaN);
  if (stat === "absmax") {
    const low = column(series, "min");
    return column(series, "max").map((high, i) => Math.max(Math.abs(low[i]), Math.abs(high)));
  }
  if (stat === "norm") {
    const root = Math.sqrt(run.sites[site].count || 1);
    return column(series, "rms").map((x) => x * root);
  }
  if (stat === "ratio") {
    const weight = run.byName.get(`parameter/${rest()}`), gradient = run.byName.get(`gradient/${rest()}`);
    const a = gradient === undefined ? undefined : bins.find(gradient, file, isEval),
          b = weight === undefined ? undefined : bins.find(weight, file, isEval);
    if (!a || !b) return null;
    const w = column(b, "rms");
    return column(a, "rms").map((g, i) => (w[i] > 0 ? g / w[i] : NaN));
  }
  if (stat === "update") {
    const numbers = run.numbers, number = run.byName.get(UPDATES + rest());
    const found = number === undefined ? undefined : numbers.find(number, file, isEval);
    if (!found) return null;
    const out = new Float32Array(to - from).fill(NaN), values = numbers.values(found, "high");
    for (let i = from > 0 ? numbers.binOf(bins.steps[from]) : 0; i < values.length; i++) {
      const bin = bins.binOf(numbers.steps[i]) - from;
      if (bin >= out.length) break;
      if (bin >= 0 && !(values[i] <= out[bin])) out[bin] = values[i];
    }
    return out;
  }
  return column(series, stat);
}

/** How many bins are usually between two values of a site that is recorded less often than others;
 * 1: none are.
 * @param {Float32Array} values */
function gapOf(values) {
  let missing = 0;
  for (let i = 0; i < values.length; i++) missing += Number(Number.isNaN(values[i]));
  if (missing === 0 || missing > values.length - 2) return 1;
  const at = new Int32Array(values.length - missing);
  for (let i = 0, k = 0; i < values.length; i++)
    if (!Number.isNaN(values[i])) at[k++] = i;
  const gaps = at.slice(1).map((x, i) => x - at[i]).sort();
  return gaps[gaps.length >> 1];
}

/** @param {Float32Array} values */
function medianOf(values) {
  const sorted = values.filter((x) => Number.isFinite(x) && x !== 0).map(Math.abs).sort();
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

/** The values of several sites as one row: the largest of each bin.  As a run grows, the row is read on. */
class Joined {
  /** @param {Run} run @param {number[]} sites */
  constructor(run, sites) {
    const files = view.file < 0 ? run.ranks.map((_, i) => i) : [view.file];
    this.run = run;
    this.parts = sites.flatMap((site) => files.map((file) => ({site, file, gap: 1, median: NaN})));
    this.n = 0;
    this.room = {values: new Float32Array(0), bad: new Uint8Array(0)}; /* for n bins and more */
  }

  get values() { return this.room.values.subarray(0, this.n); }
  get bad() { return this.room.bad.subarray(0, this.n); }

  /** Reads the bins from `from` on; from the first one, gaps and medians as well.
   * @param {number} from @param {Range} range what is read widens it */
  read(from, range) {
    this.n = this.run.tensors.steps.length;
    if (this.n > this.room.values.length) {
      const more = Math.ceil(this.n * 1.5), {values, bad} = this.room;
      this.room = {values: new Float32Array(more), bad: new Uint8Array(more)};
      this.room.values.set(values);
      this.room.bad.set(bad);
    }
    for (let i = from; i < this.n; i++) {
      this.room.values[i] = NaN;
      this.room.bad[i] = 0;
    }
    for (const part of this.parts) this.join(part, from, range);
  }

  /** @param {{site: number, file: number, gap: number, median: number}} part @param {number} from @param {Range} range */
  join(part, from, range) {
    const {run, n} = this, {values, bad} = this.room, {site, file} = part, bins = run.tensors;
    const series = bins.find(site, file, view.isEval);
    for (let i = from; series && i < n; i++) bad[i] |= bins.bad[series.at + i];
    const start = Math.max(from - part.gap + 1, 0); /* a value before may hold on */
    const own = valuesOf(run, site, view.stat, file, view.isEval, start);
    if (!own) return;
    range.add(own);
    if (from === 0) {
      part.gap = gapOf(own);
      part.median = view.relative ? medianOf(own) : NaN;
    }
    for (let i = start, last = NaN, age = 0; i < n; i++) {
      let x = own[i - start];
      if (Number.isNaN(x) && ++age < part.gap)
        x = last;
      else {
        last = x;
        age = 0;
      }
      if (i < from) continue;
      if (view.relative) x = x > 0 || view.stat === "mean" ? Math.log2(Math.abs(x) / part.median) : NaN;
      if (Number.isNaN(values[i]) || Math.abs(x) > Math.abs(values[i])) values[i] = x;
    }
  }
}

/* The absolute scale of what the map shows; the module tree has the same. */
export const shown = {
  scale: new Range().scale("log").scale
};

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
  const hasEval = bins.series.some((series) => series.isEval), ranks = run.ranks;
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

  /** @type {(GridRow & {joined: Joined})[]} */
  let rows = [];
  let range = new Range(), stamp = 0, judged = 0; /* bins when gaps and medians were taken */

  /** Reads the rows on, and draws them. */
  const refresh = () => {
    const statistic = /** @type {any} */ (STATISTICS)[view.stat], n = bins.steps.length;
    /* an update is logged after its tensors, perhaps with the next bin */
    const from = n > judged * 1.1 ? 0 : Math.max(bins.changedSince(stamp) - 1, 0);
    stamp = bins.stamp;
    if (from === 0) {
      judged = n;
      range = new Range();
    }
    for (const row of rows) row.joined.read(from, range);
    const absolute = range.scale(statistic.scale);
    const {scale, texts} = view.relative ? range.scale("relative") : absolute;
    shown.scale = absolute.scale;
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
    announce(new Set(["scale"]));
  };

  const rebuild = async () => {
    await bins.load(/** @type {any} */ (STATISTICS)[view.stat].columns);
    lines = linesOf(run, view.kind);
    rows = [];
    const wanted = filter.value.toLowerCase();
    /** @param {string} label @param {number[]} sites @param {Partial<GridRow>} more */
    const add = (label, sites, more) => {
      const joined = new Joined(run, sites);
      rows.push({
        label,
        site: sites[0],
        sites,
        joined,
        values: () => joined.values,
        bad: () => joined.bad,
        isMarked: () => joined.bad.some((bits) => bits !== 0),
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
    judged = 0;
    refresh();
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
    if (["kind", "stat", "relative", "isEval", "file"].some((key) => changed.has(key)))
      await rebuild();
    else if (changed.has("data"))
      refresh();
    if (changed.has("site") && view.run === 0) grid.select(view.site);
  });
  await rebuild();
}
