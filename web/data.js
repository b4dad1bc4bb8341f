/* data.js -- the run's data as they are in the page, and what the views share.
 * SPDX-License-Identifier: Apache-2.0 */

/**
 * @typedef {{weight: number, text: string, run: number, site: number, step: number,
 *   detail: string[], sites?: number[], count?: number,
 *   fed_by?: [string, number, number, string][]}} Finding
 * @typedef {{path: string, state: string, ranks: number[], bytes: number, points: number,
 *   lost: number, shown: number, info: Object<string, string>, notes: [number, string][],
 *   cost?: number|string}} RunFacts
 * @typedef {{name: string, step?: number, line?: string, count?: number, shape?: number[],
 *   min?: string, max?: string, mean?: string, std?: string, rms?: string, value?: any,
 *   nan?: number, inf?: number, anomalies?: number,
 *   histogram?: {top: number, octaves: number, columns: number[][]}}} Site
 * @typedef {{label: string, depth: number, class?: string, sites?: number[]}} TreeRow
 * @typedef {{site: number, file: number, isEval: boolean, points: number, at: number}} Series
 * @typedef {{name: string, a: number, rank: number, verdict: string, first: boolean, first_step?: number,
 *   field?: string, worst_step?: number, value_a?: string, value_b?: string,
 *   deviation?: number|string, floor?: number|string}} Difference
 */

export const NAN_BIT = 1, INF_BIT = 2;

/** @type {{version: string, bytes: number, anomalies: string[], runs: RunFacts[], findings: Finding[]}} */
export const facts =
    JSON.parse(/** @type {HTMLElement} */ (document.getElementById("facts")).textContent || "{}");

/** @param {string} name @returns {Promise<Uint8Array|null>} */
async function unpack(name) {
  const block = document.querySelector(`script[data-name="${name}"]`);
  if (!block) return null;
  const text = atob(block.textContent || "");
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  block.textContent = "";
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} name @returns {Promise<any>} */
async function unpackJson(name) {
  const bytes = await unpack(name);
  return bytes && JSON.parse(new TextDecoder().decode(bytes));
}

/** Numbers whose bytes come plane by plane, the highest first.
 * @param {Uint8Array} planes @param {number} count @returns {Float32Array} */
function joinPlanes(planes, count) {
  const bytes = count > 0 ? planes.length / count : 0;
  const bits = new Uint32Array(count);
  for (let b = 0; b < bytes; b++) {
    const shift = 24 - 8 * b, from = b * count;
    for (let i = 0; i < count; i++) bits[i] |= planes[from + i] << shift;
  }
  return new Float32Array(bits.buffer);
}

/** Series of one sort (numbers or tensors) over bins of steps. */
export class Bins {
  /** @param {string} prefix @param {any} table */
  constructor(prefix, table) {
    this.prefix = prefix;
    /** @type {number[]} */
    this.steps = table.steps;
    /** @type {number} */
    this.last = table.last;
    /** @type {boolean} */
    this.exact = table.exact;
    /** @type {Series[]} */
    this.series = table.series.map(
        (/** @type {number[]} */ s, /** @type {number} */ i) =>
            ({site: s[0], file: s[1], isEval: s[2] === 1, points: s[3], at: i * table.steps.length}));
    this.index = new Map(this.series.map((s) => [`${s.site}/${s.file}/${s.isEval}`, s]));
    /** @type {Object<string, Float32Array>} */
    this.columns = {};
    /** @type {Uint8Array} */
    this.bad = new Uint8Array(0);
  }

  /** @param {string[]} names */
  async load(names) {
    const count = this.series.length * this.steps.length;
    for (const name of names) {
      if (this.columns[name]) continue;
      const planes = await unpack(`${this.prefix}/${name}`);
      if (planes) this.columns[name] = joinPlanes(planes, count);
    }
    if (!this.bad.length) this.bad = (await unpack(`${this.prefix}/bad`)) || new Uint8Array(count);
    /* Where each bin has one point, its least and largest value are that point's. */
    for (const [name, same] of [["low", "value"], ["high", "value"], ["rms_low", "rms"]])
      if (!this.columns[name] && this.columns[same]) this.columns[name] = this.columns[same];
  }

  /** @param {number} site @param {number} file @param {boolean} isEval */
  find(site, file, isEval) { return this.index.get(`${site}/${file}/${isEval}`); }

  /** @param {Series} series @param {string} name @returns {Float32Array} */
  values(series, name) {
    const column = this.columns[name];
    return column ? column.subarray(series.at, series.at + this.steps.length) :
                    new Float32Array(this.steps.length).fill(NaN);
  }

  /** @param {Series} series @returns {Uint8Array} */
  badOf(series) { return this.bad.subarray(series.at, series.at + this.steps.length); }

  /** The bin that holds a step.
   * @param {number} step */
  binOf(step) {
    let low = 0, high = this.steps.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.steps[middle] <= step)
        low = middle;
      else
        high = middle;
    }
    return low;
  }

  /** "steps 10 to 14" or "step 10".
   * @param {number} bin */
  stepText(bin) {
    const from = this.steps[bin], next = this.steps[bin + 1];
    const to = this.exact ? from : next === undefined ? this.last : next - 1;
    return to > from ? `steps ${count(from)} to ${count(to)}` : `step ${count(from)}`;
  }
}

/** @param {number} n */
export function count(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f"); }

export class Run {
  /** @param {number} number */
  constructor(number) {
    this.number = number;
    this.facts = facts.runs[number];
    /** @type {Site[]} */
    this.sites = [];
    /** @type {TreeRow[]} */
    this.tree = [];
    /** @type {Map<string, number>} */
    this.byName = new Map();
  }

  async load() {
    const table = await unpackJson(`${this.number}/table`);
    const series = await unpackJson(`${this.number}/series`);
    this.sites = table.sites;
    this.tree = table.tree;
    this.byName = new Map(this.sites.map((site, i) => [site.name, i]));
    this.numbers = new Bins(`${this.number}/numbers`, series.numbers);
    this.tensors = new Bins(`${this.number}/tensors`, series.tensors);
    await this.numbers.load(["value", "low", "high"]);
  }

  /** A number of the page, of its own file or of the first that has it.
   * @param {number} site @param {number} [file] @param {boolean} [isEval] */
  seriesOf(site, file = 0, isEval = false) {
    for (const bins of [this.tensors, this.numbers]) {
      if (!bins) continue;
      const found = bins.find(site, file, isEval) || bins.series.find((s) => s.site === site);
      if (found) return {bins, series: found};
    }
    return null;
  }
}

/** @type {Run[]} */
export const runs = facts.runs.map((_, i) => new Run(i));

/** @returns {Promise<Difference[]|null>} */
export function loadDifferences() { return unpackJson("diff"); }

/* ---- what the views share: the step, the site, the zoom ---- */

/** @typedef {{step: number, site: number, run: number, range: [number, number]|null,
 *   kind: string, stat: string, relative: boolean, isEval: boolean, file: number}} View */

/** @type {View} */
export const view = {
  step: 0,
  site: -1,
  run: 0,
  range: null,
  kind: "",
  stat: "rms",
  relative: false,
  isEval: false,
  file: 0
};

/** @type {((changed: Set<string>) => void)[]} */
const listeners = [];

/** @param {(changed: Set<string>) => void} listener */
export function onChange(listener) { listeners.push(listener); }

/** @param {Partial<View>} values */
export function change(values) {
  const changed = new Set(Object.keys(values).filter(
      (key) => /** @type {any} */ (view)[key] !== /** @type {any} */ (values)[key]));
  Object.assign(view, values);
  if (changed.size)
    for (const listener of listeners) listener(changed);
}
