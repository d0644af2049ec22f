"""Headless Chromium, driven by Playwright, for the tests that open a page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

PHONE, DESKTOP = (390, 844), (1280, 900)
# Of rows that differ in words, ids and links alone, the first of a table stays: axe takes a minute
# and more for thousands of cells of one markup. An empty cell differs from one with words, and so
# does another style.
ONE_ROW_OF_EACH_FORM = r"""
document.querySelectorAll('table').forEach(table => {
  const seen = new Set();
  table.querySelectorAll('tbody tr').forEach(row => {
    const named = row.outerHTML.replace(/ (id|href|data-[a-z]+)="[^"]+"/g, ' $1');
    const form = named.replace(/>[^<]*[^<\s][^<]*/g, '>word').replace(/\s+/g, ' ');
    seen.has(form) ? row.remove() : seen.add(form);
  });
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def watched(
    browser: Browser, address: str, size: tuple[int, int], *others: str, **options: Any
) -> Iterator[Page]:
    """A page; whatever it complains of, or asks for beside itself and `others`, fails the test."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    assert said == [], said
    assert address in asked
    assert set(asked) <= {address, *others}, asked
    context.close()


def serious(page: Page) -> list[tuple[str, str, list[str]]]:
    page.evaluate(ONE_ROW_OF_EACH_FORM)
    return [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
