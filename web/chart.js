/* chart.js -- line charts with one cursor, one zoom and one mark of the step for all.
 * SPDX-License-Identifier: Apache-2.0 */
import {change, onChange, view} from "./data.js";
import {cssColor, el, lineColor, short, visible} from "./dom.js";

/** @typedef {{label: string, values?: ArrayLike<number>, color: number, dash?: number[],
 *   low?: ArrayLike<number>, high?: ArrayLike<number>, names?: [string, string]}} Line
 * @typedef {{title: string, x: number[], lines: Line[], bad?: Uint8Array, log?: boolean,
 *   height?: number, smooth?: number}} ChartOptions */

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

/** @param {ArrayLike<number>} values @param {boolean|undefined} log @returns {(number|null)[]} */
function plottable(values, log) {
  return Array.from(values, (x) => (Number.isFinite(x) && !(log && x <= 0) ? x : null));
}

export class Chart {
  /** @param {HTMLElement} host @param {ChartOptions} options */
  constructor(host, options) {
    this.host = host;
    this.options = options;
    /** @type {any} */
    this.plot = null;
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(host);
    this.draw();
    charts.add(this);
  }

  /** The values of all lines, as uPlot takes them. */
  data() {
    const {x, lines, log, smooth = 0} = this.options;
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
      label: "step",
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
        points: {show: this.options.x.length < 60, size: 4}
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
    this.plot.setData(data, false);
    this.zoom();
  }

  /** @param {Partial<ChartOptions>} [options] */
  draw(options) {
    Object.assign(this.options, options);
    const {title, log, height = 170} = this.options;
    if (this.plot) this.plot.destroy();
    this.host.replaceChildren(el("h3", {textContent: visible(title, 120), title: visible(title, 2000)}));
    const ink = cssColor("--faint"), grid = cssColor("--line");
    const {series, bands} = this.series();
    const uPlot = /** @type {any} */ (window).uPlot;
    this.plot =
        new uPlot(
            {
              width: Math.max(this.host.clientWidth - 16, 120),
              height,
              series,
              bands,
              scales: {x: {time: false}, y: log ? {distr: 3} : {}},
              axes: [
                {stroke: ink, grid: {stroke: grid, width: 1}, ticks: {stroke: grid}, size: 30}, {
                  stroke: ink,
                  grid: {stroke: grid, width: 1},
                  ticks: {stroke: grid},
                  size: 58,
                  values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
                      ticks.map((t) => (t === null ? "" : short(t, 3)))
                }
              ],
              cursor: {
                sync: {key: "steps", setSeries: false},
                drag: {x: true, y: false, setScale: false},
                y: false
              },
              hooks:
                  {
                    setSelect:
                        [(/** @type {any} */ u) => {
                          if (u.select.width < 4) return;
                          const range = /** @type {[number, number]} */ ([
                            u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")
                          ]);
                          u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
                          change({range});
                        }],
                    draw:
                        [(/** @type {any} */ u) =>
                             this.options.bad && markBad(u, this.options.x, this.options.bad)],
                  },
            },
            this.data(), this.host);
    this.marker = el("div", {className: "marker"});
    this.plot.over.append(this.marker);
    this.plot.over.addEventListener("mouseleave", () => setTimeout(markAll, 50)); /* after uPlot */
    this.plot.over.addEventListener("dblclick", () => change({range: null}));
    this.plot.over.addEventListener("click", () => {
      const step = this.plot.posToVal(this.plot.cursor.left, "x");
      if (Number.isFinite(step)) change({step: Math.round(step)});
    });
    this.zoom();
  }

  fit() {
    const width = Math.max(this.host.clientWidth - 16, 120);
    if (this.plot && Math.abs(width - this.plot.width) > 1)
      this.plot.setSize({width, height: this.plot.height});
    this.mark();
  }

  zoom() {
    const x = this.options.x;
    if (!x.length) return;
    const [min, max] = view.range || [x[0], x[x.length - 1]];
    this.plot.setScale("x", {min, max: max > min ? max : min + 1});
    this.mark();
  }

  /** Moves the mark to the step, and shows the values there while the cursor is elsewhere. */
  mark() {
    const {x} = this.options;
    let idx = x.length - 1;
    while (idx > 0 && x[idx] > view.step) idx--;
    const lines = this.plot.data.slice(1); /* the last value, where the step has none yet */
    while (idx > 0 && lines.every((/** @type {any[]} */ line) => line[idx] === null)) idx--;
    if (x.length && !(this.plot.cursor.left >= 0)) this.plot.setLegend({idx});
    const left = this.plot.valToPos(view.step, "x");
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
    if (changed.has("range"))
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
