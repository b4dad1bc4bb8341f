/* pictures.js -- pictures of the run's folder `charts`, as images: nothing in them can run.
 * SPDX-License-Identifier: Apache-2.0 */
import {getText, runs} from "./data.js";
import {el, fresh, visible} from "./dom.js";

export async function showPictures() {
  const all = [];
  for (const run of runs)
    for (const one of (await getText(`${run.number}/charts`)) || []) all.push({run, one});
  if (!all.length) return;
  const section = fresh("pictures");
  for (const {run, one} of all) {
    const name = runs.length > 1 ? `${run.facts.path}: ${one.name}` : one.name;
    section.append(
        el("figure", {}, el("figcaption", {className: "name", textContent: visible(name, 200)}),
           one.source ? el("img", {src: one.source, alt: visible(name, 200)}) : el("p", {
             className: "faint",
             textContent: "This picture is larger than the page holds; open the file itself."
           })));
  }
}
