/* first.js -- what is shown before the rest of the page is parsed: the verdict.
 * SPDX-License-Identifier: Apache-2.0 */
import {facts} from "./data.js";
import {setTheme} from "./dom.js";
import {showVerdict} from "./verdict.js";

setTheme("system");
if (!facts.list) showVerdict();
