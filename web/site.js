/* site.js -- everything about one site.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {count, facts, onChange, runs, view, weightOf} from "./data.js";
import {byId, cssColor, el, GREY, PALETTES, short, visible} from "./dom.js";

/** @type {Chart[]} */
let siteCharts = [];
/** @type {HTMLElement|null} */
let atStep = null;

/** @param {{top: number, octaves: number, columns: number[][]}} hist */
function histogram(hist) {
  const rows = 2 * hist.octaves + 1, n = hist.columns.length;
  const wide = Math.max(Math.floor(640 / n), 2), tall = 8;
  const canvas = el(
      "canvas", {width: n * wide, height: rows * tall, role: "img", ariaLabel: "histograms over the steps"});
  canvas.style.maxWidth = "100%";
  const ctx = canvas.getContext("2d");
  hist.columns.forEach((column, i) => {
    for (let r = 0; r < rows; r++) {
      const share = column[1 + r] / 255, c = 3 * Math.round(Math.sqrt(share) * 255);
      ctx.fillStyle = share > 0 ?
          `rgb(${PALETTES.plain[c]},${PALETTES.plain[c + 1]},${PALETTES.plain[c + 2]})` :
          cssColor("--empty");
      ctx.fillRect(i * wide, (rows - 1 - r) * tall, wide, tall);
    }
  });
  const most = short(2 ** hist.top, 2);
  return el(
      "div", {className: "chart"}, el("h3", {textContent: "Histogram over the steps"}), canvas, el("p", {
        className: "faint",
        textContent: `Steps ${hist.columns[0][0]} to ${hist.columns[n - 1][0]}; from −${
            most} (bottom) over 0 to ${most} (top), one row for each power of two; brighter: a larger share.`
      }));
}

/** @param {{label: string, rows: string[][], partial: boolean, rank?: number}} value */
function kept(value) {
  const numbers = value.rows.map((row) => row.map(Number)), finite = numbers.flat().filter(Number.isFinite);
  const most = Math.max(...finite.map(Math.abs), 1e-300);
  const title = `Kept tensor${value.label ? `, slice ${visible(value.label)}` : ""}${
      value.partial ? " (some of its elements)" :
                      ""}${value.rank !== undefined ? `, of rank ${value.rank}` : ""}`;
  const table =
      el("table", {className: "plain"},
         el("tbody", {},
            ...value.rows.slice(0, 8).map(
                (row) =>
                    el("tr", {},
                       ...row.slice(0, 8).map((text) => el("td", {className: "n", textContent: text}))))));
  const rows = numbers.length, cols = rows ? numbers[0].length : 0,
        size = Math.max(Math.min(Math.floor(320 / Math.max(cols, rows)), 24), 4);
  const canvas =
      el("canvas",
         {width: cols * size, height: rows * size, role: "img", ariaLabel: "the kept tensor as an image"});
  const ctx = canvas.getContext("2d");
  numbers.forEach((row, r) => row.forEach((x, c) => {
    const p = 3 * Math.round((Math.min(Math.max(x / most, -1), 1) * 0.5 + 0.5) * 255);
    ctx.fillStyle = Number.isFinite(x) ?
        `rgb(${PALETTES.diverging[p]},${PALETTES.diverging[p + 1]},${PALETTES.diverging[p + 2]})` :
        cssColor("--alarm");
    ctx.fillRect(c * size, r * size, size, size);
  }));
  return el(
      "div", {className: "chart"}, el("h3", {textContent: title}), canvas,
      el("div", {className: "scrollx"}, table));
}

/** What the charts of the site show.
 * @param {import("./data.js").Run} run @param {import("./data.js").Bins} bins @param {import("./data.js").Series} series */
function chartsOf(run, bins, series) {
  const x = bins.steps, bad = bins.badOf(series);
  const get = (/** @type {string} */ name) => bins.values(series, name);
  if (bins !== run.tensors)
    return [{
      title: "Value",
      key: `number:${run.sites[view.site].name}`,
      x,
      bad,
      height: 220,
      lines: [{
        label: "value",
        values: get("value"),
        color: 0,
        ...(bins.columns.low !== bins.columns.value ? {low: get("low"), high: get("high")} : {})
      }]
    }];
  const mean = get("mean"), std = get("std");
  const others = bins.series.filter((one) => one.site === view.site && one !== series).slice(0, 7);
  const charts = [
    {
      title: "Range, mean ± standard deviation",
      x,
      bad,
      height: 220,
      lines: [
        {label: "range", color: GREY, low: get("min"), high: get("max"), names: ["min", "max"]}, {
          label: "mean",
          values: mean,
          color: 0,
          low: mean.map((m, i) => m - std[i]),
          high: mean.map((m, i) => m + std[i]),
          names: ["mean − std", "mean + std"]
        }
      ]
    },
    {
      title: "Root mean square",
      key: `rms:${run.sites[view.site].name}`,
      x,
      bad,
      height: 220,
      log: true,
      lines: [
        {
          label: "rms",
          values: get("rms"),
          color: 1,
          ...(bins.columns.rms_low !== bins.columns.rms ? {low: get("rms_low"), high: get("rms")} : {})
        },
        ...others.map((one, i) => ({
                        label: [
                          run.ranks.length > 1 ? `rank ${run.ranks[one.file]}` : "",
                          one.isEval        ? "eval" :
                              series.isEval ? "train" :
                                              ""
                        ].filter(Boolean)
                                   .join(" "),
                        values: bins.values(one, "rms"),
                        color: i + 2,
                        dash: [5, 4]
                      }))
      ]
    }
  ];
  if (get("zeros").some((z) => z > 0))
    charts.push(/** @type {any} */ (
        {title: "Share of zeros", x, bad, lines: [{label: "zeros", values: get("zeros"), color: 2}]}));
  return /** @type {import("./chart.js").ChartOptions[]} */ (charts);
}

/** The text below the name. */
function describe() {
  const run = runs[view.run], site = run.sites[view.site];
  const found = run.seriesOf(view.site, Math.max(view.file, 0), view.isEval);
  return `${count(site.points || 0)} points${site.count ? `, ${count(site.count)} elements` : ""}${
  !found || found.bins.exact ?
      "" :
      "; each point of the charts sums up several steps and keeps their least and largest value"}`;
}

async function showSite() {
  const run = runs[view.run], number = view.site, site = run.sites[number], section = byId("site");
  if (!site) {
    section.hidden = true;
    return;
  }
  section.hidden = false;
  for (const chart of siteCharts) chart.remove();
  siteCharts = [];
  atStep = null;
  section.replaceChildren(
      el("h2", {textContent: "Site"}),
      el("h3", {className: "name", id: "site-name", textContent: visible(site.name, 2000)}));
  const found = run.seriesOf(view.site, Math.max(view.file, 0), view.isEval);
  const name = section.lastChild;
  await run.refresh(number);
  if (found && found.bins === run.tensors)
    await found.bins.load(["min", "max", "mean", "std", "rms", "rms_low", "zeros"]);
  if (section.lastChild !== name) return; /* it was shown anew meanwhile */
  const remarks = [...new Set([
    ...(site.nonfinite ? ["nonfinite"] : []),
    ...facts.answers
        .filter((one) => weightOf(one) > 1 && one.run === view.run && one.sites.includes(site.name))
        .map((one) => String(one.rule))
  ])];
  if (remarks.length) section.append(el("p", {className: "alarm", textContent: `▲ ${remarks.join(", ")}`}));
  if (site.line !== undefined)
    section.append(
        el("div", {className: "line name", id: "site-line", textContent: `step ${site.step}: ${site.line}`}));
  if (!found) return;
  const thinned = run.facts.notes.filter((note) => note[1].includes(site.name))
                      .map((note) => `step ${note[0]}: ${note[1]}`);
  section.append(el("p", {className: "faint", id: "site-points", textContent: describe()}));
  for (const text of thinned.slice(0, 5))
    section.append(el("p", {className: "faint", textContent: visible(text)}));
  const charts = el("div", {className: "charts wide"});
  section.append(charts);
  siteCharts = chartsOf(run, found.bins, found.series).map((options) => {
    const host = el("div", {className: "chart"});
    charts.append(host);
    return new Chart(host, /** @type {any} */ (options));
  });
  if (site.histogram) charts.append(histogram(site.histogram));
  if (site.value && site.value.rows) charts.append(kept(site.value));
  atStep = el("div", {className: "scrollx"});
  section.append(el("h3", {textContent: "Numbers"}), atStep);
  showNumbers();
}

/** Shows what is new of the site that is open. */
async function updateSite() {
  const run = runs[view.run], number = view.site, site = run.sites[number];
  if (!site || !siteCharts.length) return;
  await run.refresh(number);
  const found = run.seriesOf(number, Math.max(view.file, 0), view.isEval);
  if (view.site !== number || !found) return;
  const charts = chartsOf(run, found.bins, found.series);
  if (charts.length !== siteCharts.length) return showSite();
  charts.forEach((options, i) => siteCharts[i].update(/** @type {any} */ (options)));
  if (byId("site-line")) byId("site-line").textContent = `step ${site.step}: ${site.line}`;
  byId("site-points").textContent = describe();
  showNumbers();
}

/** The statistics at the chosen step and of the latest point. */
function showNumbers() {
  const run = runs[view.run], site = run.sites[view.site];
  const found = site && run.seriesOf(view.site, Math.max(view.file, 0), view.isEval);
  if (!atStep || !found) return;
  const {bins, series} = found, bin = bins.binOf(view.step), isTensor = bins === run.tensors;
  const digits = [2, 2, 2, 4, 7][bins.bytes]; /* as many as are right */
  const names = isTensor ? ["min", "max", "mean", "std", "rms", "zeros"] : ["value"];
  const bad = bins.badOf(series)[bin];
  const cells = names.map(
      (name) => el("td", {className: "n", textContent: short(bins.values(series, name)[bin], digits)}));
  cells.push(el("td", {textContent: bad ? (bad & 1 ? "NaN" : "Inf") : ""}));
  const latest =
      names.map((name) => el("td", {
                  className: "n",
                  textContent: name === "zeros" ? "" : String(/** @type {any} */ (site)[name] ?? "")
                }));
  latest.push(el("td", {
    textContent:
        [site.nan ? `${site.nan} NaN` : "", site.inf ? `${site.inf} Inf` : ""].filter(Boolean).join(", ")
  }));
  atStep.replaceChildren(el(
      "table", {className: "plain", id: "site-numbers"},
      el("thead", {},
         el("tr", {}, el("th", {}), ...names.map((name) => el("th", {className: "n", textContent: name})),
            el("th", {textContent: "not finite"}))),
      el("tbody", {}, el("tr", {id: "site-at"}, el("th", {textContent: bins.stepText(bin)}), ...cells),
         el("tr", {id: "site-latest"}, el("th", {textContent: `latest (step ${site.step})`}), ...latest))));
}

onChange((changed) => {
  if (["site", "run", "isEval", "file"].some((key) => changed.has(key)))
    showSite();
  else if (changed.has("data"))
    updateSite();
  else if (changed.has("step"))
    showNumbers();
}, true);
