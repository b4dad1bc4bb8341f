/* data.js -- the run's data as they are in the page, and what the views share.
 * SPDX-License-Identifier: Apache-2.0 */

/**
 * @typedef {"note"|"fine"|"warning"|"error"} Severity
 * @typedef {{kind: "finding"|"origin"|"divergence"|"premise"|"fault"|"note", severity: Severity, run: number,
 *   rule: string|null, likelihood: string, follows: string, follow_count: number, sentence: string, detail: string[], remedy: string, code: string, rank: number,
 *   sites: string[], site_count: number, first_step: number, last_step: number, next: string[],
 *   feeds: {role: "before"|"parameter"|"previous", site: string, step: number, line: string}[]}} Answer
 * @typedef {{path: string, state: string, ranks: number[], joined: boolean,
 *   mesh?: {names: string[], at: number[][]}, bytes: number, points: number,
 *   lost: number, shown: number, alarms: number, info: Object<string, string>, notes: [number, string][],
 *   settings?: [string, string][],
 *   cost?: number|string}} RunFacts
 * @typedef {{name: string, points?: number, step?: number, line?: string, count?: number, shape?: number[],
 *   min?: string, max?: string, mean?: string, std?: string, rms?: string, value?: any,
 *   nan?: number, inf?: number, nonfinite?: boolean,
 *   histogram?: {top: number, octaves: number, columns: number[][]}}} Site
 * @typedef {{label: string, depth: number, class?: string, sites?: number[]}} TreeRow
 * @typedef {{site: number, file: number, isEval: boolean, at: number}} Series
 * @typedef {{name: string, a: number, rank: number, verdict: string, first: boolean, first_step?: number,
 *   field?: string, worst_step?: number, value_a?: string, value_b?: string,
 *   deviation?: number|string, floor?: number|string}} Difference
 */

/** Numbers of the recorder, one for each parameter: how large an update is, relative to the weight. */
export const UPDATES = "tensortap/update/";
export const NAN_BIT = 1, INF_BIT = 2;

/** @typedef {{version: string, live?: boolean, pending?: boolean, folder?: string, list?: any[],
 *   runs: RunFacts[], answers: Answer[]}} Facts */

/** How much an answer matters, from the least.
 * @type {Severity[]} */
export const SEVERITIES = ["note", "fine", "warning", "error"];
/** @param {Answer} answer */
export const weightOf = (answer) => SEVERITIES.indexOf(answer.severity);

/** @type {Facts} */
export const facts =
    JSON.parse(/** @type {HTMLElement} */ (document.getElementById("facts")).textContent || "{}");

/* ---- where data come from: the page itself, or the server that sent it ---- */

/** Asks the server.
 * @param {string} path @param {Object<string, string>} values @returns {Promise<Response>} */
export async function ask(path, values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) query.set(name, value);
  const response = await fetch(`${path}?${query}`);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response;
}

/** What is in the page, once.
 * @param {string} name @returns {Promise<Uint8Array|null>} */
async function unpack(name) {
  const block = document.querySelector(`script[data-name="${name}"]`);
  if (!block || !block.textContent) return null;
  const text = atob(block.textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  block.textContent = "";
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A text of the page.
 * @param {string} name @returns {Promise<any>} */
export async function getText(name) {
  if (facts.live) return (await ask("block", {name})).json();
  const bytes = await unpack(name);
  return bytes && JSON.parse(new TextDecoder().decode(bytes));
}

/* ---- columns ---- */

/* How two neighbours become one, as in collect.c. */
const KEEP_LEAST = ["low", "min", "rms_low"];
const KEEP_MOST = ["high", "max", "rms", "zeros"];
/* Where each bin has one point, its least and largest value are that point's. */
const SAME = [["low", "value"], ["high", "value"], ["rms_low", "rms"]];

/** @param {number} site @param {number} file @param {boolean} isEval */
function keyOf(site, file, isEval) { return (site * 0x10000 + file) * 2 + Number(isEval); }

/** Series of one sort (numbers or tensors) over bins of steps.  Series i has the cells from
 * i * stride on. */
export class Bins {
  /** @param {string} prefix */
  constructor(prefix) {
    this.prefix = prefix;
    /** @type {number[]} */
    this.steps = [];
    /** @type {number[]} ms since the first number, of each bin; -1: it has none.  Pages of one run have no times. */
    this.times = [];
    this.last = 0;
    this.width = 1;
    this.bytes = 4;
    this.stride = 0;
    /** @type {Series[]} */
    this.series = [];
    /** @type {Map<number, Series>} */
    this.index = new Map();
    /** @type {Object<string, Float32Array>} */
    this.columns = {};
    /** @type {Uint8Array} */
    this.bad = new Uint8Array(0);
    /** @type {Map<string, Promise<void>>} columns that are on their way */
    this.loading = new Map();
    /* when each bin was written last; what is new is always at the end */
    this.stamp = 0;
    /** @type {number[]} */
    this.stamps = [];
  }

  /** Is each bin a single step? */
  get exact() { return this.width === 1; }

  /** The first bin that was written after `stamp`.
   * @param {number} stamp */
  changedSince(stamp) {
    let bin = this.steps.length;
    while (bin > 0 && !(this.stamps[bin - 1] <= stamp)) bin--;
    return bin;
  }

  /** Takes in which bins and series there are; columns that changed follow.  Returns whether there
   * are new series.
   * @param {any} table */
  apply(table) {
    const isWhole = table.from === 0 && table.known === 0, before = this.series.length;
    if (isWhole) {
      this.steps = [];
      this.times = [];
      this.series = [];
      this.columns = {};
      this.stride = 0;
      this.bad = new Uint8Array(0);
      this.stamps = [];
      this.width = table.width;
      this.index.clear();
    }
    while (this.width < table.width) this.halve();
    this.steps.length = table.from;
    for (const step of table.steps) this.steps.push(step);
    if (table.times) {
      this.times.length = table.from;
      for (const time of table.times) this.times.push(time);
    }
    this.last = table.last;
    this.bytes = table.bytes;
    this.series.length = Math.min(this.series.length, table.known);
    for (const [site, file, isEval] of table.series) {
      const series = {site, file, isEval: isEval === 1, at: 0};
      this.series.push(series);
      this.index.set(keyOf(site, file, series.isEval), series);
    }
    this.grow(!isWhole || table.live);
    return this.series.length !== before;
  }

  /** Makes room for all series and steps.
   * @param {boolean} isLive there will be more steps */
  grow(isLive) {
    const stride = this.steps.length <= this.stride ? this.stride :
        isLive                                      ? this.steps.length * 2 :
                                                      this.steps.length;
    const old = this.stride;
    this.series.forEach((series, i) => {
      series.at = i * stride;
    });
    if (stride === old && this.bad.length >= stride * this.series.length) return;
    const room = stride * Math.ceil(this.series.length * (isLive ? 1.5 : 1));
    for (const name of Object.keys(this.columns)) {
      const same = SAME.find(([other, one]) => other === name && this.columns[one] === this.columns[name]);
      if (same) continue;
      const grown = moved(this.columns[name], new Float32Array(room).fill(NaN), old, stride);
      for (const [other, one] of SAME)
        if (one === name && this.columns[other] === this.columns[name]) this.columns[other] = grown;
      this.columns[name] = grown;
    }
    this.bad = moved(this.bad, new Uint8Array(room), old, stride);
    this.stride = stride;
  }

  /** Joins neighbours, as the server has done. */
  halve() {
    const n = this.steps.length, half = (n + 1) >> 1;
    for (const [name, same] of SAME)
      if (this.columns[name] && this.columns[name] === this.columns[same])
        this.columns[name] = this.columns[same].slice();
    for (const [name, column] of Object.entries(this.columns)) {
      const join = KEEP_LEAST.includes(name) ? Math.min :
          KEEP_MOST.includes(name)           ? Math.max :
                                     (/** @type {number} */ a, /** @type {number} */ b) => (a + b) / 2;
      for (const {at} of this.series) {
        for (let i = 0; i < half; i++) {
          const a = column[at + 2 * i], b = 2 * i + 1 < n ? column[at + 2 * i + 1] : NaN;
          column[at + i] = Number.isNaN(a) ? b : Number.isNaN(b) ? a : join(a, b);
        }
        column.fill(NaN, at + half, at + n);
      }
    }
    for (const {at} of this.series) {
      for (let i = 0; i < half; i++)
        this.bad[at + i] = this.bad[at + 2 * i] | (2 * i + 1 < n ? this.bad[at + 2 * i + 1] : 0);
      this.bad.fill(0, at + half, at + n);
    }
    this.steps = this.steps.filter((_, i) => i % 2 === 0);
    this.times = this.times.filter((_, i) => i % 2 === 0)
                     .map((time, i) => (time >= 0 ? time : this.times[2 * i + 1] ?? -1));
    this.stamp++;
    this.stamps = this.steps.map(() => this.stamp);
    this.width *= 2;
  }

  /** Takes in a column from bin `from` on: the bytes of its numbers come plane by plane, the
   * highest first.
   * @param {string} name @param {Uint8Array} planes @param {number} from */
  take(name, planes, from) {
    const across = this.steps.length - from, n = this.series.length * across;
    this.stamp++;
    for (let bin = from; bin < this.steps.length; bin++) this.stamps[bin] = this.stamp;
    const bytes = n > 0 ? planes.length / n : 0;
    const same = SAME.find(([other]) => other === name);
    if (!this.columns[name])
      this.columns[name] =
          new Float32Array(Math.max(this.bad.length, this.series.length * this.stride)).fill(NaN);
    else if (same && this.columns[same[1]] === this.columns[name])
      this.columns[name] = this.columns[name].slice(); /* from now on they differ */
    const bits = new Uint32Array(this.columns[name].buffer);
    this.series.forEach(({at}, row) => {
      for (let i = 0; i < across; i++) {
        let x = 0;
        for (let b = 0; b < bytes; b++) x |= planes[b * n + row * across + i] << (24 - 8 * b);
        bits[at + from + i] = x;
      }
    });
  }

  /** @param {Uint8Array} bad @param {number} from */
  takeBad(bad, from) {
    const across = this.steps.length - from;
    this.series.forEach(
        ({at}, row) => this.bad.set(bad.subarray(row * across, (row + 1) * across), at + from));
  }

  join() {
    for (const [name, same] of SAME)
      if (!this.columns[name] && this.columns[same]) this.columns[name] = this.columns[same];
  }

  /** Gets columns that are missing.  Several views may ask at once.
   * @param {string[]} names */
  async load(names) {
    const missing = names.filter((name) => !this.columns[name] && !this.loading.has(name));
    const loading = missing.length ? this.get(missing) : Promise.resolve();
    for (const name of missing) this.loading.set(name, loading.finally(() => this.loading.delete(name)));
    await Promise.all(names.map((name) => this.loading.get(name)));
  }

  /** @param {string[]} names */
  async get(names) {
    if (facts.live) {
      await sync(names.map((name) => `${this.prefix}/${name}`));
      return;
    }
    for (const name of names) {
      const planes = await unpack(`${this.prefix}/${name}`);
      if (planes) this.take(name, planes, 0);
    }
    const bad = await unpack(`${this.prefix}/bad`);
    if (bad) this.takeBad(bad, 0);
    this.join();
  }

  /** @param {number} site @param {number} file @param {boolean} isEval */
  find(site, file, isEval) { return this.index.get(keyOf(site, file, isEval)); }

  /** @param {Series} series @param {string} name @param {number} [from] @param {number} [to] @returns {Float32Array} */
  values(series, name, from = 0, to = this.steps.length) {
    const column = this.columns[name];
    return column ? column.subarray(series.at + from, series.at + to) : new Float32Array(to - from).fill(NaN);
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

  /** The last step of a bin.
   * @param {number} bin */
  lastOf(bin) {
    const from = this.steps[bin], next = this.steps[bin + 1];
    return this.exact ? from : next === undefined ? this.last : next - 1;
  }

  /** "steps 10 to 14" or "step 10".
   * @param {number} bin */
  stepText(bin) {
    const from = this.steps[bin], to = this.lastOf(bin);
    return to > from ? `steps ${count(from)} to ${count(to)}` : `step ${count(from)}`;
  }
}

/** Copies rows of one stride into rows of another.
 * @template {Float32Array|Uint8Array} T
 * @param {T} from @param {T} to @param {number} old @param {number} stride @returns {T} */
function moved(from, to, old, stride) {
  for (let row = 0; old > 0 && (row + 1) * old <= from.length && row * stride + old <= to.length; row++)
    to.set(/** @type {any} */ (from.subarray(row * old, (row + 1) * old)), row * stride);
  return to;
}

/** @param {number} n */
export function count(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f"); }

export class Run {
  /** Whose series the page has: each rank's, or one for the whole job. */
  get ranks() { return this.facts.joined ? this.facts.ranks.slice(0, 1) : this.facts.ranks; }

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
    this.numbers = new Bins(`${number}/numbers`);
    this.tensors = new Bins(`${number}/tensors`);
  }

  async loadTable() {
    const table = await getText(`${this.number}/table`);
    this.sites = table.sites;
    this.tree = table.tree;
    this.byName = new Map(this.sites.map((site, i) => [site.name, i]));
  }

  /** Gets the names of the sites and the logged numbers. */
  async load() {
    await this.loadNames();
    await this.numbers.load(["value", "low", "high"]);
  }

  /** Gets the names of the sites and which series there are. */
  async loadNames() {
    await this.loadTable();
    const series = facts.live ? null : await getText(`${this.number}/series`);
    if (series) {
      this.numbers.apply(series.numbers);
      this.tensors.apply(series.tensors);
    }
  }

  /** Gets what is shown of a site alone, as it is now.
   * @param {number} site */
  async refresh(site) {
    if (facts.live) Object.assign(this.sites[site], await getText(`${this.number}/site/${site}`));
  }

  /** A number of the page, of its own file or of the first that has it.
   * @param {number} site @param {number} [file] @param {boolean} [isEval] */
  seriesOf(site, file = 0, isEval = false) {
    for (const bins of [this.tensors, this.numbers]) {
      const found = bins.find(site, file, isEval) || bins.series.find((s) => s.site === site);
      if (found) return {bins, series: found};
    }
    return null;
  }
}

/** @type {Run[]} */
export const runs = facts.runs.map((_, i) => new Run(i));

/** Are there so many that the page has their curves alone? */
export const isOverlay = runs.length > 2;

/** Gets columns of all runs, at once.
 * @param {"numbers"|"tensors"} sort @param {string[]} names */
export async function loadColumns(sort, names) {
  if (facts.live)
    await sync(runs.flatMap(
        (run) =>
            names.filter((name) => !run[sort].columns[name]).map((name) => `${run.number}/${sort}/${name}`)));
  else
    await Promise.all(runs.map((run) => run[sort].load(names)));
}

/** @returns {Promise<Difference[]|null>} */
export function loadDifferences() { return getText("diff"); }

let cursor = 0;
let news = ""; /* what came since the views were told */
/** @type {Promise<void>} */
let exchanges = Promise.resolve();

/** Gets what is new since the last time, and columns that are missing.
 * @param {string[]} add @returns {Promise<void>} */
function sync(add) {
  exchanges = exchanges.catch(() => {}).then(() => exchange(add));
  return exchanges;
}

/** Gets what is new.
 * @returns {Promise<string>} what the views have not been told: "series", "data" or "" */
export async function getNews() {
  await sync([]);
  return takeNews();
}

/** Returns what came with other data, and takes it as told. */
export function takeNews() {
  const changed = news;
  news = "";
  return changed;
}

/** @param {string[]} add */
async function exchange(add) {
  const all = runs.flatMap((run) => [run.numbers, run.tensors]);
  const have = all.flatMap((bins) => Object.keys(bins.columns).map((name) => `${bins.prefix}/${name}`));
  const response = await ask(
      "data",
      {since: String(cursor), have: have.join(), add: add.filter((name) => !have.includes(name)).join()});
  const bytes = new Uint8Array(await response.arrayBuffer());
  const end = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, end)));
  const isNew = head.cursor !== cursor;
  let at = end, hasSeries = false;
  cursor = head.cursor;
  for (const run of runs) {
    const {numbers, tensors, ...counts} = head.runs[run.number];
    Object.assign(run.facts, counts);
    if (numbers) hasSeries = run.numbers.apply({...numbers, live: true}) || hasSeries;
    if (tensors) hasSeries = run.tensors.apply({...tensors, live: true}) || hasSeries;
  }
  const next = (/** @type {number} */ n) => bytes.subarray(at, at += n);
  const named = new Map(all.map((bins) => [bins.prefix, bins]));
  for (const [name, from] of head.columns) {
    const slash = name.lastIndexOf("/"), bins = named.get(name.slice(0, slash));
    if (bins)
      bins.take(
          name.slice(slash + 1), next(bins.series.length * (bins.steps.length - from) * bins.bytes), from);
  }
  for (const run of runs)
    for (const [table, bins] of [
             [head.runs[run.number].numbers, run.numbers], [head.runs[run.number].tensors, run.tensors]])
      if (table) {
        bins.takeBad(next(bins.series.length * (bins.steps.length - table.from)), table.from);
        bins.join();
      }
  for (const run of runs) /* a series of a site that was not there */
    if ([run.numbers, run.tensors].some((bins) => bins.series.some((one) => one.site >= run.sites.length)))
      await run.loadTable();
  news = hasSeries && have.length ? "series" : news || (isNew ? "data" : "");
}

/* ---- what the views share: the step, the site, the zoom ---- */

/** @typedef {{step: number, site: number, run: number, range: [number, number]|null,
 *   kind: string, stat: string, relative: boolean, isEval: boolean, file: number, curveFilter: string,
 *   smooth: number, log: boolean, mapFilter: string, unfolded: Set<string>,
 *   axis: string, axisRange: [number, number]|null, hidden: Set<number>, overlaid: string, pins: string[]}} View
 * axis: of the curves, "step", "time" or "samples"; axisRange: the zoom of the latter two; hidden: runs that are not
 * ticked; overlaid: the tensor whose size is compared; pins: keys of charts */

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
  file: 0,
  curveFilter: "",
  smooth: 0,
  log: false,
  mapFilter: "",
  unfolded: new Set(),
  axis: "step",
  axisRange: null,
  hidden: new Set(),
  overlaid: "",
  pins: []
};

/** @typedef {(changed: Set<string>) => void} Listener */
/** @type {Listener[]} */
let listeners = [];
/** @type {Listener[]} */
const permanent = [];

/** Views listen until they are made anew, modules for ever.
 * @param {Listener} listener @param {boolean} [isPermanent] */
export function onChange(listener, isPermanent = false) {
  (isPermanent ? permanent : listeners).push(listener);
}

export function forgetListeners() { listeners = []; }

/** Tells all views what changed: keys of the view, "data" for new numbers, "scale" for the map's colours,
 * "facts" for answers.
 * @param {Set<string>} changed */
export function announce(changed) {
  for (const listener of [...permanent, ...listeners]) listener(changed);
}

/** @param {Partial<View>} values */
export function change(values) {
  const changed = new Set(Object.keys(values).filter(
      (key) => /** @type {any} */ (view)[key] !== /** @type {any} */ (values)[key]));
  Object.assign(view, values);
  if (changed.size) announce(changed);
}
