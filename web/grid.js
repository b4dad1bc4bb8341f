/* grid.js -- rows x steps as coloured cells on one canvas; only the rows in sight are drawn.
 *
 * Used by the map, by the ranks and by the comparison of two runs.
 * SPDX-License-Identifier: Apache-2.0 */
import {Bins, change, INF_BIT, NAN_BIT, onChange, view} from "./data.js";
import {cssColor, el, INF_COLOR, NAN_COLOR, PALETTES, visible} from "./dom.js";

/** @typedef {{label: string, fold?: "open"|"closed"|null, indent?: number, values: () => Float32Array,
 *   bad: () => Uint8Array|null, site: number, sites?: number[], isMarked?: () => boolean}} GridRow
 * @typedef {{toUnit: (x: number) => number, isDiverging: boolean}} Scale
 * @typedef {{rows: GridRow[], bins: Bins, scale: Scale, describe: (row: GridRow, bin: number) => string,
 *   onPick?: (row: GridRow, bin: number) => void, onFold?: (row: GridRow) => void}} GridOptions */

const ROW = 19, AXIS = 24;

export class Grid {
  /** @param {HTMLElement} host @param {string} label */
  constructor(host, label) {
    this.canvas = el("canvas", {});
    this.space = el("div", {});
    this.scroll =
        el("div", {
          className: "scroll",
          tabIndex: 0,
          role: "application",
          ariaLabel: `${label}: arrow keys move, Enter opens the site, space folds, Escape shows all steps`
        },
           this.canvas, this.space);
    this.readout = el("div", {className: "readout", role: "status"});
    this.box = el("div", {className: "grid"}, this.scroll, this.readout);
    host.append(this.box);
    /** @type {GridOptions|null} */
    this.options = null;
    this.row = 0;
    this.frame = 0;
    this.cells = el("canvas", {});
    /** @type {number|null} */
    this.dragFrom = null;
    this.dragTo = 0;
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.listen();
    onChange((changed) => {
      if (changed.has("step") || changed.has("range")) {
        this.draw();
        this.tell();
      }
    });
  }

  /** @param {GridOptions} options */
  show(options) {
    this.options = options;
    this.row = Math.min(this.row, Math.max(options.rows.length - 1, 0));
    this.draw();
    this.tell();
  }

  /** Marks the row of a site, if it has one.
   * @param {number} site */
  select(site) {
    const rows = this.options ? this.options.rows : [];
    const own = rows.findIndex((row) => row.site === site && !row.fold);
    const found = own >= 0 ? own : rows.findIndex((row) => row.sites && row.sites.includes(site));
    if (found < 0 || found === this.row) return;
    this.row = found;
    this.draw();
    this.tell();
  }

  get labelWidth() {
    const width = this.box.clientWidth;
    return Math.round(Math.min(320, Math.max(96, width * 0.3)));
  }

  /** The first and the last bin in sight, as fractions. */
  sight() {
    const bins = /** @type {GridOptions} */ (this.options).bins;
    if (!view.range) return {from: 0, to: bins.steps.length};
    return {from: bins.binOf(view.range[0]), to: bins.binOf(view.range[1]) + 1};
  }

  /** Draws with the next frame, once for all that changes until then. */
  draw() {
    this.frame = this.frame || requestAnimationFrame(() => {
                   this.frame = 0;
                   this.drawNow();
                 });
  }

  drawNow() {
    if (!this.options || !this.box.clientWidth) return;
    const {rows, bins, scale} = this.options;
    const width = this.box.clientWidth - 2, all = rows.length * ROW + AXIS;
    const most = Math.min(window.innerHeight * 0.7, 736), height = Math.min(all, most);
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) ||
        this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.space.style.height = `${Math.max(all - height, 0)}px`;
    const ctx = this.canvas.getContext("2d"), left = this.labelWidth, top = this.scroll.scrollTop;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const first = Math.floor(top / ROW), last = Math.min(rows.length, Math.ceil((top + height - AXIS) / ROW));
    this.paintCells(ctx, left, width, top, first, last);
    this.paintLabels(ctx, left, top, first, last);
    this.paintAxis(ctx, left, width, height);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {number} left @param {number} width @param {number} top @param {number} first @param {number} last */
  paintCells(ctx, left, width, top, first, last) {
    const {rows, scale} = /** @type {GridOptions} */ (this.options);
    const across = Math.max(Math.round(width - left), 1), {from, to} = this.sight();
    if (last <= first || to <= from) return;
    const image = new ImageData(across, last - first), pixels = image.data;
    const palette = scale.isDiverging ? PALETTES.diverging : PALETTES.plain;
    const per = (to - from) / across;
    const crosses = [];
    for (let r = first; r < last; r++) {
      const values = rows[r].values(), bad = rows[r].bad(), base = (r - first) * across * 4;
      for (let x = 0; x < across; x++) {
        const a = Math.floor(from + x * per),
              b = Math.max(a + 1, Math.min(Math.ceil(from + (x + 1) * per), to));
        let best = NaN;
        for (let i = a; i < b; i++) { /* several bins in a pixel: the most conspicuous */
          const v = scale.toUnit(values[i]);
          if (Number.isNaN(best) || (scale.isDiverging ? Math.abs(v - 0.5) > Math.abs(best - 0.5) : v > best))
            best = v;
        }
        if (Number.isNaN(best)) continue;
        const c = 3 * Math.round(Math.min(Math.max(best, 0), 1) * 255), p = base + 4 * x;
        pixels[p] = palette[c];
        pixels[p + 1] = palette[c + 1];
        pixels[p + 2] = palette[c + 2];
        pixels[p + 3] = 255;
      }
      for (let i = from; bad && i < to; i++) { /* a bad bin is three pixels wide at least, and on top */
        if (!bad[i]) continue;
        const x0 = Math.floor((i - from) / per), x1 = Math.max(Math.ceil((i + 1 - from) / per), x0 + 3);
        for (let x = Math.max(x0, 0); x < Math.min(x1, across); x++)
          pixels.set([...NAN_COLOR, 255], base + 4 * x);
        crosses.push(
            {r, x0, x1: Math.min(x1, across), isInf: (bad[i] & NAN_BIT) === 0 && (bad[i] & INF_BIT) !== 0});
      }
    }
    this.cells.width = across;
    this.cells.height = last - first;
    this.cells.getContext("2d").putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.cells, left, first * ROW - top, across, (last - first) * ROW);
    ctx.fillStyle = cssColor("--panel");
    for (let r = first; r <= last; r++) ctx.fillRect(left, r * ROW - top - 1, across, 1);
    ctx.strokeStyle = ctx.fillStyle = `rgb(${INF_COLOR})`;
    for (const {r, x0, x1, isInf} of crosses) { /* shapes too: colours alone do not tell NaN from Inf */
      const x = left + (x0 + x1) / 2, y = r * ROW - top + ROW / 2 - 1;
      if (isInf)
        ctx.fillRect(left + x0, y - 1.5, x1 - x0, 3);
      else if (x1 - x0 >= 9) {
        ctx.beginPath();
        ctx.moveTo(x - 3, y - 3);
        ctx.lineTo(x + 3, y + 3);
        ctx.moveTo(x + 3, y - 3);
        ctx.lineTo(x - 3, y + 3);
        ctx.stroke();
      }
    }
  }

  /** @param {CanvasRenderingContext2D} ctx @param {number} left @param {number} top @param {number} first @param {number} last */
  paintLabels(ctx, left, top, first, last) {
    const {rows} = /** @type {GridOptions} */ (this.options);
    const text = cssColor("--text"), faint = cssColor("--faint"), alarm = cssColor("--alarm");
    ctx.font = "12.5px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    ctx.textBaseline = "middle";
    for (let r = first; r < last; r++) {
      const row = rows[r], y = r * ROW - top + ROW / 2 - 1, indent = 20 + (row.indent || 0) * 12;
      if (r === this.row) {
        ctx.fillStyle = cssColor("--select");
        ctx.fillRect(0, r * ROW - top - 1, left, ROW);
      }
      const isMarked = row.isMarked !== undefined && row.isMarked();
      ctx.fillStyle = isMarked ? alarm : faint;
      ctx.fillText(row.fold === "closed" ? "▸" : row.fold === "open" ? "▾" : isMarked ? "▲" : "", 6, y);
      ctx.fillStyle = isMarked ? alarm : text;
      ctx.fillText(fitted(ctx, row.label, left - indent - 6), indent, y);
    }
  }

  /** @param {CanvasRenderingContext2D} ctx @param {number} left @param {number} width @param {number} height */
  paintAxis(ctx, left, width, height) {
    const {bins} = /** @type {GridOptions} */ (this.options);
    const {from, to} = this.sight(), across = width - left, y = height - AXIS;
    ctx.fillStyle = cssColor("--panel");
    ctx.fillRect(0, y, width, AXIS);
    ctx.fillStyle = cssColor("--faint");
    ctx.font = "11.5px system-ui, sans-serif";
    ctx.textAlign = "center";
    const low = bins.steps[from], high = to < bins.steps.length ? bins.steps[to] : bins.last;
    const apart = roundStep((high - low) / Math.max(across / 90, 1));
    let end = -Infinity; /* of the text before */
    for (let step = Math.ceil(low / apart) * apart; step <= high; step += apart) {
      const x = left + ((bins.binOf(step) + 0.5 - from) / (to - from)) * across;
      const half = ctx.measureText(String(step)).width / 2;
      if (x - half < end || x + half > width) continue;
      end = x + half + 10;
      ctx.fillRect(x, y, 1, 4);
      ctx.fillText(String(step), x, y + 14);
    }
    ctx.textAlign = "start";
    ctx.fillText("step", 8, y + 13);
    const x = left + ((bins.binOf(view.step) + 0.5 - from) / (to - from)) * across;
    if (x >= left && x <= width) {
      ctx.fillStyle = cssColor("--ground");
      ctx.fillRect(x - 1.5, 0, 4, y);
      ctx.fillStyle = cssColor("--text");
      ctx.fillRect(x - 0.5, 0, 2, y + 4);
    }
    if (this.dragFrom !== null && Math.abs(this.dragTo - this.dragFrom) > 4) {
      ctx.fillStyle = "rgba(128, 160, 200, 0.35)";
      ctx.fillRect(Math.min(this.dragFrom, this.dragTo), 0, Math.abs(this.dragTo - this.dragFrom), y);
    }
  }

  tell() {
    if (!this.options) return;
    const row = this.options.rows[this.row];
    this.readout.textContent = row ? this.options.describe(row, this.options.bins.binOf(view.step)) : "";
  }

  /** @param {MouseEvent} event */
  place(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left,
          y = event.clientY - box.top;
    const {from, to} = this.sight(), left = this.labelWidth;
    const bin = Math.floor(from + ((x - left) / (box.width - left)) * (to - from));
    return {
      x,
      row: Math.floor((y + this.scroll.scrollTop) / ROW),
      bin: Math.min(Math.max(bin, from), to - 1),
      isLabel: x < left
    };
  }

  listen() {
    this.canvas.addEventListener("mousedown", (/** @type {MouseEvent} */ event) => {
      if (!this.options) return;
      const at = this.place(event);
      if (!at.isLabel) {
        this.dragFrom = at.x;
        this.dragTo = at.x;
      }
    });
    window.addEventListener("mousemove", (event) => {
      if (this.dragFrom === null || !this.box.isConnected) return;
      this.dragTo = this.place(event).x;
      this.draw();
    });
    window.addEventListener("mouseup", (event) => {
      if (this.dragFrom === null || !this.options) return;
      const bins = this.options.bins, from = this.dragFrom, to = this.dragTo;
      this.dragFrom = null;
      if (Math.abs(to - from) <= 4) return this.draw();
      const shift = event.clientX - this.place(event).x;
      const bin = (/** @type {number} */ x) =>
          this.place(/** @type {MouseEvent} */ ({clientX: x + shift, clientY: event.clientY})).bin;
      change({range: [bins.steps[bin(Math.min(from, to))], bins.steps[bin(Math.max(from, to))]]});
    });
    this.canvas.addEventListener("dblclick", () => change({range: null}));
    this.canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      if (!this.options) return;
      const at = this.place(event), row = this.options.rows[at.row];
      if (!row) return;
      this.row = at.row;
      if (at.isLabel && row.fold && this.options.onFold)
        this.options.onFold(row);
      else if (at.isLabel)
        this.pick();
      else
        change({step: this.options.bins.steps[at.bin]});
      if (!at.isLabel) this.pick();
      this.draw();
      this.tell();
    });
    this.scroll.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.onKey(event));
  }

  pick() {
    if (this.options && this.options.onPick)
      this.options.onPick(this.options.rows[this.row], this.options.bins.binOf(view.step));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (!this.options) return;
    const {rows, bins} = this.options, page = Math.floor(this.scroll.clientHeight / ROW) - 1;
    const down = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -rows.length,
      End: rows.length
    }[event.key];
    const right = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (down !== undefined) {
      this.row = Math.min(Math.max(this.row + down, 0), rows.length - 1);
      const y = this.row * ROW, sight = this.scroll.clientHeight - AXIS - ROW;
      this.scroll.scrollTop = Math.min(Math.max(this.scroll.scrollTop, y - sight), y);
    } else if (right !== undefined) {
      const bin = Math.min(Math.max(bins.binOf(view.step) + right, 0), bins.steps.length - 1);
      change({step: bins.steps[bin]});
    } else if (event.key === "Enter")
      this.pick();
    else if (event.key === " " && rows[this.row].fold && this.options.onFold)
      this.options.onFold(rows[this.row]);
    else if (event.key === "Escape")
      change({range: null});
    else
      return;
    event.preventDefault();
    this.draw();
    this.tell();
  }
}

/** The next of 1, 2, 5, 10, 20 ... that is not below.
 * @param {number} least */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) || 1;
}

/** The text, cut in the middle so that it fits: the ends of names differ.
 * @param {CanvasRenderingContext2D} ctx @param {string} text @param {number} width */
function fitted(ctx, text, width) {
  const safe = visible(text, 300);
  const room = Math.floor(width / (ctx.measureText("m").width || 8));
  if (safe.length <= room) return safe;
  const head = Math.max(Math.floor(room * 0.35), 1);
  return `${safe.slice(0, head)}…${safe.slice(-Math.max(room - head - 1, 1))}`;
}

/** The colours of a scale with their values, and the signs of NaN and Inf.
 * @param {Scale} scale @param {[string, string, string]} texts least, middle, most */
export function legend(scale, texts) {
  const bar = el("canvas", {width: 160, height: 12}), ctx = bar.getContext("2d");
  const palette = scale.isDiverging ? PALETTES.diverging : PALETTES.plain;
  for (let i = 0; i < 160; i++) {
    const c = 3 * Math.round(i / 159 * 255);
    ctx.fillStyle = `rgb(${palette[c]},${palette[c + 1]},${palette[c + 2]})`;
    ctx.fillRect(i, 0, 1, 12);
  }
  const key = el("span", {className: "key"}), none = el("span", {className: "key"});
  key.style.background = `rgb(${NAN_COLOR})`;
  none.style.background = cssColor("--panel");
  none.style.border = `1px solid ${cssColor("--line")}`;
  return el(
      "div", {className: "legend"},
      el("span", {}, texts[0], bar, texts[2], texts[1] ? ` (middle: ${texts[1]})` : ""),
      el("span", {}, key, "NaN (×) or Inf (−)"), el("span", {}, none, "nothing recorded"));
}
