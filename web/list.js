/* list.js -- the runs of a folder, to choose, to sort, to open and to compare.
 * SPDX-License-Identifier: Apache-2.0 */
import {ask, count, facts} from "./data.js";
import {byId, bytesText, el, fresh, short, visible} from "./dom.js";

/** @typedef {{run: string, error?: string, started?: number, command?: string|null, state?: string,
 *   first_step?: number, last_step?: number, points?: number, ranks?: number, bytes?: number,
 *   verdict?: string|null, loss?: number|string|null, lr?: number|string|null, batch?: number|string|null,
 *   stride?: number, values?: Object<string, number|string>}} ListedRun
 * @typedef {{key: string, title: string, isNumber?: boolean, of: (one: ListedRun) => any,
 *   text?: (value: any, one: ListedRun) => string}} Column */

const EVERY = 5000; /* ms */
const MOST_RUNS = 20;
/* As filter.c reads them; longer ones first. */
const CONDITION = /^([^<>=!~\s][^<>=!~]*?)(<=|>=|==|!=|<|>|=|~)(.+)$/;

/** @param {number|undefined} ns since 1970 */
function timeText(ns) {
  if (!ns) return "";
  const at = new Date(ns / 1e6), two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${
      two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** @param {ListedRun} one */
function stepsOf(one) {
  const {first_step: first = 0, last_step: last = -1} = one;
  return one.error === undefined && last >= first ? last - first + 1 : undefined;
}

/** @param {any} value */
function numberText(value) {
  return value === undefined || value === null ? "" :
      typeof value === "number"                ? short(value) :
                                                 visible(String(value), 60);
}

/** @param {any} verdict */
export function verdictText(verdict) {
  return verdict ? String(verdict).replace(/^(nothing found) .*/, "$1") : "?";
}

/** @type {Column[]} */
const COLUMNS = [
  {key: "run", title: "run", of: (one) => one.run}, {
    key: "verdict",
    title: "verdict",
    of: (one) => one.verdict,
    text: (value, one) => (one.error === undefined ? verdictText(value) : "")
  },
  {key: "loss", title: "loss", isNumber: true, of: (one) => one.loss, text: numberText},
  {key: "lr", title: "lr", isNumber: true, of: (one) => one.lr, text: numberText},
  {key: "batch", title: "batch", isNumber: true, of: (one) => one.batch, text: numberText},
  {key: "state", title: "state", of: (one) => (one.error === undefined ? one.state : "unreadable")},
  {key: "started", title: "started", isNumber: true, of: (one) => timeText(one.started) || undefined}, {
    key: "steps",
    title: "steps",
    isNumber: true,
    of: stepsOf,
    text: (value, one) =>
        `${value === undefined ? "" : count(value)}${(one.stride || 1) > 1 ? ` (1 in ${one.stride})` : ""}`
  },
  {
    key: "size",
    title: "size",
    isNumber: true,
    of: (one) => one.bytes,
    text: (value) => (value === undefined ? "" : bytesText(value))
  },
  {key: "command", title: "command", of: (one) => one.error || one.command || undefined}
];
/* Keys that are no column. */
const HIDDEN = new Map([["points", "points"], ["ranks", "ranks"], ["stride", "stride"]]);

/** What a run has under a key: a column, a setting, a logged number, or the end of one of these.
 * @param {ListedRun} one @param {string} key */
function valueOf(one, key) {
  const column = COLUMNS.find((other) => other.key === key), values = one.values || {};
  const value = column ? column.of(one) : HIDDEN.has(key) ? /** @type {any} */ (one)[key] : values[key];
  if (value !== undefined || column) return value ?? undefined;
  const ends = Object.keys(values).filter((name) => name.endsWith(`/${key}`));
  return ends.length === 1 ? values[ends[0]] : undefined;
}

/** A number, also one that JSON has as text; undefined: it is none.
 * @param {any} value */
function asNumber(value) {
  const number = typeof value === "number" ? value :
      typeof value === "string" && value.trim() !== "" ?
                                             Number(value.replace(/^([+-]?)inf(inity)?$/i, "$1Infinity")) :
                                             NaN;
  return Number.isNaN(number) ? undefined : number;
}

/** @param {ListedRun} one @param {RegExpMatchArray} condition */
function holds(one, condition) {
  const [, key, operation, operand] = condition, value = valueOf(one, key.trim()), wanted = operand.trim();
  if (value === undefined) return false;
  if (operation === "~") {
    const pattern = wanted.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
    return new RegExp(`^(${pattern.replaceAll(",", "|")})$`, "s").test(String(value));
  }
  const a = asNumber(value), b = asNumber(wanted), areNumbers = a !== undefined && b !== undefined;
  const x = areNumbers ? a : String(value), y = areNumbers ? b : wanted;
  if (operation === "=" || operation === "==") return String(x).toLowerCase() === String(y).toLowerCase();
  if (operation === "!=") return String(x).toLowerCase() !== String(y).toLowerCase();
  if (value === "NaN") return false;
  return x < y ? operation[0] === "<" : x > y ? operation[0] === ">" : operation.length === 2;
}

/** Smaller values first, runs without the value last.
 * @param {any} a @param {any} b @param {number} direction */
function compareValues(a, b, direction) {
  const rank = (/** @type {any} */ x) => (x === undefined || x === null ? 2 : x === "NaN" ? 1 : 0);
  if (rank(a) || rank(b)) return rank(a) - rank(b);
  const x = asNumber(a), y = asNumber(b);
  if (x !== undefined && y !== undefined) return direction * (x - y);
  return direction * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
}

/** @param {string[]} runs */
function address(runs) { return `?${new URLSearchParams(runs.map((run, i) => [i ? "with" : "of", run]))}`; }

export function showList() {
  const section = fresh("runs");
  for (const other of document.querySelectorAll("main > section"))
    if (other !== section) /** @type {HTMLElement} */
      (other).hidden = true;
  document.title = `${facts.folder} · tensortap`;
  byId("title").textContent = visible(facts.folder || "", 160);
  const filter = el("input", {
    type: "search",
    placeholder: "Words, or lr<0.01 loss<2",
    ariaLabel: "Search runs",
    title:
        "Words of name, command and state, and conditions without blanks: KEY OP VALUE with < <= > >= = != ~"
  });
  const extra =
      el("input",
         {type: "search", placeholder: "Show a setting or number", ariaLabel: "Show a setting or number"});
  const names = el("datalist", {id: "value-names"});
  extra.setAttribute("list", "value-names");
  const compare = el("button", {type: "button", textContent: "Compare", disabled: true});
  const note = el("span", {className: "faint"}), rows = el("tbody", {}), head = el("tr", {});
  /** @type {Set<string>} */
  const chosen = new Set();
  let sort = "", direction = 1;

  /** @returns {Column[]} */
  const columns = () => {
    const more = extra.value.split(",")
                     .map((/** @type {string} */ key) => key.trim())
                     .filter(
                         (/** @type {string} */ key) =>
                             key && (facts.list || []).some((one) => valueOf(one, key) !== undefined));
    return [
      ...COLUMNS.slice(0, 5), ...more.map((/** @type {string} */ key) => ({
                                            key,
                                            title: key,
                                            isNumber: true,
                                            of: (/** @type {ListedRun} */ one) => valueOf(one, key),
                                            text: numberText
                                          })),
      ...COLUMNS.slice(5)
    ];
  };

  /** @param {Column} column @param {ListedRun} one */
  const cell = (column, one) => {
    const value = column.of(one),
          text = column.text ? column.text(value, one) : visible(String(value ?? ""), 200);
    if (column.key === "run" && one.error === undefined)
      return el(
          "td", {},
          el("a", {className: "name", href: address([one.run]), textContent: visible(one.run, 160)}));
    const isBad = value === "NaN" || (column.key === "verdict" && /error/.test(text)) ||
        (column.key === "state" && one.error !== undefined);
    return el("td", {
      className: [
        column.isNumber ? "n" : "", column.key === "run" || column.key === "command" ? "name" : "",
        column.key === "state" && !isBad ? `state-${value}` : "", isBad ? "alarm" : "",
        column.key === "steps" ? "steps" : ""
      ].filter(Boolean)
                     .join(" "),
      textContent: text,
      ...(column.isNumber && column.text === numberText && text ? {"data-title": visible(column.title, 40)} :
                                                                  {}),
      ...(column.key === "verdict" ?
              {title: value || "Not looked for yet; open the run, or ask 'tensortap ls --verdict'"} :
              {})
    });
  };

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
    return el("tr", {}, el("td", {}, box), ...columns().map((column) => cell(column, one)));
  };

  /** @param {Column} column */
  const title = (column) =>
      el("th", {
        className: column.isNumber ? "n" : "",
        ariaSort: sort !== column.key ? "none" :
            direction > 0             ? "ascending" :
                                        "descending"
      },
         el("button", {
           type: "button",
           textContent: `${visible(column.title, 40)}${
               sort !== column.key ? "" :
                   direction > 0   ? " ▲" :
                                     " ▼"}`,
           title: "Sort by this; again for the other direction",
           onclick: () => {
             direction = sort === column.key ? -direction : 1;
             sort = column.key;
             update();
           }
         }));

  const update = () => {
    const words = filter.value.split(/\s+/).filter(Boolean), all = facts.list || [];
    const conditions = words.flatMap((/** @type {string} */ word) => {
      const found = word.match(CONDITION);
      return found ? [found] : [];
    });
    const plain = words.filter((/** @type {string} */ word) => !CONDITION.test(word))
                      .map((/** @type {string} */ word) => word.toLowerCase());
    const wanted = all.filter((one) => {
      const text = `${one.run} ${one.command || ""} ${one.state || "unreadable"}`.toLowerCase();
      return plain.every((/** @type {string} */ word) => text.includes(word)) &&
          conditions.every((/** @type {RegExpMatchArray} */ condition) => holds(one, condition));
    });
    if (sort) wanted.sort((a, b) => compareValues(valueOf(a, sort), valueOf(b, sort), direction));
    head.replaceChildren(el("th", {}), ...columns().map(title));
    rows.replaceChildren(...wanted.map(row));
    compare.disabled = chosen.size < 2 || chosen.size > MOST_RUNS;
    compare.textContent = chosen.size === 2 ? "Compare two runs" :
        chosen.size > 2                     ? `Compare ${chosen.size} runs` :
                                              "Compare";
    const unknown = conditions.map((/** @type {RegExpMatchArray} */ one) => one[1].trim())
                        .filter(
                            (/** @type {string} */ key) =>
                                all.length && all.every((one) => valueOf(one, key) === undefined));
    note.textContent = `${count(wanted.length)} of ${count(all.length)} runs${
        unknown.length ? `; no run has ${visible(unknown.join(", "), 80)}` :
            chosen.size === 1       ? "; choose one more to compare" :
            chosen.size > MOST_RUNS ? `; at most ${MOST_RUNS} can be compared` :
                                      ""}`;
  };
  const updateNames = () => {
    const keys = new Set((facts.list || []).flatMap((one) => Object.keys(one.values || {})));
    names.replaceChildren(...[...keys].sort().slice(0, 1000).map((key) => el("option", {value: key})));
  };
  filter.addEventListener("input", update);
  extra.addEventListener("input", update);
  compare.addEventListener("click", () => {
    location.href = address([...chosen]);
  });
  section.append(
      el("div", {className: "controls"}, filter, extra, names, compare, note),
      el("div", {className: "scrollx"}, el("table", {className: "plain runs"}, el("thead", {}, head), rows)));
  update();
  updateNames();
  const again = async () => {
    if (!document.hidden) {
      try {
        const list = (await (await ask("runs", {})).json()).list;
        const isSame = JSON.stringify(list) === JSON.stringify(facts.list);
        facts.list = list;
        if (!isSame) {
          update();
          updateNames();
        }
        byId("status").textContent = "";
      } catch (error) {
        byId("status").textContent = `No answer from the server: ${/** @type {Error} */ (error).message}`;
      }
    }
    setTimeout(again, EVERY);
  };
  setTimeout(again, EVERY);
}
