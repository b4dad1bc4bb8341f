"""Open the page of a run in Chromium and read what it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import tensortap

CHROMIUM = shutil.which("chromium")


def write_page(*runs: Path, out: Path, **env: str) -> Path:
    """Write the page of one run or two with the program."""
    done = tensortap("report", *runs, "-o", out, folder=out.parent, **env)
    assert done.returncode == 0, done.stderr
    return out


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Opened:
    """A page in the browser; what it complains about and asks for is noted."""

    def __init__(self, browser: Any, path: Path | str, **context: Any) -> None:
        self.home = path if isinstance(path, str) else path.as_uri()
        self.context = browser.new_context(**context)
        self.tab = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(self.home)
        self.tab.wait_for_selector("html[data-ready=true]", timeout=60000, state="attached")

    def check(self) -> None:
        """The page complained about nothing and asked nobody but the server that sent it."""
        own = (
            "data:",
            "blob:",
            "file:" if self.home.startswith("file:") else self.home.split("?")[0],
        )
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(own)] == []

    def wait(self, expression: str) -> None:
        """Wait until it is true; the page's policy forbids what wait_for_function does."""
        for _ in range(300):
            if self.tab.evaluate(expression):
                return
            self.tab.wait_for_timeout(100)
        pytest.fail(f"never true: {expression}")

    def text(self, selector: str) -> str:
        return str(self.tab.inner_text(selector))

    def close(self) -> None:
        self.check()
        self.context.close()
