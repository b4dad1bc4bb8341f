/* live.js -- follows a run that is being written: what is new, once a second.
 * SPDX-License-Identifier: Apache-2.0 */
import {announce, change, count, facts, getNews, getText, isOverlay, runs, view} from "./data.js";
import {byId, el} from "./dom.js";
import {showSummary} from "./verdict.js";

/* ms */
const TICK = 1000;
const SLOW_TICK = 5000;
const FACTS_EVERY = 10000;

/** The last step that has numbers. */
export function lastStep() {
  const all = runs.flatMap((run) => [run.numbers, run.tensors]).filter((bins) => bins.steps.length);
  return Math.max(...all.map((bins) => bins.steps[bins.steps.length - 1]), 0);
}

function isLive() { return runs.some((run) => run.facts.state === "live"); }

/** @param {string} text @param {boolean} isWrong */
function say(text, isWrong) {
  const status = byId("status");
  status.textContent = text;
  status.className = isWrong ? "alarm" : isLive() ? "state-live" : "faint";
}

function sayState() {
  showSummary();
  const ends = runs.map((run) => Math.max(run.numbers.last, run.tensors.last));
  const states = [...new Set(runs.map((run) => run.facts.state))].map(
      (state) => (isOverlay ? `${runs.filter((run) => run.facts.state === state).length} ${state}` : state));
  if (!isOverlay) states.splice(0, states.length, ...runs.map((run) => run.facts.state));
  say(`${isLive() ? "● " : ""}${states.join(", ")} · step ${count(Math.max(...ends))}`, false);
}

/** Gets the answers about each run, one after the other: the server reads every point for them.  Returns whether they
 * differ. */
async function getAnswers() {
  const before = JSON.stringify(facts.answers);
  for (const run of runs) {
    const now = await getText(`${run.number}/answers`);
    facts.answers = [...facts.answers.filter((one) => one.run !== run.number), ...now];
  }
  facts.pending = false;
  return JSON.stringify(facts.answers) !== before;
}

/** Gets the answers as they are now.  Returns whether they differ. */
export async function getFacts() {
  if (isOverlay) return getAnswers();
  const now = await getText("facts"), before = JSON.stringify(facts.answers);
  now.runs.forEach((/** @type {any} */ run, /** @type {number} */ i) => Object.assign(facts.runs[i], run));
  Object.assign(facts, now, {runs: facts.runs});
  return JSON.stringify(facts.answers) !== before;
}

/** @param {() => Promise<void>} restart shows everything anew, because there are other series */
export function follow(restart) {
  if (new URLSearchParams(location.search).has("of"))
    byId("status").before(el("a", {href: "./", textContent: "All runs"}));
  let asked = performance.now(), took = 0, known = "", ticks = 0;
  let end = isLive() ? view.step : lastStep(); /* the page of a live run opens at its end */
  const summary = () => runs.map((run) => `${run.facts.state}/${run.facts.alarms}`).join();

  const tick = async () => {
    const changed = await getNews();
    const isFollowing = view.step >= end, now = summary(), since = performance.now() - asked;
    sayState();
    if (changed === "series") await restart();
    if (changed) announce(new Set(["data"]));
    end = lastStep();
    if (changed && isFollowing) change({step: end});
    const isUrgent = known !== now, isDue = changed !== "" && since > Math.max(FACTS_EVERY, 20 * took);
    if ((isUrgent && since > 20 * took) || isDue) {
      asked = performance.now();
      if (await getFacts()) announce(new Set(["facts"]));
      took = performance.now() - asked;
      known = now;
    }
  };
  known = summary();
  sayState();
  const again = async () => {
    let wait = isLive() ? TICK : SLOW_TICK;
    if (!document.hidden) {
      try {
        await tick();
        document.documentElement.dataset.ticks = String(++ticks);
      } catch (error) {
        say(`No news: ${/** @type {Error} */ (error).message}`, true);
        wait = SLOW_TICK;
      }
    }
    setTimeout(again, wait);
  };
  setTimeout(again, TICK);
}
