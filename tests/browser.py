"""A headless Chromium for the tests that need one, and what they ask of every page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine; name one in CHROMIUM"),
]
"""For a module's `pytestmark`."""
_RULES = {"target-size": {"enabled": True}}  # of WCAG 2.2; axe leaves it out where nobody asks for it


@contextmanager
def launched() -> Iterator[Any]:
    """Start a browser, for a module's fixture: a start takes longer than most tests."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any, path: Path, *, width: int = 1440, script: bool = True, first: str = "", **options: Any
) -> Iterator[Any]:
    """Open a file; whatever the browser complains of by the end, or has asked for but the file, fails the test.

    ``first`` is run in the page before its own scripts.
    """
    complaints = []
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=script, offline=True, **options
    )
    try:
        page = context.new_page()
        page.add_init_script(first)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: complaints.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        if script and page.locator(".explore").count():
            page.wait_for_selector(".list-foot, #explore-failed:not([hidden])", state="attached")
        yield page
    finally:
        context.close()
    assert complaints == []


def violations(page: Any) -> list[tuple[str, list[str]]]:
    """Ask axe-core what is wrong with a page as it stands: the rules broken, each with where."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe_playwright_python is not installed")
    # Where a rule holds is a multiple of where it is broken, and takes as long to tell.
    found = axe.Axe().run(page, options={"rules": _RULES, "resultTypes": ["violations"]}).response
    ran = {rule["id"] for kind in ("passes", "violations", "incomplete", "inapplicable") for rule in found[kind]}
    assert {"color-contrast", "landmark-unique", "region", "target-size"} <= ran
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]


def sideways(page: Any) -> int:
    """Tell by how many CSS pixels the page as a whole scrolls to the side."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def open_all(page: Any) -> None:
    """Open whatever unfolds."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
