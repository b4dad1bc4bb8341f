"""When something is first seen in Chromium, as the browser's own clock says.

A script that is put into every page waits for elements.  The time that counts is the end of the
first frame after an element has appeared, from the beginning of the navigation: how it is asked for
from outside makes no difference, and any page can be measured the same way.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import sync_playwright

FIRST = "first content"  # of any kind: what browsers call first contentful paint
WATCH = """(() => {
    const wanted = %s, seen = (window.seenInBench = {});
    const look = () => {
        for (const [name, selector] of Object.entries(wanted)) {
            if (name in seen || !document.querySelector(selector)) continue;
            seen[name] = 0;
            requestAnimationFrame(() => {
                const painted = new MessageChannel();
                painted.port1.onmessage = () => { seen[name] = performance.now(); };
                painted.port2.postMessage(0);
            });
        }
    };
    new MutationObserver(look).observe(document, { childList: true, subtree: true });
})()"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser that has seen nothing yet."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def seen(address: str, wanted: dict[str, str], most: float = 900) -> dict[str, float]:
    """Open a page in a new browser; return when each was seen, and FIRST, in ms.

    Args:
        address: Of the page.
        wanted: A selector for each name.
        most: How long to wait for all, in s.
    """
    with chromium() as browser:
        tab = browser.new_page()
        tab.add_init_script(WATCH % json.dumps(wanted))
        tab.goto(address, wait_until="commit")
        end = time.monotonic() + most
        found: dict[str, float] = {}
        while any(not found.get(name) for name in wanted):
            assert time.monotonic() < end, f"{address}: only {found} was seen"
            time.sleep(0.2)
            found = tab.evaluate("window.seenInBench")
        return {FIRST: float(tab.evaluate(PAINT)), **found}
