/* ranks.js -- one site on every rank: rank x step, by place in the mesh, with the rank that differs most.
 * SPDX-License-Identifier: Apache-2.0 */
import {Bins, facts, getText, INF_BIT, NAN_BIT, onChange, runs, view} from "./data.js";
import {el, fresh, short, visible} from "./dom.js";
import {Grid, legend} from "./grid.js";
import {STATISTICS, valuesOf} from "./map.js";
import {scaleOf} from "./scale.js";

/** What each rank has of a site.
 * @typedef {{site: number, bins: Bins, isTensor: boolean, text: string,
 *   all: {values: Float32Array, bad: Uint8Array|null}[]}} Ranks */

/** Maps that were asked for, by site: a page that is a file has a few.
 * @type {Map<number, Promise<any>>} */
const blocks = new Map();

/** @param {number} site */
function blockOf(site) {
  if (facts.live || !blocks.has(site)) blocks.set(site, getText(`0/ranks/${site}`));
  return /** @type {Promise<any>} */ (blocks.get(site));
}

/** The ranks of a run whose other numbers are those of the whole job.
 * @param {number} site @returns {Promise<Ranks|null>} */
async function ranksOfJob(site) {
  const block = await blockOf(site);
  if (!block) return null;
  const bins = new Bins("0/ranks");
  bins.width = block.width;
  bins.last = block.last;
  for (let i = 0; i < block.bins; i++) bins.steps.push(block.first + i * block.width);
  const all = block.rows.map((/** @type {string} */ row) => {
    const cells = row.split(" ");
    return {
      values: Float32Array.from(cells, (x) => (x === "" || x === "n" || x === "i" ? NaN : Number(x))),
      bad: Uint8Array.from(
          cells,
          (x) =>
              (x === "n"     ? NAN_BIT :
                   x === "i" ? INF_BIT :
                               0))
    };
  });
  return {site, bins, isTensor: block.tensor, text: block.tensor ? "root mean square" : "value", all};
}

/** The ranks of a run that was not joined: each has its own series.
 * @param {number} site @returns {Promise<Ranks|null>} */
async function ranksOfFiles(site) {
  const run = runs[0], found = run.seriesOf(site);
  if (!found) return null;
  const bins = found.bins, isTensor = bins === run.tensors;
  const statistic = /** @type {any} */ (STATISTICS)[view.stat];
  await bins.load(isTensor ? statistic.columns : ["value"]);
  const all = run.facts.ranks.map((_, file) => {
    const series = bins.find(site, file, false) || bins.find(site, file, true);
    const values = !series ? null :
        isTensor           ? valuesOf(run, site, view.stat, file, series.isEval) :
                             bins.values(series, "value");
    return {
      values: values || new Float32Array(bins.steps.length).fill(NaN),
      bad: series ? bins.badOf(series) : null
    };
  });
  return {site, bins, isTensor, text: isTensor ? statistic.text : "value", all};
}

/** The site that is chosen, and those to show without one: findings, losses, the first.
 * @returns {number[]} */
function candidates() {
  const run = runs[0], named = facts.answers.filter((one) => one.run === 0).flatMap((one) => one.sites);
  const all = [...run.numbers.series, ...run.tensors.series].map((series) => series.site);
  return [
    ...(view.site >= 0 && view.run === 0 ? [view.site] : []),
    ...all.filter((site) => /loss/i.test(run.sites[site].name)),
    ...named.map((name) => run.sites.findIndex((site) => site.name === name)).filter((site) => site >= 0),
    ...run.tensors.series.slice(0, 1).map((series) => series.site),
    ...run.numbers.series.slice(0, 1).map((series) => series.site)
  ];
}

/** How far each rank is from the median of all, on average, relative to that median.
 * @param {Ranks} ranks */
function distances({bins, all}) {
  const apart = all.map(() => 0);
  bins.steps.forEach((_, i) => {
    const column = all.map((one) => one.values[i]).filter(Number.isFinite).sort((a, b) => a - b);
    const middle = column[column.length >> 1];
    all.forEach((one, r) => {
      apart[r] += one.bad && one.bad[i] ? 1 :
          column.length                 ? Math.abs(one.values[i] - middle) / (Math.abs(middle) || 1) || 0 :
                                          0;
    });
  });
  return apart;
}

export async function showRanks() {
  const run = runs[0], ranks = run.facts.ranks, mesh = run.facts.mesh;
  if (ranks.length < 2) return;
  const section = fresh("ranks");
  const note = el("p", {}), legendHost = el("div", {});
  section.append(note);
  const order =
      el("select", {ariaLabel: "group ranks by"}, el("option", {value: "-1", textContent: "by rank"}),
         ...(mesh ? mesh.names : []).map((name, d) => el("option", {
                                           value: String(d),
                                           textContent: `by ${visible(name) || `axis ${d}`}`
                                         })));
  if (mesh && mesh.names.length > 1) section.append(el("p", {}, order));
  const grid = new Grid(section, "Ranks and steps");
  section.append(legendHost);

  /** "dp 4 tp 5"
   * @param {number} file */
  const place = (file) => (mesh ? mesh.at[file] || [] : [])
                              .map((at, d) => `${visible(mesh?.names[d] || `axis ${d}`)} ${at}`)
                              .join(" ");

  const rebuild = async () => {
    /** @type {Ranks|null} */
    let shown = null;
    for (const site of candidates()) {
      shown = await (run.facts.joined ? ranksOfJob(site) : ranksOfFiles(site));
      if (shown) break;
    }
    if (!shown) return;
    const {site, bins, isTensor, text, all} = shown, apart = distances(shown);
    const worst = apart.indexOf(Math.max(...apart)), sorted = [...apart].sort((a, b) => a - b),
          usual = sorted[sorted.length >> 1];
    const isOdd = apart[worst] > 3 * usual && apart[worst] / bins.steps.length > 1e-3;
    const isAsked = view.site < 0 || view.run !== 0 || view.site === site;
    note.textContent = `${visible(run.sites[site].name, 200)}: ${text} on each rank. ` +
        (isOdd ? `Rank ${ranks[worst]}${place(worst) && ` (${place(worst)})`} differs most from the others.` :
                 "No rank differs much from the others.") +
        (isAsked ? " Choose another site in the map." :
                   " The chosen site is not in this file rank by rank; tensortap serve shows all.");
    const {scale, texts} = scaleOf(
        all.map((one) => one.values),
        isTensor ? (run.facts.joined ? "log" : /** @type {any} */ (STATISTICS)[view.stat].scale) :
            all.some((one) => one.values.some((x) => x < 0)) ? "signed" :
                                                               "log");
    legendHost.replaceChildren(legend(scale, texts));
    const by = Number(order.value), rows = ranks.map((_, file) => file);
    if (mesh && by >= 0) rows.sort((a, b) => (mesh.at[a][by] ?? 0) - (mesh.at[b][by] ?? 0) || a - b);
    grid.show({
      bins,
      scale,
      rows: rows.map((file) => ({
                       label: `${place(file) && `${place(file)}  `}rank ${ranks[file]}`, /* cut on its left */
                       site,
                       values: () => all[file].values,
                       bad: () => all[file].bad,
                       isMarked: () => isOdd && file === worst
                     })),
      describe: (row, bin) => `${row.label}, ${bins.stepText(bin)}: ${short(row.values()[bin])}`
    });
  };
  order.addEventListener("change", rebuild);
  onChange((changed) => {
    if (["site", "stat", "data"].some((key) => changed.has(key))) rebuild();
  });
  await rebuild();
}
