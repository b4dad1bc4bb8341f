/* verdict.js -- the answers: what is wrong, with evidence, a link to the place and commands that show more.
 * SPDX-License-Identifier: Apache-2.0 */
import {spark} from "./chart.js";
import {change, count, facts, runs, view, weightOf} from "./data.js";
import {byId, bytesText, el, visible} from "./dom.js";

const SIGNS = {
  note: "●",
  fine: "✓",
  warning: "◆",
  error: "▲"
};
const ROLES = {
  before: "fed by",
  parameter: "parameter",
  previous: "last time"
};

/** Opens a site at a step.
 * @param {number} run @param {number|undefined} site @param {number} step */
export function goTo(run, site, step) {
  if (site === undefined) return;
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
  if (facts.runs.length > 2) {
    const points = facts.runs.reduce((sum, one) => sum + one.points, 0);
    byId("summary").textContent = `${facts.runs.length} runs, ${count(points)} points`;
    return;
  }
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
  const isOne = facts.runs.length <= 2;
  const paths = isOne ? facts.runs.map((one) => one.path).join(" and ") : `${facts.runs.length} runs`;
  document.title = `${paths} · tensortap`;
  byId("title").textContent = visible(paths, 160);
  showSummary();
  if (!run || facts.pending) return;
  const order = facts.answers.map((answer, i) => ({answer, i}))
                    .sort((a, b) => weightOf(b.answer) - weightOf(a.answer) || a.i - b.i);
  byId("findings").replaceChildren(...order.map(({answer, i}) => layOut(answer, i)));
}

/** An answer; charts and links come later.
 * @param {import("./data.js").Answer} answer @param {number} i */
function layOut(answer, i) {
  const of = facts.runs.length > 1 && answer.run >= 0 ? `${visible(facts.runs[answer.run].path, 60)}: ` : "";
  const rank = answer.rank >= 0 ? `rank ${answer.rank}: ` : "";
  const code = answer.code ? [el("p", {className: "faint", textContent: visible(answer.code, 300)})] : [];
  const todo = answer.kind === "finding" && answer.remedy ? [answer.remedy] : [];
  const sure = answer.likelihood === "likely" ? " (likely)" : "";
  const follows = answer.follow_count ?
      [`and ${answer.follow_count} that follow${answer.follow_count === 1 ? "s" : ""} from it: ${
          answer.follows}`] :
      [];
  return el(
      "li", {className: answer.severity, id: `answer-${i}`},
      el("span", {className: "sign", textContent: SIGNS[answer.severity], title: answer.severity}),
      el("div", {className: "body"},
         el("p", {className: "say", textContent: of + rank + visible(answer.sentence, 700) + sure}), ...code,
         ...details([...answer.detail, ...follows, ...todo]), el("div", {className: "links"}),
         ...answer.next.map(
             (command) => el("code", {className: "next", textContent: visible(command, 700)}))),
      el("div", {className: "evidence"}));
}

/** Adds charts and links, when the data are there. */
export async function addEvidence() {
  for (const [i, answer] of facts.answers.entries()) {
    const item = byId(`answer-${i}`);
    if (!item || !answer.sites.length) continue;
    const run = runs[Math.max(answer.run, 0)], site = run.byName.get(answer.sites[0]);
    const links = item.querySelector(".links");
    if (site === undefined) continue;
    const link = (/** @type {string} */ name, /** @type {number} */ step) => el("button", {
      type: "button",
      className: "link name",
      textContent: visible(name, 160),
      onclick: () => goTo(run.number, run.byName.get(name), step)
    });
    if (answer.feeds.length) {
      links.append(
          el("table", {className: "fed"},
             el("tbody", {},
                ...answer.feeds.map(
                    (feed) =>
                        el("tr", {}, el("td", {className: "faint", textContent: ROLES[feed.role]}),
                           el("td", {}, link(feed.site, feed.step)),
                           el("td", {className: "name", textContent: visible(feed.line)}))))));
    }
    if (answer.sites.length > 1) {
      const more = answer.site_count - answer.sites.length;
      links.append(
          el("details", {open: answer.sites.length <= 4},
             el("summary", {textContent: `${answer.site_count} sites`}),
             el("div", {className: "chips"}, ...answer.sites.map((name) => link(name, answer.first_step)),
                more > 0 ? el("span", {className: "faint", textContent: `and ${more} more`}) : null)));
    }
    links.append(el("p", {}, el("button", {
                      type: "button",
                      className: "link",
                      textContent: answer.first_step >= 0 ? `Open this site at step ${answer.first_step}` :
                                                            "Open the site",
                      onclick: () => goTo(run.number, site, answer.first_step)
                    })));
    const found = run.seriesOf(site);
    if (!found) continue;
    const isTensor = found.bins === run.tensors;
    await found.bins.load([isTensor ? "rms" : "value"]);
    const mark = answer.first_step >= 0 ? found.bins.binOf(answer.first_step) : -1;
    item.querySelector(".evidence")
        .replaceChildren(
            spark(
                found.bins.values(found.series, isTensor ? "rms" : "value"), found.bins.badOf(found.series),
                mark),
            el("div",
               {className: "faint", textContent: isTensor ? "rms over the steps" : "value over the steps"}));
  }
}
