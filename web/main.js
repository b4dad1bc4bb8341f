/* main.js -- starts the page: the verdict at once, the rest when the data are there.
 * SPDX-License-Identifier: Apache-2.0 */
import {showAbout} from "./about.js";
import {redrawCharts, removeCharts} from "./chart.js";
import {showCompare} from "./compare.js";
import {showCurves} from "./curves.js";
import {announce, change, count, facts, forgetListeners, onChange, runs, view} from "./data.js";
import {byId, el} from "./dom.js";
import {showList} from "./list.js";
import {follow, getFacts, lastStep} from "./live.js";
import {showMap} from "./map.js";
import {showPictures} from "./pictures.js";
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

/** The bins that the slider moves over: those with the most. */
function longestBins() {
  const bins = runs.flatMap((run) => [run.numbers, run.tensors]).filter((one) => one.series.length);
  return bins.sort((a, b) => b.steps.length - a.steps.length)[0];
}

function showScrubber() {
  const slider = byId("step");
  const update = () => {
    const longest = longestBins();
    byId("scrubber").hidden = !longest || !longest.steps.length;
    if (byId("scrubber").hidden) return;
    const bin = longest.binOf(view.step);
    slider.max = String(longest.steps.length - 1);
    slider.value = String(bin);
    slider.setAttribute("aria-valuetext", longest.stepText(bin));
    byId("step-value").textContent = count(longest.steps[bin]);
    byId("unzoom").hidden = !view.range;
  };
  slider.addEventListener("input", () => change({step: longestBins().steps[Number(slider.value)]}));
  byId("unzoom").addEventListener("click", () => change({range: null}));
  onChange((changed) => {
    if (["step", "range", "data"].some((key) => changed.has(key))) update();
  }, true);
  const first = runs[0].facts.state === "live" ? -1 : firstStep();
  change({step: first >= 0 ? first : lastStep()});
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

/** Shows every section, from the top to the bottom. */
async function showAll() {
  forgetListeners();
  removeCharts();
  showAbout();
  showCurves();
  await showMap();
  await showTree();
  await showRanks();
  await showPictures();
  await showCompare();
  showVerdict();
  await addEvidence();
  showNav();
  if (view.site >= 0) announce(new Set(["site"]));
}

async function start() {
  if (facts.list) return showList();
  if (facts.pending) {
    await getFacts();
    showVerdict();
  }
  for (const run of runs) await run.load();
  showScrubber();
  await showAll();
  onChange(async (changed) => {
    if (!changed.has("facts")) return;
    showVerdict();
    await addEvidence();
    showAbout();
  }, true);
  if (facts.live) follow(showAll);
}

byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  applyTheme();
});
prefersDark.addEventListener("change", applyTheme);
applyTheme();
if (!facts.list) showVerdict();
document.addEventListener(
    "DOMContentLoaded",
    () => start().then(
        () => {
          document.documentElement.dataset.ready = "true";
        },
        (error) => {
          byId("summary").textContent = `The page could not be drawn: ${error}`;
          throw error;
        }));
