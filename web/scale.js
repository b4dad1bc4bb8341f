/* scale.js -- from values to colours.
 * SPDX-License-Identifier: Apache-2.0 */
import {short} from "./dom.js";

const OUTLIER = 1000; /* times what 9 of 10 values stay below */
const SAMPLE = 20000;

/** How far values go, with a sample of them.  More can be added as a run grows. */
export class Range {
  constructor() {
    this.low = Infinity;
    this.high = 0;
    /** @type {number[]} */
    this.sample = [];
    this.every = 1; /* one in so many values is in the sample */
    this.number = 0;
  }

  /** @param {Float32Array} values */
  add(values) {
    let {low, high, number} = this;
    for (let i = 0; i < values.length; i++) {
      const size = Math.abs(values[i]);
      if (!(size > 0) || size === Infinity) continue;
      if (size > high) high = size;
      if (size < low) low = size;
      if (number++ % this.every === 0) this.sample.push(size);
    }
    Object.assign(this, {low, high, number});
    if (this.sample.length > SAMPLE) {
      this.sample = this.sample.filter((_, i) => i % 2 === 0);
      this.every *= 2;
    }
  }

  /** @param {string} kind of the scale */
  scale(kind) {
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
    let {low, high} = this, top = "";
    const sample = Float32Array.from(this.sample).sort();
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
      const small = Math.max(low, high * 1e-4), span = Math.log1p(high / small);
      return {
        scale: {
          toUnit: (/** @type {number} */ x) =>
              0.5 + 0.5 * Math.sign(x) * Math.log1p(Math.abs(x) / small) / span,
          isDiverging: true
        },
        texts: /** @type {[string, string, string]} */ (
            [(top && "≤ ") + short(-high, 2), "0", top + short(high, 2)])
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
}

/** The scale of all values of these rows.
 * @param {Float32Array[]} all @param {string} kind */
export function scaleOf(all, kind) {
  const range = new Range();
  for (const values of all) range.add(values);
  return range.scale(kind);
}
