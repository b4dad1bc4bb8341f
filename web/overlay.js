/* overlay.js -- many runs on one page: which they are, in what they differ, and which are drawn.
 * SPDX-License-Identifier: Apache-2.0 */
import {Chart} from "./chart.js";
import {change, count, facts, isOverlay, loadColumns, onChange, runs, view, weightOf} from "./data.js";
import {byId, el, fresh, lineColor, visible} from "./dom.js";
import {lookOf, overlaid, settingOf} from "./lines.js";
import {verdictText} from "./list.js";

const DIFFERENCES = 6, LISTED_TENSORS = 2000;
/* What differs without meaning anything. */
const IDLE = /^(code|file|module|tensortap)\//;

/** The settings in which the runs differ, those with the fewest values first.
 * @returns {string[]} */
function differences() {
  const keys = new Set(runs.flatMap((run) => (run.facts.settings || []).map(([key]) => key)));
  const kinds = [...keys]
                    .filter((key) => !IDLE.test(key))
                    .map((key) => ({key, n: new Set(runs.map((run) => settingOf(run, key))).size}));
  return kinds.filter(({n}) => n > 1)
      .sort((a, b) => a.n - b.n || (a.key < b.key ? -1 : 1))
      .map(({key}) => key);
}

/** A piece of the run's line.
 * @param {number} number */
function swatch(number) {
  const {color, dash} = lookOf(number);
  const canvas =
      el("canvas", {className: "line-sample", width: 72, height: 16, role: "img", ariaLabel: "its line"});
  const ctx = canvas.getContext("2d");
  ctx.strokeStyle = lineColor(color);
  ctx.lineWidth = 4;
  ctx.setLineDash((dash || []).map((n) => 2 * n));
  ctx.beginPath();
  ctx.moveTo(0, 8);
  ctx.lineTo(72, 8);
  ctx.stroke();
  return canvas;
}

/** @param {number} number */
function verdictCell(number) {
  const mine = facts.answers.filter((one) => one.run === number && one.kind !== "note");
  const counts = [3, 2].map((weight) => mine.filter((one) => weightOf(one) === weight).length);
  const words = ["error", "warning"].flatMap(
      (word, i) => (counts[i] ? [`${counts[i]} ${word}${counts[i] > 1 ? "s" : ""}`] : []));
  const verdict = facts.answers.find((one) => one.run === number && one.rule === "verdict");
  return el("td", {
    className: counts[0] ? "alarm" : "",
    title: mine.map((one) => visible(one.sentence, 200)).join("\n"),
    textContent: words.join(", ") || (facts.pending ? "…" : verdictText(verdict && verdict.sentence))
  });
}

/** Shows the runs with a tick each. */
function showRuns() {
  const section = fresh("runs"), keys = differences(), shownKeys = keys.slice(0, DIFFERENCES);
  const rows = runs.map((run) => {
    const {number} = run;
    const box = el("input", {
      type: "checkbox",
      checked: !view.hidden.has(number),
      ariaLabel: `Draw ${visible(run.facts.path, 80)}`,
      onchange: () => {
        const hidden = new Set(view.hidden);
        if (box.checked)
          hidden.delete(number);
        else
          hidden.add(number);
        change({hidden});
      }
    });
    const name = facts.live ? el("a", {
      className: "name",
      href: `?${new URLSearchParams({
        of: new URLSearchParams(location.search).getAll(number ? "with" : "of")[number ? number - 1 : 0] || ""
      })}`,
      textContent: visible(run.facts.path, 100)
    }) :
                              el("span", {className: "name", textContent: visible(run.facts.path, 100)});
    return el(
        "tr", {}, el("td", {}, box), el("td", {}, swatch(number)), el("td", {}, name), verdictCell(number),
        el("td", {className: `state-${run.facts.state}`, textContent: run.facts.state}),
        ...shownKeys.map(
            (key) => el("td", {className: "n", textContent: visible(settingOf(run, key) ?? "–", 40)})));
  });
  const all = (/** @type {boolean} */ isOn) => el("button", {
    type: "button",
    textContent: isOn ? "Draw all" : "Draw none",
    onclick: () => {
      change({hidden: new Set(isOn ? [] : runs.map((run) => run.number))});
      showRuns();
    }
  });
  const rest = keys.length - shownKeys.length;
  section.append(
      el("div", {className: "controls"}, all(true), all(false),
         rest > 0 ? el("span", {
           className: "faint",
           title: keys.slice(DIFFERENCES).join("\n"),
           textContent: `${rest} more settings differ; About has them`
         }) :
                    null),
      el("div", {className: "scrollx"},
         el("table", {className: "plain overlay"},
            el("thead", {},
               el("tr", {},
                  ...["", "", "run", "verdict", "state"].map((text) => el("th", {textContent: text})),
                  ...shownKeys.map((key) => el("th", {className: "n", textContent: visible(key, 40)})))),
            el("tbody", {}, ...rows))));
}

/** The chart of a tensor's size in all runs; null: no run has it.
 * @param {string} name */
export function sizeOf(name) {
  const sources = runs.flatMap((run) => {
    const site = run.byName.get(name);
    return run.tensors.series.filter((series) => series.site === site)
        .map((series) => ({
               run,
               bins: run.tensors,
               series,
               names: /** @type {[string, string, string]} */ (["rms", "rms_low", "rms"])
             }));
  });
  return sources.length ? {title: `${name}: root mean square`, key: `rms:${name}`, ...overlaid(sources)} :
                          null;
}

/** Shows one tensor in all runs, when it is asked for: there are many. */
function showTensor() {
  const names = [...new Set(
      runs.flatMap((run) => run.sites.filter((site) => site.count !== undefined).map((site) => site.name)))];
  if (!names.length) return;
  const section = fresh("site");
  section.querySelector("h2").textContent = "One tensor in all runs";
  const list =
      el("datalist", {id: "tensor-names"},
         ...names.slice(0, LISTED_TENSORS).map((name) => el("option", {value: name})));
  const input = el("input", {
    type: "search",
    placeholder: "Name of a tensor",
    ariaLabel: "Name of a tensor",
    value: view.overlaid,
    onchange: () => change({overlaid: input.value})
  });
  input.setAttribute("list", "tensor-names");
  const host = el("div", {className: "charts wide"}), note = el("span", {className: "faint"});
  section.append(el("div", {className: "controls"}, input, list, note), host);
  /** @type {Chart|null} */
  let chart = null;
  const update = async () => {
    if (view.overlaid) await loadColumns("tensors", ["rms", "rms_low"]);
    const options = view.overlaid ? sizeOf(view.overlaid) : null;
    note.textContent =
        options || !view.overlaid ? `${count(names.length)} tensors` : "No run has this tensor.";
    if (chart) chart.remove();
    chart = null;
    host.replaceChildren();
    if (!options) return;
    const place = el("div", {className: "chart"});
    host.append(place);
    chart = new Chart(place, {...options, log: true, height: 240});
  };
  onChange((changed) => {
    if (["overlaid", "axis", "hidden"].some((key) => changed.has(key)))
      update();
    else if (changed.has("data") && chart)
      chart.update(/** @type {any} */ (sizeOf(view.overlaid)));
  });
  update();
}

/** Shows the settings in which the runs differ, all of them. */
function showDifferences() {
  const keys = differences();
  if (!keys.length) return;
  byId("about").append(el(
      "details", {}, el("summary", {textContent: `Settings that differ (${keys.length})`}),
      el("div", {className: "scrollx"},
         el("table", {className: "plain"},
            el("thead", {},
               el("tr", {}, el("th", {}), ...keys.map((key) => el("th", {textContent: visible(key, 60)})))),
            el("tbody", {},
               ...runs.map(
                   (run) => el(
                       "tr", {}, el("th", {textContent: visible(run.facts.path, 60)}),
                       ...keys.map(
                           (key) => el("td", {textContent: visible(settingOf(run, key) ?? "–", 80)})))))))));
}

/** Shows what a page of many runs has besides its curves. */
export function showOverlay() {
  if (!isOverlay) return;
  byId("runs").after(byId("curves"), byId("site"), byId("verdict"));
  showRuns();
  showTensor();
  showDifferences();
  onChange((changed) => {
    if (changed.has("facts")) showRuns();
  });
}
