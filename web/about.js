/* about.js -- where the run came from.
 * SPDX-License-Identifier: Apache-2.0 */
import {count, facts} from "./data.js";
import {byId, bytesText, el, fresh, visible} from "./dom.js";

/** @param {string} text of a JSON list */
function commandText(text) {
  try {
    const words = JSON.parse(text);
    return Array.isArray(words) ?
        words.map((word) => (/^[\w@%+=:,./*-]+$/.test(word) ? word : JSON.stringify(word))).join(" ") :
        text;
  } catch {
    return text;
  }
}

/** @param {[string, string][]} rows */
function table(rows) {
  return el(
      "div", {className: "scrollx"},
      el("table", {className: "plain"},
         el("tbody", {},
            ...rows.map(([key, value]) => el("tr", {}, el("th", {textContent: visible(key, 80)}), el("td", {
                                               textContent: visible(value, 4000)
                                             }))))));
}

/** "0 to 7, 9"
 * @param {number[]} ranks */
function rangesText(ranks) {
  /** @type {number[][]} */
  const ranges = [];
  for (const rank of ranks) {
    const last = ranges.at(-1);
    if (last && rank === last[1] + 1)
      last[1] = rank;
    else
      ranges.push([rank, rank]);
  }
  return ranges.map(([from, to]) => (to > from ? `${from} to ${to}` : String(from))).join(", ");
}

export function showAbout() {
  fresh("about");
  for (const run of facts.runs) {
    const info = {...run.info},
          rows = /** @type {[string, string][]} */ ([["run", run.path], ["state", run.state]]);
    if (info.argv) rows.push(["command", commandText(info.argv)]);
    delete info.argv;
    for (const [key, value] of Object.entries(info)) rows.push([key, value]);
    rows.push(
        ["ranks", rangesText([...new Set(run.ranks)])],
        ["size", `${bytesText(run.bytes)}, ${count(run.points)} points`]);
    const cost = 100 * Number(run.cost);
    if (Number.isFinite(cost))
      rows.push(["cost of watching", `${cost < 0.1 ? "less than 0.1" : cost.toFixed(1)} % of the time`]);
    const about = facts.runs.length > 2 ?
        el("details", {}, el("summary", {textContent: visible(run.path, 120)})) :
        byId("about");
    if (about !== byId("about")) byId("about").append(about);
    about.append(table(rows));
    if (run.settings?.length) {
      about.append(
          el("details", {}, el("summary", {textContent: `Settings of the program (${run.settings.length})`}),
             table(run.settings)));
    }
    if (run.notes.length) {
      about.append(
          el("details", {}, el("summary", {textContent: `Notes (${run.notes.length})`}),
             el("ul", {},
                ...run.notes.map(
                    ([step, text]) => el("li", {textContent: `step ${step}: ${visible(text, 1000)}`})))));
    }
  }
  byId("about").append(el("p", {
    className: "faint",
    textContent: `Written by tensortap ${facts.version}. Charts by uPlot (MIT licence, Leon Sorokin).`
  }));
}
