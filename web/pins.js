/* pins.js -- charts that stay at the top of the page.
 *
 * Their keys are in the fragment of the address, so that a reload, another tab and who gets the address have them.
 * SPDX-License-Identifier: Apache-2.0 */
import {change, view} from "./data.js";

/** @returns {string[]} */
function pinsOfAddress() { return new URLSearchParams(location.hash.slice(1)).getAll("pin").slice(0, 24); }

export function readPins() {
  const pins = pinsOfAddress();
  if (pins.length || view.pins.length) change({pins});
}

/** @param {string} key */
export function isPinned(key) { return view.pins.includes(key); }

/** @param {string} key */
export function togglePin(key) {
  const pins = isPinned(key) ? view.pins.filter((one) => one !== key) : [...view.pins, key];
  history.replaceState(
      null, "",
      pins.length ? `#${new URLSearchParams(pins.map((one) => ["pin", one]))}` :
                    location.pathname + location.search);
  change({pins});
}

window.addEventListener("hashchange", () => {
  if (pinsOfAddress().length) readPins();
});
