/* main.js -- starts the page: the verdict at once, the rest when the data are there.
 * SPDX-License-Identifier: Apache-2.0 */
import {showAbout} from "./about.js";
import {redrawCharts} from "./chart.js";
import {showCompare} from "./compare.js";
import {showCurves} from "./curves.js";
import {change, count, facts, onChange, runs, view} from "./data.js";
import {byId, el} from "./dom.js";
import {showMap} from "./map.js";
import {showRanks} from "./ranks.js";
import {showTree} from "./tree.js";
import {addEvidence, showVerdict} from "./verdict.js";

const THEMES = ["system", "light", "dark"];
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let theme = "system";

function applyTheme() {
  const isDark = theme === "dark" || (theme === "system" && prefersDark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  byId("theme").textContent = `Theme: ${theme}`;
  redrawCharts();
  window.dispatchEvent(new Event("resize"));
  change({step: view.step});
}

function showScrubber() {
  const bins = runs.flatMap((run) => [run.numbers, run.tensors]).filter((one) => one && one.series.length);
  const longest = bins.sort((a, b) => (b ? b.steps.length : 0) - (a ? a.steps.length : 0))[0];
  if (!longest || longest.steps.length < 1) return;
  const slider = byId("step"), steps = longest.steps;
  byId("scrubber").hidden = false;
  slider.max = String(steps.length - 1);
  const update = () => {
    const bin = longest.binOf(view.step);
    slider.value = String(bin);
    slider.setAttribute("aria-valuetext", longest.stepText(bin));
    byId("step-value").textContent = count(steps[bin]);
    byId("unzoom").hidden = !view.range;
  };
  slider.addEventListener("input", () => change({step: steps[Number(slider.value)]}));
  byId("unzoom").addEventListener("click", () => change({range: null}));
  onChange((changed) => {
    if (changed.has("step") || changed.has("range")) update();
  });
  const first = firstStep();
  change({step: first >= 0 ? first : steps[steps.length - 1]});
  update();
}

/** The step of the gravest finding that has one; -1: none. */
function firstStep() {
  const found = facts.findings.filter((finding) => finding.step >= 0).sort((a, b) => b.weight - a.weight)[0];
  return found ? found.step : -1;
}

function showNav() {
  const sections = [...document.querySelectorAll("main > section")].filter(
      (section) => !(/** @type {HTMLElement} */ (section)).hidden && section.id !== "site");
  byId("nav").replaceChildren(...sections.map(
      (section) =>
          el("a",
             {href: `#${section.id}`, textContent: section.querySelector("h2")?.textContent || section.id})));
}

async function start() {
  for (const run of runs) await run.load();
  showAbout();
  showScrubber();
  showCurves();
  await showMap();
  await showTree();
  await showRanks();
  await showCompare();
  await addEvidence();
  showNav();
  document.documentElement.dataset.ready = "true";
}

byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  applyTheme();
});
prefersDark.addEventListener("change", applyTheme);
applyTheme();
showVerdict();
document.addEventListener("DOMContentLoaded", () => start().catch((error) => {
  byId("summary").textContent = `The page could not be drawn: ${error}`;
  throw error;
}));
