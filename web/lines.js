/* lines.js -- the same number of several runs as lines of one chart, by step, time or samples.
 *
 * A run may have far more numbers than a screen has pixels: of those in sight, each pixel gets the least and the
 * largest.
 * SPDX-License-Identifier: Apache-2.0 */
import {Bins, Run, runs, view} from "./data.js";
import {visible} from "./dom.js";

/** @typedef {{run: Run, bins: Bins, series: import("./data.js").Series, names: [string, string, string]}} Source
 * names: of the columns with the value, the least and the largest */

/* Seven colours (grey means something else) times three kinds of line. */
const COLOURS = [0, 1, 2, 3, 4, 5, 7];
const DASHES = [undefined, [8, 4], [2, 3]];

/** How the lines of a run look.
 * @param {number} number */
export function lookOf(number) {
  return {
    color: COLOURS[number % COLOURS.length],
    dash: DASHES[Math.floor(number / COLOURS.length) % DASHES.length]
  };
}

/** @param {Run} run @param {string} key */
export function settingOf(run, key) {
  const found = (run.facts.settings || []).find(([name]) => name === key);
  return found && found[1];
}

/** Samples in a step; NaN: not known.
 * @param {Run} run */
export function batchOf(run) {
  for (const key of ["batch/size", "data/batch_size"]) {
    const size = Number(settingOf(run, key));
    if (size > 0) return size;
  }
  return NaN;
}

/** Where on the axis the bins of a run are; null: that is not known.
 * @param {Run} run @param {Bins} bins @returns {ArrayLike<number>|null} */
function placesOf(run, bins) {
  if (view.axis === "step") return bins.steps;
  if (view.axis === "samples") {
    const batch = batchOf(run), first = run.numbers.steps.find((_, i) => run.numbers.times[i] >= 0) ?? 0;
    return Number.isNaN(batch) ? null : bins.steps.map((step) => (step - first + 1) * batch);
  }
  const {numbers} = run;
  if (!numbers.times.some((time) => time >= 0)) return null;
  let last = NaN;
  return bins.steps.map((step, i) => {
    const time = numbers.times[bins === numbers ? i : numbers.binOf(step)];
    return (last = time >= 0 ? time / 1000 : last);
  });
}

/** @param {ArrayLike<number>} values @param {number} factor */
function smoothedValues(values, factor) {
  let sum = 0, weight = 0;
  return Float64Array.from(values, (x) => {
    if (!Number.isFinite(x)) return NaN;
    sum = sum * factor + x * (1 - factor);
    weight = weight * factor + 1 - factor;
    return sum / weight;
  });
}

/** @param {Source} source */
function labelOf({run, series}) {
  const rank = run.ranks.length > 1 ? ` rank ${run.ranks[series.file]}` : "";
  return `${visible(run.facts.path, 60)}${rank}${series.isEval ? " eval" : ""}`;
}

/** Lines of these sources for so many pixels.
 * @param {Source[]} sources @param {[number, number]|null} range @param {number} pixels */
function linesFor(sources, range, pixels) {
  const placed = sources
                     .map((source) => {
                       const {bins, series, names} = source, places = placesOf(source.run, bins);
                       let [value, low, high] =
                           names.map((name) => /** @type {ArrayLike<number>} */ (bins.values(series, name)));
                       if (view.smooth > 0) value = low = high = smoothedValues(value, view.smooth);
                       return {source, places, value, low, high};
                     })
                     .filter((one) => one.places);
  const looks = placed.map(({source}) => {
    const look = lookOf(source.run.number);
    return {label: labelOf(source), ...look, ...(source.series.isEval ? {dash: [4, 3]} : {})};
  });
  const shared = placed[0]?.places;
  if (shared && view.axis === "step" && placed.every(({source}) => source.bins.exact)) {
    let from = 0, to = shared.length;
    while (range && from < to - 1 && shared[from + 1] < range[0]) from++;
    while (range && to > from + 1 && shared[to - 2] > range[1]) to--;
    if (to - from <= 2 * pixels) {
      const x = Array.from({length: to - from}, (_, i) => shared[from + i]);
      const part = (/** @type {ArrayLike<number>} */ values) => Array.from(x, (_, i) => values[from + i]);
      return {x, lines: placed.map((one, i) => ({...looks[i], values: part(one.value)}))};
    }
  }
  let first = Infinity, last = -Infinity;
  for (const {places, value} of placed)
    for (let i = 0; places && i < places.length; i++)
      if (Number.isFinite(value[i]) && Number.isFinite(places[i])) {
        first = Math.min(first, places[i]);
        last = Math.max(last, places[i]);
      }
  if (!(last >= first)) return {x: [0, 1], lines: []};
  const [from, to] = range || [first, last], cells = Math.max(Math.floor(pixels / 2), 50),
               span = to - from || 1;
  const x = new Array(2 * cells);
  for (let i = 0; i < 2 * cells; i++) x[i] = from + (span * (i + 0.5)) / (2 * cells);
  const lines = placed.map(({places, low, high}, k) => {
    const values = new Float64Array(2 * cells).fill(NaN);
    for (let i = 0; places && i < places.length; i++) {
      const cell = Math.min(Math.floor(((places[i] - from) / span) * cells), cells - 1);
      if (!(cell >= 0) || places[i] > to) continue;
      const at = 2 * cell;
      if (!(low[i] >= values[at])) values[at] = Number.isFinite(low[i]) ? low[i] : values[at];
      if (!(high[i] <= values[at + 1])) values[at + 1] = Number.isFinite(high[i]) ? high[i] : values[at + 1];
    }
    return {...looks[k], values};
  });
  return {x, lines};
}

/** All numbers behind the lines.
 * @param {Source[]} sources @returns {import("./save.js").Column[]} */
function columnsOf(sources) {
  const bins = sources[0]?.bins;
  if (!bins) return [];
  return [
    {name: "step", values: bins.steps},
    ...(bins.exact ? [] : [{name: "to step", values: bins.steps.map((_, i) => bins.lastOf(i))}]),
    ...sources.flatMap((source) => {
      const label = labelOf(source), {series, names} = source, places = placesOf(source.run, source.bins);
      const column = (/** @type {number} */ i) => source.bins.values(series, names[i]);
      return [
        ...(view.axis !== "step" && places ? [{name: `${label} ${view.axis}`, values: places}] : []),
        {name: label, values: column(0)},
        ...(source.bins.exact ?
                [] :
                [{name: `${label} least`, values: column(1)}, {name: `${label} largest`, values: column(2)}])
      ];
    })
  ];
}

/** What is said of runs that are not in a chart.
 * @param {Run[]} missing @param {Source[]} sources */
function remarkOf(missing, sources) {
  const named = (/** @type {Run[]} */ some) =>
      `${some.slice(0, 3).map((run) => visible(run.facts.path, 40)).join(", ")}${
          some.length > 3 ? ` and ${some.length - 3} more` : ""}`;
  const lost = [...new Set(sources.filter(({run, bins}) => !placesOf(run, bins)).map(({run}) => run))];
  const unknown = view.axis === "samples" ? "The batch size is not known of" : "Times are not known of";
  return [missing.length ? `Not in ${named(missing)}` : "", lost.length ? `${unknown} ${named(lost)}` : ""]
      .filter(Boolean)
      .join(". ");
}

/** The notes of the program in these runs, where they are on the axis.
 * @param {Run[]} some */
export function notesOf(some) {
  return some.flatMap((run) => {
    const bins = run.numbers, places = placesOf(run, bins);
    return run.facts.notes.flatMap(([step, text]) => {
      const at = !places || !bins.steps.length ? NaN : view.axis === "step" ? step : places[bins.binOf(step)];
      const of = runs.length > 1 ? `${visible(run.facts.path, 40)}, ` : "";
      return Number.isFinite(at) ? [{at, text: `${of}step ${step}: ${visible(text, 300)}`}] : [];
    });
  });
}

/** The options of a chart with lines of several runs.
 * @param {Source[]} sources of all runs that have the series */
export function overlaid(sources) {
  const shown = sources.filter(({run}) => !view.hidden.has(run.number));
  const ticked = runs.filter((run) => !view.hidden.has(run.number));
  const missing = ticked.filter((run) => !shown.some((source) => source.run === run));
  const isMany = shown.length > 4;
  return {
    axis: view.axis,
    isMany,
    x: [],
    lines: [],
    remark: remarkOf(missing, shown),
    notes: notesOf([...new Set(shown.map(({run}) => run))]),
    columns: () => columnsOf(shown),
    sample: (/** @type {[number, number]|null} */ range, /** @type {number} */ pixels) =>
        linesFor(shown, range, pixels)
  };
}
