/* verdict.js -- the findings: what is wrong, with evidence and a link to the place.
 * SPDX-License-Identifier: Apache-2.0 */
import {spark} from "./chart.js";
import {change, count, facts, runs, view} from "./data.js";
import {byId, bytesText, el, visible} from "./dom.js";

const SIGNS = ["●", "✓", "◆", "▲"], MOODS = ["note", "fine", "remark", "alarm"];

/** Opens a site at a step.
 * @param {number} run @param {number} site @param {number} step */
export function goTo(run, site, step) {
  const name = runs[run].sites[site] ? runs[run].sites[site].name : "";
  const slash = name.indexOf("/");
  const kind =
      slash > 0 && runs[run].tree.some((row) => row.depth === 0 && row.label === name.slice(0, slash)) ?
      name.slice(0, slash) :
      view.kind;
  change({run, site, kind, ...(step >= 0 ? {step} : {})});
  byId("site").scrollIntoView();
}

/** What the runs are, in a line. */
export function showSummary() {
  byId("summary").textContent =
      facts.runs
          .map(
              (one) => `${facts.runs.length > 1 ? `${visible(one.path, 80)}: ` : ""}${one.state}, ${
                           count(one.shown)} sites, ${count(one.points)} points, ${bytesText(one.bytes)}` +
                  (one.lost ? `, ${count(one.lost)} points cannot be read` : ""))
          .join("; ");
}

/** @param {string[]} texts */
function details(texts) {
  const lines = texts.map((text) => el("p", {className: "faint", textContent: visible(text, 700)}));
  return lines.length <= 2 ? lines :
                             [el("details", {}, el("summary", {textContent: "Which ones"}), ...lines)];
}

/** Shows the sentences; needs nothing but the facts. */
export function showVerdict() {
  const run = facts.runs[0];
  const paths = facts.runs.map((one) => one.path).join(" and ");
  document.title = `${paths} · tensortap`;
  byId("title").textContent = visible(paths, 160);
  showSummary();
  if (!run || facts.pending) return;
  const order = facts.findings.map((finding, i) => ({finding, i}))
                    .sort((a, b) => b.finding.weight - a.finding.weight || a.i - b.i);
  byId("findings").replaceChildren(...order.map(({finding, i}) => {
    const of = facts.runs.length > 1 && finding.run !== undefined && !/two runs/.test(finding.text) ?
        `${visible(facts.runs[finding.run].path, 60)}: ` :
        "";
    return el(
        "li", {className: `w${finding.weight}`, id: `finding-${i}`},
        el("span", {className: "sign", textContent: SIGNS[finding.weight], title: MOODS[finding.weight]}),
        el("div", {className: "body"},
           el("p", {className: "say", textContent: of + visible(finding.text, 700)}),
           ...details(finding.detail)),
        el("div", {className: "evidence"}));
  }));
}

/** Adds charts and links, when the data are there. */
export async function addEvidence() {
  for (const [i, finding] of facts.findings.entries()) {
    const item = byId(`finding-${i}`);
    if (!item || finding.site < 0) continue;
    const run = runs[finding.run || 0];
    const site = run.sites[finding.site], body = item.querySelector(".body");
    if (!site) continue;
    const link = (/** @type {number} */ which, /** @type {number} */ step) => el("button", {
      type: "button",
      className: "link name",
      textContent: visible(run.sites[which].name, 160),
      onclick: () => goTo(run.number, which, step)
    });
    if (finding.fed_by && finding.fed_by.length) {
      body.append(
          el("table", {className: "fed"},
             el("tbody", {},
                ...finding.fed_by.map(
                    ([role, which, step, line]) =>
                        el("tr", {}, el("td", {className: "faint", textContent: role}),
                           el("td", {}, link(which, step)),
                           el("td", {className: "name", textContent: visible(line)}))))));
    }
    const sites = finding.sites || [];
    if (sites.length > 1) {
      const more = (finding.count || 0) - sites.length;
      body.append(
          el("details", {open: sites.length <= 4}, el("summary", {textContent: `${finding.count} sites`}),
             el("div", {className: "chips"}, ...sites.map((which) => link(which, finding.step)),
                more > 0 ? el("span", {className: "faint", textContent: `and ${more} more`}) : null)));
    }
    body.append(
        el("p", {}, el("button", {
             type: "button",
             className: "link",
             textContent: finding.step >= 0 ? `Open this site at step ${finding.step}` : "Open the site",
             onclick: () => goTo(run.number, finding.site, finding.step)
           })));
    const found = run.seriesOf(finding.site);
    if (!found) continue;
    const isTensor = found.bins === run.tensors;
    await found.bins.load([isTensor ? "rms" : "value"]);
    const mark = finding.step >= 0 ? found.bins.binOf(finding.step) : -1;
    item.querySelector(".evidence")
        .replaceChildren(
            spark(
                found.bins.values(found.series, isTensor ? "rms" : "value"), found.bins.badOf(found.series),
                mark),
            el("div",
               {className: "faint", textContent: isTensor ? "rms over the steps" : "value over the steps"}));
  }
}
