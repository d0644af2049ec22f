"""The page of `rapt try` in a real browser, served by the command itself."""

import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import DESKTOP, PHONE, serious, watched
from tests.browser import browser as browser
from tests.conftest import ROOT
from tests.release.conftest import folder as folder

pytestmark = pytest.mark.slow

SCREENSHOTS = ROOT / "reports/screenshots"
TEXT = "Bob met Alice at 7, very slow."


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Of a server of the small table."""
    code = "from rapt.cli import main; main()"
    command = [sys.executable, "-c", code, "try", "--table", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr
        found = re.search(r"http://127\.0\.0\.1:\d+", served.stderr.readline())
        assert found
        yield found[0]
        served.terminate()


@pytest.fixture(params=[PHONE, DESKTOP], ids=["phone", "desktop"])
def opened(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    with watched(browser, f"{address}/", request.param, f"{address}/try") as page:
        yield page


def test_a_text_is_tried(opened: Page) -> None:
    opened.get_by_label("Text", exact=True).fill(TEXT)
    level = opened.get_by_role("slider")
    level.focus()
    level.press("ArrowLeft")
    assert opened.locator("output").text_content() == "70 %"
    opened.get_by_label("Mechanism").select_option("pct2t")
    assert opened.locator("#result").is_hidden()
    opened.get_by_role("button", name="Try").click()
    opened.locator("#result").wait_for()
    rows = opened.locator("tbody tr")
    cells = [rows.nth(n).locator("th, td").all_text_contents() for n in range(rows.count())]
    assert [row[0] for row in cells] == ["Bob", "met", "Alice", "at", "7", ",", "very", "slow", "."]
    fates = {row[0]: row[1] for row in cells}
    assert (fates["Bob"], fates["7"], fates["very"]) == ("noise", "placeholder", "as it is")
    assert all(("%" in row[3]) == (row[1] == "noise") for row in cells)
    assert opened.locator("#released").text_content() == " ".join(row[2] for row in cells)
    assert "Of 4 words with noise" in (opened.locator("#score").text_content() or "")
    assert "PRIVACY STATEMENT" in (opened.locator("#statement").text_content() or "")
    assert serious(opened) == []
    size = opened.viewport_size
    assert size and opened.evaluate("document.documentElement.scrollWidth") == size["width"]
    SCREENSHOTS.mkdir(exist_ok=True)
    opened.screenshot(path=SCREENSHOTS / f"try-{size['width']}.png", full_page=True)


def test_long_words_are_not_cut_off(opened: Page) -> None:
    """On a phone as well, where the guesses were out of sight."""
    guesses = [["responsibilities", 0.5], ["accommodations", 0.2], ["transportation", 0.1]]
    word = {"word": "responsibilities", "released": "internationally", "fate": "noise"}
    share = {"value": 0.7, "low": 0.6, "high": 0.8}
    word |= {"guesses": guesses, "sure": 0.5, "read": True}
    said = {"eta": 50, "replaced": share, "released": "", "statement": "", "words": [word]}
    opened.route("**/try", lambda route: route.fulfill(json=said))
    opened.get_by_role("button", name="Try").click()
    opened.locator("#result tbody tr").wait_for()
    box = opened.locator("#result .scroll")
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0


def test_a_refusal_is_shown(opened: Page) -> None:
    opened.get_by_role("slider").fill("95")
    with opened.expect_response("**/try") as answer:
        opened.route("**/try", lambda route: route.fulfill(json={"error": "level: too high."}))
        opened.get_by_role("button", name="Try").click()
    assert answer.value.status == 200
    assert opened.locator("#state").text_content() == "level: too high."
    assert opened.locator("#result").is_hidden()
    assert opened.get_by_role("button", name="Try").is_enabled()


def test_a_page_of_another_origin_gets_nothing(browser: Browser, address: str) -> None:
    page = browser.new_page()
    statuses: list[int] = []
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.on("response", lambda response: statuses.append(response.status))
        sending = "url => fetch(url, {method: 'POST', mode: 'no-cors'}).catch(() => 0)"
        page.evaluate(sending, f"{address}/try")
        server.shutdown()
    assert statuses == [403]
    page.close()


class Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
