/* ranks.js -- one site on every rank: rank x step, with the rank that differs most.
 * SPDX-License-Identifier: Apache-2.0 */
import {onChange, runs, view} from "./data.js";
import {el, fresh, short, visible} from "./dom.js";
import {Grid, legend} from "./grid.js";
import {STATISTICS, valuesOf} from "./map.js";
import {scaleOf} from "./scale.js";

export async function showRanks() {
  const run = runs[0], ranks = run.facts.ranks;
  if (ranks.length < 2) return;
  const section = fresh("ranks");
  const note = el("p", {}), legendHost = el("div", {});
  section.append(note);
  const grid = new Grid(section, "Ranks and steps");
  section.append(legendHost);

  const rebuild = async () => {
    const isChosen = view.site >= 0 && view.run === 0;
    const first = [...run.numbers.series, ...run.tensors.series].find(
        (series) => /loss/i.test(run.sites[series.site].name));
    const site = isChosen ? view.site :
        first             ? first.site :
                            (run.tensors.series[0] || run.numbers.series[0])?.site;
    if (site === undefined) return;
    const found = run.seriesOf(site);
    if (!found) return;
    const bins = found.bins, isTensor = bins === run.tensors;
    const statistic = /** @type {any} */ (STATISTICS)[view.stat];
    await bins.load(isTensor ? statistic.columns : ["value"]);
    const all = ranks.map((_, file) => {
      const series = bins.find(site, file, false) || bins.find(site, file, true);
      const values = !series ? null :
          isTensor           ? valuesOf(run, site, view.stat, file, series.isEval) :
                               bins.values(series, "value");
      return {
        values: values || new Float32Array(bins.steps.length).fill(NaN),
        bad: series ? bins.badOf(series) : null
      };
    });
    /* How far each rank is from the median of all, on average, relative to that median. */
    const apart = ranks.map(() => 0);
    bins.steps.forEach((_, i) => {
      const column = all.map((one) => one.values[i]).filter(Number.isFinite).sort((a, b) => a - b);
      const middle = column[column.length >> 1];
      all.forEach((one, r) => {
        apart[r] += one.bad && one.bad[i] ? 1 :
            column.length                 ? Math.abs(one.values[i] - middle) / (Math.abs(middle) || 1) || 0 :
                                            0;
      });
    });
    const worst = apart.indexOf(Math.max(...apart)), sorted = [...apart].sort((a, b) => a - b),
          usual = sorted[sorted.length >> 1];
    const isOdd = apart[worst] > 3 * usual && apart[worst] / bins.steps.length > 1e-3;
    note.textContent =
        `${visible(run.sites[site].name, 200)}: ${isTensor ? statistic.text : "value"} on each rank. ` +
        (isOdd ? `Rank ${ranks[worst]} differs most from the others.` :
                 "No rank differs much from the others.") +
        " Choose another site in the map.";
    const {scale, texts} = scaleOf(
        all.map((one) => one.values),
        isTensor                                             ? statistic.scale :
            all.some((one) => one.values.some((x) => x < 0)) ? "signed" :
                                                               "log");
    legendHost.replaceChildren(legend(scale, texts));
    grid.show({
      bins,
      scale,
      rows: ranks.map((rank, r) => ({
                        label: `rank ${rank}${isOdd && r === worst ? " (differs)" : ""}`,
                        site,
                        values: () => all[r].values,
                        bad: () => all[r].bad,
                        isMarked: () => isOdd && r === worst
                      })),
      describe: (row, bin) => `${row.label}, ${bins.stepText(bin)}: ${short(row.values()[bin])}`
    });
  };
  onChange((changed) => {
    if (["site", "stat", "data"].some((key) => changed.has(key))) rebuild();
  });
  await rebuild();
}
