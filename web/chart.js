/* chart.js -- line charts with one cursor, one zoom and one mark of the step for all.
 * SPDX-License-Identifier: Apache-2.0 */
import {change, onChange, view} from "./data.js";
import {cssColor, el, lineColor, short, visible} from "./dom.js";
import {isPinned, togglePin} from "./pins.js";
import {saveChart, ticksOf} from "./save.js";

/** @typedef {{label: string, values?: ArrayLike<number>, color: number, dash?: number[],
 *   low?: ArrayLike<number>, high?: ArrayLike<number>, names?: [string, string]}} Line
 * @typedef {{at: number, text: string}} Mark
 * @typedef {{title: string, x: number[], lines: Line[], bad?: Uint8Array, log?: boolean,
 *   height?: number, smooth?: number, key?: string, axis?: string, remark?: string, isMany?: boolean,
 *   notes?: Mark[], columns?: () => import("./save.js").Column[],
 *   sample?: (range: [number, number]|null, pixels: number) => {x: number[], lines: Line[]}}} ChartOptions
 * key: by which the chart can be pinned.  isMany: lines are named where the cursor is, not in a legend.  sample:
 * makes x and lines for what is in sight. */

/** @type {Set<Chart>} */
const charts = new Set();

/** Exponential smoothing, not biased at the beginning.
 * @param {(number|null)[]} values @param {number} factor */
function smoothed(values, factor) {
  let sum = 0, weight = 0;
  return values.map((x) => {
    if (x === null) return null;
    sum = sum * factor + x * (1 - factor);
    weight = weight * factor + 1 - factor;
    return sum / weight;
  });
}

/** @param {ArrayLike<number>} values
 * @param {boolean|undefined} log @returns {(number|null)[]} */
function plottable(values, log) {
  return Array.from(values, (x) => (Number.isFinite(x) && !(log && x <= 0) ? x : null));
}

export class Chart {
  /** @param {HTMLElement} host
 * @param {ChartOptions} options */
  constructor(host, options) {
    this.host = host;
    this.options = options;
    /** @type {any} */
    this.plot = null;
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(host);
    this.placed = ""; /* what the marks of notes are for */
    this.draw();
    charts.add(this);
  }

  get pixels() { return Math.max(this.host.clientWidth - 16, 120); }
  get isOfSteps() { return (this.options.axis || "step") === "step"; }
  get range() { return this.isOfSteps ? view.range : view.axisRange; }

  /** The values of all lines, as uPlot takes them. */
  data() {
    if (this.options.sample) Object.assign(this.options, this.options.sample(this.range, this.pixels));
    const {x, lines, log, sample} = this.options, smooth = sample ? 0 : this.options.smooth || 0;
    const data = /** @type {any[]} */ ([x]);
    for (const line of lines) {
      if (line.low && line.high) data.push(plottable(line.high, log), plottable(line.low, log));
      if (!line.values) continue;
      const plain = plottable(line.values, log);
      data.push(smooth > 0 ? smoothed(plain, smooth) : plain);
    }
    return data;
  }

  /** How the lines look. */
  series() {
    const series = /** @type {any[]} */ ([{
      label: this.options.axis || "step",
      value: (/** @type {any} */ _, /** @type {number} */ v) => (v === null ? "–" : String(v))
    }]);
    const bands = [];
    const value = (/** @type {any} */ _, /** @type {number} */ v) => short(v);
    for (const line of this.options.lines) {
      const color = lineColor(line.color);
      if (line.low && line.high) {
        bands.push({series: [series.length, series.length + 1], fill: `${color}33`});
        const [low, high] = line.names || [`${line.label} low`, `${line.label} high`];
        for (const label of [high, low])
          series.push({label, stroke: `${color}55`, width: 1, points: {show: false}, spanGaps: true, value});
      }
      if (!line.values) continue;
      series.push({
        label: visible(line.label, 60),
        stroke: color,
        width: 1.6,
        dash: line.dash,
        spanGaps: true,
        value,
        points: {show: this.options.x.length < 60 && !this.options.isMany, size: 4}
      });
    }
    return {series, bands};
  }

  /** Draws new values of the same lines.
   * @param {Partial<ChartOptions>} options */
  update(options) {
    const before = this.plot.series.length;
    Object.assign(this.options, options);
    const data = this.data();
    if (data.length !== before) return this.draw();
    this.say();
    this.plot.setData(data, false);
    this.scale();
  }

  /** Title, buttons, and a line about what is seen. */
  heading() {
    const {title, key} = this.options;
    this.readout = el("p", {className: "readout faint"});
    const save = el(
        "select", {
          ariaLabel: `Save ${visible(title, 80)} as`,
          title: "Save this chart as a file",
          onchange: () => {
            const kind = save.value;
            save.value = "";
            saveChart(kind, title, () => this.drawn(), () => this.columns());
          }
        },
        ...["", "PNG", "SVG", "CSV"].map((kind) => el("option", {value: kind, textContent: kind || "Save"})));
    this.pin = key ? el("button", {type: "button", className: "pin", onclick: () => togglePin(key)}) : null;
    this.showPin();
    return [
      el("div", {className: "heading"},
         el("h3", {textContent: visible(title, 120), title: visible(title, 2000)}), this.pin, save),
      this.readout
    ];
  }

  showPin() {
    if (!this.pin) return;
    const isOn = isPinned(this.options.key || "");
    this.pin.textContent = isOn ? "Unpin" : "Pin";
    this.pin.title =
        isOn ? "Remove this chart from the top" : "Keep this chart at the top; the address remembers it";
    this.pin.setAttribute("aria-pressed", String(isOn));
  }

  /** Says what the cursor is at, or what is missing.
   * @param {string} [text] */
  say(text) {
    const {remark, isMany, lines} = this.options;
    if (!this.readout) return;
    const still = [isMany ? `${lines.length} lines; point at one for its name` : "", remark || ""];
    this.readout.textContent = text || still.filter(Boolean).join(". ");
    this.readout.hidden = !this.readout.textContent;
  }

  /** What is drawn now, for a picture. */
  drawn() {
    const {plot} = this, {series} = this.series();
    const {x, y} = plot.scales;
    return {
      x: plot.data[0],
      label: this.axisText(),
      min: x.min,
      max: x.max,
      low: y.min ?? 0,
      high: y.max ?? 1,
      isLog: Boolean(this.options.log),
      lines: series.slice(1).map((one, i) => ({
                                   label: one.label,
                                   color: one.stroke,
                                   dash: one.dash || [],
                                   values: plot.data[i + 1],
                                   isBand: one.width === 1
                                 }))
    };
  }

  axisText() {
    const axis = this.options.axis || "step";
    return axis === "time" ? "seconds since the first number" : axis;
  }

  /** All numbers behind the chart, whatever is in sight. */
  columns() {
    if (this.options.columns) return this.options.columns();
    const {x, lines} = this.options;
    return [
      {name: "step", values: x}, ...lines.flatMap((line) => {
        const [low, high] = line.names || [`${line.label} low`, `${line.label} high`];
        return [
          ...(line.values ? [{name: line.label, values: line.values}] : []),
          ...(line.low && line.high ? [{name: low, values: line.low}, {name: high, values: line.high}] : [])
        ];
      })
    ];
  }

  /** @param {Partial<ChartOptions>} [options] */
  draw(options) {
    Object.assign(this.options, options);
    const {log, height = 170, isMany} = this.options, data = this.data();
    if (this.plot) this.plot.destroy();
    this.placed = "";
    this.host.replaceChildren(...this.heading());
    this.say();
    const ink = cssColor("--faint"), grid = cssColor("--line");
    const {series, bands} = this.series();
    const uPlot = /** @type {any} */ (window).uPlot;
    this.plot =
        new uPlot(
            {
              width: this.pixels,
              height,
              legend: {show: !isMany},
              ...(isMany ? {focus: {alpha: 0.3}} : {}),
              series,
              bands,
              scales: {x: {time: false}, y: log ? {distr: 3} : {}},
              axes: [
                {
                  stroke: ink,
                  grid: {stroke: grid, width: 1},
                  ticks: {stroke: grid},
                  size: 30,
                  ...(this.isOfSteps ? {} : {
                    values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
                        ticks.map((t) => (this.options.axis === "time" ? durationText(t) : short(t, 6)))
                  })
                },
                {
                  stroke: ink,
                  grid: {stroke: grid, width: 1},
                  ticks: {stroke: grid},
                  ...(log ? {
                    /* uPlot's own lose tiny numbers */
                    splits: (
                        /** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ low,
                        /** @type {number} */ high) => ticksOf(low, high, true)
                  } :
                            {}),
                  size: 58,
                  values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
                      ticks.map((t) => (t === null ? "" : short(t, 3)))
                }
              ],
              cursor: {
                sync: {key: this.options.axis || "step", setSeries: false},
                ...(isMany ? {focus: {prox: 30}} : {}),
                drag: {x: true, y: false, setScale: false},
                y: false
              },
              hooks:
                  {
                    setSelect: [(/** @type {any} */ u) => {
                      if (u.select.width < 4) return;
                      const range = /** @type {[number, number]} */ (
                          [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]);
                      u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
                      change(this.isOfSteps ? {range} : {axisRange: range});
                    }],
                    setSeries:
                        [(/** @type {any} */ u, /** @type {number|null} */ i) => isMany && this.name(u, i)],
                    setCursor: [(/** @type {any} */ u) => isMany && u.cursor.left < 0 && this.say()],
                    draw: [(/** @type {any} */ u) => {
                      if (this.plot === u && this.marker) {
                        this.placeNotes();
                        this.placeMarker();
                      }
                      if (this.options.bad) markBad(u, this.options.x, this.options.bad);
                    }],
                  },
            },
            data, this.host);
    this.marker = el("div", {className: "marker"});
    this.plot.over.append(this.marker);
    this.plot.over.addEventListener("mouseleave", () => setTimeout(markAll, 50)); /* after uPlot */
    this.plot.over.addEventListener(
        "dblclick", () => change(this.isOfSteps ? {range: null} : {axisRange: null}));
    this.plot.over.addEventListener("click", () => {
      if (!this.isOfSteps) return;
      const step = this.plot.posToVal(this.plot.cursor.left, "x");
      if (Number.isFinite(step)) change({step: Math.round(step)});
    });
    this.scale();
  }

  /** Names the line below the cursor.
   * @param {any} u @param {number|null} i */
  name(u, i) {
    const {idx} = u.cursor;
    if (!i || idx === null || idx === undefined || !u.series[i]) return this.say();
    let at = idx; /* of a gap: the nearest before it */
    while (at > 0 && u.data[i][at] === null) at--;
    const where = u.data[0][at];
    this.say(`${u.series[i].label}: ${short(u.data[i][at])} at ${
        this.options.axis === "time" ? durationText(where) :
                                       `${this.options.axis || "step"} ${short(where, 7)}`}`);
  }

  fit() {
    if (this.plot && Math.abs(this.pixels - this.plot.width) > 1) {
      this.plot.setSize({width: this.pixels, height: this.plot.height});
      if (this.options.sample) this.update({});
    }
    this.mark();
  }

  /** Shows what is in sight now. */
  zoom() {
    if (this.options.sample)
      this.update({});
    else
      this.scale();
  }

  scale() {
    const x = this.options.x;
    if (!x.length) return;
    const [min, max] = this.range || [x[0], x[x.length - 1]];
    this.plot.setScale("x", {min, max: max > min ? max : min + 1});
    this.mark();
  }

  /** Puts the notes of the program where they were written; those of one place share a mark. */
  placeNotes() {
    const {min, max} = this.plot.scales.x, notes = this.options.notes || [];
    const wanted = `${min} ${max} ${this.plot.width} ${notes.length} ${notes.at(-1)?.at}`;
    if (!notes.length || this.placed === wanted) return;
    this.placed = wanted;
    for (const old of this.plot.over.querySelectorAll(".note-mark")) old.remove();
    /** @type {Map<number, string[]>} */
    const places = new Map();
    const width = this.plot.bbox.width / devicePixelRatio;
    for (const {at, text} of notes) {
      const left = this.plot.valToPos(at, "x");
      if (!(left >= 0 && left <= width)) continue;
      const place = Math.round(left / 6) * 6;
      places.set(place, [...places.get(place) || [], text]);
    }
    for (const [place, texts] of places) {
      const title =
          texts.slice(0, 12).join("\n") + (texts.length > 12 ? `\nand ${texts.length - 12} more` : "");
      const mark = el("div", {className: "note-mark", title, role: "note", ariaLabel: title});
      mark.style.left = `${place}px`;
      this.plot.over.append(mark);
    }
  }

  /** Moves the mark to the step, and shows the values there while the cursor is elsewhere. */
  mark() {
    const {x} = this.options;
    this.placeMarker();
    if (!this.isOfSteps || this.options.isMany) return;
    let idx = x.length - 1;
    while (idx > 0 && x[idx] > view.step) idx--;
    const lines = this.plot.data.slice(1); /* the last value, where the step has none yet */
    while (idx > 0 && lines.every((/** @type {any[]} */ line) => line[idx] === null)) idx--;
    if (x.length && !(this.plot.cursor.left >= 0)) this.plot.setLegend({idx});
  }

  placeMarker() {
    const left = this.isOfSteps ? this.plot.valToPos(view.step, "x") : NaN;
    this.marker.hidden = !(left >= 0 && left <= this.plot.bbox.width / devicePixelRatio);
    this.marker.style.left = `${left}px`;
  }

  remove() {
    if (!charts.delete(this)) return;
    this.resize.disconnect();
    this.plot.destroy();
  }
}

function markAll() {
  for (const chart of charts) chart.mark();
}

/** "1:02:03", "4:05", "0.5 s".
 * @param {number} seconds */
export function durationText(seconds) {
  if (seconds < 60) return `${short(seconds, 3)} s`;
  const two = (/** @type {number} */ n) => String(Math.floor(n)).padStart(2, "0");
  const hours = Math.floor(seconds / 3600), rest = `${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

/** Marks the bins with NaN or Inf at the bottom of the chart, each at least two pixels wide.
 * @param {any} u @param {number[]} x @param {Uint8Array} bad */
function markBad(u, x, bad) {
  const ctx = u.ctx, {left, top, width, height} = u.bbox;
  ctx.save();
  ctx.fillStyle = cssColor("--alarm");
  for (let i = 0; i < bad.length; i++) {
    if (!bad[i]) continue;
    const at = u.valToPos(x[i], "x", true);
    if (at >= left && at <= left + width) ctx.fillRect(at - 1, top + height - 10, 3, 10);
  }
  ctx.restore();
}

onChange((changed) => {
  for (const chart of charts) {
    if (changed.has("pins")) chart.showPin();
    if (changed.has(chart.isOfSteps ? "range" : "axisRange"))
      chart.zoom();
    else if (changed.has("step"))
      chart.mark();
  }
}, true);

/** Draws all charts again, in the colours of the theme. */
export function redrawCharts() {
  for (const chart of charts) chart.draw();
}

/** Forgets all charts, before everything is shown anew. */
export function removeCharts() {
  for (const chart of charts) chart.remove();
}

/** A small curve as an image: the evidence of a finding.
 * @param {Float32Array} values @param {Uint8Array} bad @param {number} mark the bin to mark; -1: none */
export function spark(values, bad, mark) {
  const width = 180, height = 44, scale = 2;
  const canvas = el("canvas", {
    className: "spark",
    width: width * scale,
    height: height * scale,
    role: "img",
    ariaLabel: "the value over the steps"
  });
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  let low = Infinity, high = -Infinity;
  for (const v of values)
    if (Number.isFinite(v)) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
  const n = values.length, x = (/** @type {number} */ i) => 3 + (i / Math.max(n - 1, 1)) * (width - 6);
  const y = (/** @type {number} */ v) => height - 9 - ((v - low) / (high - low || 1)) * (height - 14);
  ctx.strokeStyle = cssColor("--accent");
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  for (let i = 0; i < n; i++)
    if (Number.isFinite(values[i])) ctx.lineTo(x(i), y(values[i]));
  ctx.stroke();
  ctx.fillStyle = cssColor("--alarm");
  for (let i = 0; i < n; i++)
    if (bad[i]) ctx.fillRect(x(i) - 1, height - 6, 2, 5);
  if (mark >= 0) ctx.fillRect(x(mark) - 0.5, 2, 1, height - 4);
  return canvas;
}
