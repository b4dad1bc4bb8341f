/* main.js -- starts the page: the verdict at once, the rest when the data are there.
 * SPDX-License-Identifier: Apache-2.0 */
import {showAbout} from "./about.js";
import {redrawCharts, removeCharts} from "./chart.js";
import {showCompare} from "./compare.js";
import {showCurves} from "./curves.js";
import {announce, change, facts, forgetListeners, isOverlay, loadColumns, onChange, runs, takeNews, view, weightOf} from "./data.js";
import {byId, el, nextTheme, prefersDark, setTheme, theme} from "./dom.js";
import {showGrowth} from "./growth.js";
import {showList} from "./list.js";
import {follow, getFacts, lastStep} from "./live.js";
import {showMap} from "./map.js";
import {showOverlay} from "./overlay.js";
import {showPictures} from "./pictures.js";
import {showPinned} from "./pinned.js";
import {readPins} from "./pins.js";
import {showRanks} from "./ranks.js";
import {showTree} from "./tree.js";
import {addEvidence, showVerdict} from "./verdict.js";

/** Draws everything in the colours of the theme.
 * @param {string} name */
function applyTheme(name) {
  setTheme(name);
  redrawCharts();
  window.dispatchEvent(new Event("resize"));
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
    byId("step-value").textContent = longest.stepText(bin).replace(/^steps? /, "");
    byId("unzoom").hidden = !view.range;
  };
  /* Bins of tensors are wider, and the one that holds the last step has seen all that this one has. */
  slider.addEventListener("input", () => change({step: longestBins().lastOf(Number(slider.value))}));
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
  const found = facts.answers.filter((one) => one.first_step >= 0 && one.sites.length)
                    .sort((a, b) => weightOf(b) - weightOf(a))[0];
  return found ? found.first_step : -1;
}

function showNav() {
  const sections = [...document.querySelectorAll("main > section")].filter(
      (section) => !(/** @type {HTMLElement} */ (section)).hidden && section.id !== "site");
  byId("nav").replaceChildren(
      ...sections.map((section) => el("a", {
                        href: `#${section.id}`,
                        onclick: (/** @type {Event} */ event) => { /* the fragment has the pins */
                                                                   event.preventDefault();
                                                                   section.scrollIntoView();
                        },
                        textContent: section.querySelector("h2")?.textContent || section.id
                      })));
}

/** Shows what needs more than the logged numbers. */
async function showRest() {
  showAbout();
  await showPinned();
  if (isOverlay) {
    showOverlay();
    showVerdict();
    showNav();
    return;
  }
  await showMap();
  await showGrowth();
  await showTree();
  await showRanks();
  await showPictures();
  await showCompare();
  showVerdict();
  await addEvidence();
  showNav();
  if (view.site >= 0) announce(new Set(["site"]));
}

/** Shows every section anew. */
async function restart() {
  forgetListeners();
  removeCharts();
  showCurves();
  await showRest();
}

/** Starts a page of many runs: curves first, what is wrong when it has been looked for. */
async function startOverlay() {
  await Promise.all(runs.map((run) => run.loadNames()));
  await loadColumns("numbers", ["value", "low", "high"]);
  takeNews();
  readPins();
  showCurves();
  change({step: lastStep()});
  await showRest();
  document.documentElement.dataset.drawn = "true";
  if (facts.pending) {
    await getFacts();
    announce(new Set(["facts"]));
  }
  onChange((changed) => {
    if (changed.has("facts")) showVerdict();
  }, true);
  showVerdict();
  if (facts.live) follow(restart);
}

async function start() {
  if (facts.list) return showList();
  if (isOverlay) return startOverlay();
  if (facts.pending) {
    await getFacts();
    showVerdict();
  }
  for (const run of runs) await run.load();
  showCurves();
  for (const run of runs) await run.tensors.load(["rms"]);
  readPins();
  takeNews(); /* everything is shown for the first time */
  showScrubber();
  await showRest();
  onChange(async (changed) => {
    if (!changed.has("facts")) return;
    showVerdict();
    await addEvidence();
    showAbout();
  }, true);
  if (facts.live) follow(restart);
}

byId("theme").addEventListener("click", () => applyTheme(nextTheme()));
prefersDark.addEventListener("change", () => applyTheme(theme));
start().then(
    () => {
      document.documentElement.dataset.ready = "true";
    },
    (error) => {
      byId("summary").textContent = `The page could not be drawn: ${error}`;
      throw error;
    });
