/* list.js -- the runs of a folder, to search, to open and to compare.
 * SPDX-License-Identifier: Apache-2.0 */
import {ask, count, facts} from "./data.js";
import {byId, bytesText, el, fresh, visible} from "./dom.js";

/** @typedef {{run: string, error?: string, started?: number, command?: string|null, state?: string,
 *   first_step?: number, last_step?: number, points?: number, ranks?: number, bytes?: number}} ListedRun */

const EVERY = 5000; /* ms */

/** @param {number|undefined} ns since 1970 */
function timeText(ns) {
  if (!ns) return "";
  const at = new Date(ns / 1e6), two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${
      two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** @param {string} run @param {string} [other] */
function address(run, other) {
  return `?${new URLSearchParams(other === undefined ? {of: run} : {of: run, with: other})}`;
}

export function showList() {
  const section = fresh("runs");
  for (const other of document.querySelectorAll("main > section"))
    if (other !== section) /** @type {HTMLElement} */
      (other).hidden = true;
  document.title = `${facts.folder} · tensortap`;
  byId("title").textContent = visible(facts.folder || "", 160);
  const filter = el("input", {type: "search", placeholder: "Search runs", ariaLabel: "Search runs"});
  const compare = el("button", {type: "button", textContent: "Compare two runs", disabled: true});
  const note = el("span", {className: "faint"}), rows = el("tbody", {});
  /** @type {Set<string>} */
  const chosen = new Set();

  /** @param {ListedRun} one */
  const row = (one) => {
    const box = el("input", {
      type: "checkbox",
      checked: chosen.has(one.run),
      disabled: one.error !== undefined,
      ariaLabel: `Compare ${visible(one.run, 80)}`,
      onchange: () => {
        if (box.checked)
          chosen.add(one.run);
        else
          chosen.delete(one.run);
        update();
      }
    });
    const steps = one.error === undefined && (one.last_step ?? -1) >= (one.first_step ?? 0) ?
        count((one.last_step || 0) - (one.first_step || 0) + 1) :
        "";
    return el(
        "tr", {}, el("td", {}, box),
        el("td", {},
           one.error === undefined ?
               el("a", {className: "name", href: address(one.run), textContent: visible(one.run, 160)}) :
               el("span", {className: "name", textContent: visible(one.run, 160)})),
        el("td", {
          className: one.error !== undefined ? "alarm" : `state-${one.state}`,
          textContent: one.error === undefined ? one.state : "unreadable"
        }),
        el("td", {className: "n", textContent: timeText(one.started)}),
        el("td", {className: "n", textContent: steps}),
        el("td", {className: "n", textContent: one.bytes === undefined ? "" : bytesText(one.bytes)}),
        el("td", {className: "name", textContent: visible(one.error || one.command || "", 200)}));
  };

  const update = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), all = facts.list || [];
    const wanted = all.filter((one) => {
      const text = `${one.run} ${one.command || ""} ${one.state || "unreadable"}`.toLowerCase();
      return words.every((/** @type {string} */ word) => text.includes(word));
    });
    rows.replaceChildren(...wanted.map(row));
    compare.disabled = chosen.size !== 2;
    note.textContent = `${count(wanted.length)} of ${count(all.length)} runs${
        chosen.size === 1   ? "; choose one more to compare" :
            chosen.size > 2 ? "; choose two to compare" :
                              ""}`;
  };
  filter.addEventListener("input", update);
  compare.addEventListener("click", () => {
    const [a, b] = [...chosen];
    location.href = address(a, b);
  });
  const titles = ["", "run", "state", "started", "steps", "size", "command"];
  section.append(
      el("div", {className: "controls"}, filter, compare, note),
      el("div", {className: "scrollx"},
         el("table", {className: "plain runs"},
            el("thead", {},
               el("tr", {},
                  ...titles.map(
                      (text, i) => el("th", {className: i >= 3 && i < 6 ? "n" : "", textContent: text})))),
            rows)));
  update();
  const again = async () => {
    if (!document.hidden) {
      try {
        const list = (await (await ask("runs", {})).json()).list;
        const isSame = JSON.stringify(list) === JSON.stringify(facts.list);
        facts.list = list;
        if (!isSame) update();
        byId("status").textContent = "";
      } catch (error) {
        byId("status").textContent = `No answer from the server: ${/** @type {Error} */ (error).message}`;
      }
    }
    setTimeout(again, EVERY);
  };
  setTimeout(again, EVERY);
}
