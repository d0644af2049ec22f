"""The page in a real browser, from disk: headless Chromium, driven by Playwright."""

import csv
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from rapt import paths
from rapt.params import load
from rapt.reporting import writer
from rapt.reporting.figures import figures
from rapt.reporting.page import terms
from rapt.results import reader
from tests.browser import DESKTOP, PHONE, serious, watched
from tests.browser import browser as browser
from tests.conftest import ROOT
from tests.reporting import synthetic

pytestmark = pytest.mark.slow

SCREENSHOTS = ROOT / "reports/screenshots"
MOST_BYTES = 5_000_000
LIVE = {"trade-off", "accuracy", "privacy"}
Opener = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report over a sweep of which half has run."""
    return _report(tmp_path_factory.mktemp("half"), None, synthetic.drop_a_third)


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report over a sweep that knows whether a release is better than sending nothing."""
    folder = tmp_path_factory.mktemp("advised")
    rights = synthetic.NONE_PAYS
    return _report(folder, None, lambda params: synthetic.write_predictions(params, rights))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report over a sweep of more than 300 cells."""
    return _report(tmp_path_factory.mktemp("large"), synthetic.sweep_widely)


def _report(folder: Path, edit: Any, change: Callable[[Any], None] = lambda params: None) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        params = synthetic.write(folder, edit)
        change(params)
        writer.write(reader.load(params))
    return folder


@pytest.fixture
def opened(browser: Browser, reported: Path) -> Opener:
    """Open a report, with every section unfolded and every chart drawn."""

    @contextmanager
    def open_page(
        folder: Path = reported,
        size: tuple[int, int] = DESKTOP,
        unfolded: bool = True,
        **options: Any,
    ) -> Iterator[Page]:
        with watched(browser, (folder / paths.REPORT).as_uri(), size, **options) as page:
            if unfolded and options.get("java_script_enabled", True):
                _drawn(page)
            yield page

    return open_page


def _drawn(page: Page) -> None:
    """Unfold the sections, and wait until every chart is there."""
    page.evaluate(
        "document.querySelectorAll('section > details').forEach(each => each.open = true)"
    )
    page.wait_for_function(
        "document.querySelectorAll('.canvas svg').length"
        " === document.querySelectorAll('.chart').length"
    )


def _unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


def test_a_page_that_asked_for_something_would_be_found(opened: Opener) -> None:
    with pytest.raises(AssertionError, match="Content Security Policy"), opened() as page:
        page.evaluate("fetch('http://127.0.0.1:9/').catch(() => null)")


def test_every_link_leads_to_a_place_in_the_page(opened: Opener, half: Path) -> None:
    for folder in (None, half):
        with opened(**({"folder": folder} if folder else {})) as page:
            links = page.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
            assert len(links) > 10
            for link in links:
                assert link.startswith("#")
                assert page.locator(f"[id='{link[1:]}']").count() == 1


def test_a_link_unfolds_its_section_and_marks_it(opened: Opener) -> None:
    with opened(unfolded=False) as page:
        for name in ("Calibration", "Params and data"):
            section = page.locator(f"section#{name.split()[0].lower()}")
            assert section.locator("table").first.is_hidden()
            page.locator("nav a", has_text=name).click()
            page.locator("nav [aria-current]", has_text=name).wait_for()
            assert section.locator("details").first.get_attribute("open") is not None
            assert page.locator("nav [aria-current]").count() == 1


def test_a_link_into_a_folded_section_unfolds_all_around_it(opened: Opener) -> None:
    with opened(unfolded=False) as page:
        claim = page.locator("#claims [id^=claim-]").last
        assert claim.is_hidden()
        page.evaluate("id => { location.hash = id }", claim.get_attribute("id"))
        claim.wait_for(state="visible")


def test_a_chart_of_a_folded_section_is_drawn_once_it_is_seen(opened: Opener) -> None:
    with opened(unfolded=False) as page:
        canvas = page.locator("#privacy .canvas svg")
        assert canvas.count() == 0
        page.locator("#privacy > details > summary").click()
        canvas.wait_for(state="visible")
        box = canvas.bounding_box()
        assert box and box["width"] > DESKTOP[0] / 2


def test_tables_are_sorted_from_the_keyboard(opened: Opener) -> None:
    def column(place: int) -> list[str]:
        found = table.locator("tbody tr").evaluate_all(
            "(rows, place) => rows.map(row => row.cells[place].innerText.trim())", place
        )
        return list(found)

    with opened() as page:
        table = page.get_by_role("region", name="Paired differences of accuracy").locator("table")
        mean = table.locator("th", has_text="Mean")
        numbers = [float(text.replace("−", "-")) for text in column(2)]
        assert numbers != sorted(numbers)
        mean.locator("button").focus()
        for direction in ("ascending", "descending"):
            page.keyboard.press("Enter")
            assert mean.get_attribute("aria-sort") == direction
            shown = [float(text.replace("−", "-")) for text in column(2)]
            assert shown == sorted(numbers, reverse=direction == "descending")
        table.locator("th", has_text="η").locator("button").press("Space")
        etas = [float(text) for text in column(1)]
        assert etas == sorted(etas)
        assert table.locator("[aria-sort]").count() == 1


def test_tables_of_the_site_are_sorted_too(browser: Browser) -> None:
    rows = "".join(f"<tr><td>{x} (0 to 99)</td></tr>" for x in (9.5, 63.8, 7.1))
    page = browser.new_page()
    page.set_content(
        '<div class="md-typeset"><table><thead><tr><th>Accuracy</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    page.add_script_tag(path=ROOT / "rapt/reporting/sortable.js")
    page.get_by_role("button", name="Accuracy").click()
    shown = [text.split()[0] for text in page.locator("tbody tr").all_inner_texts()]
    assert shown == ["7.1", "9.5", "63.8"]
    page.close()


def test_what_is_missing_is_sorted_last(opened: Opener, half: Path) -> None:
    shown = "(rows, n) => rows.map(row => row.cells[n].innerText.startsWith('missing'))"
    with opened(half) as page:
        # A column in which some cells have run and others have not.
        table, column = next(
            (table, n)
            for table in page.locator("#utility table, #privacy table").all()
            for n in range(1, table.locator("th button").count())
            if len(set(table.locator("tbody tr").evaluate_all(shown, n))) == 2
        )
        for _ in range(2):
            table.locator("th button").nth(column).click()
            missing = table.locator("tbody tr").evaluate_all(shown, column)
            assert missing == sorted(missing)


def test_charts_show_the_panel_that_is_chosen(opened: Opener) -> None:
    with opened() as page:
        for chart in page.locator(".chart").all():
            options = chart.locator("option").evaluate_all("all => all.map(one => one.value)")
            seen = set()
            for option in options:
                chart.locator("select").select_option(option)
                figure = page.locator(f"[id='{option}']")
                assert figure.is_hidden()  # the chart stands for it
                label = chart.locator(".canvas").get_attribute("aria-label")
                assert label == figure.locator("svg > title").text_content()
                caption = figure.locator("figcaption").text_content()
                assert chart.locator(".caption").text_content() == caption
                page.wait_for_timeout(200)
                seen.add(chart.locator(".canvas svg .mark-symbol").first.inner_html())
            assert len(seen) == len(options)


def test_the_theme_is_the_system_s_until_it_is_chosen(opened: Opener) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.canvas svg .role-axis-label text')).fill"
    with opened() as page, opened(color_scheme="dark") as dark:
        light_look, dark_look = ([one.evaluate(e) for e in (paper, ink)] for one in (page, dark))
        assert light_look[0] != dark_look[0]
        assert light_look[1] != dark_look[1]
        button = page.get_by_role("button", name="Dark")
        assert button.get_attribute("aria-pressed") == "false"
        button.click()
        page.wait_for_function(f"{ink} === '{dark_look[1]}'")
        assert page.evaluate(paper) == dark_look[0]
        assert button.get_attribute("aria-pressed") == "true"
        page.reload()
        _drawn(page)
        assert [page.evaluate(e) for e in (paper, ink)] == dark_look


def test_figures_stand_in_without_the_script_and_on_paper(opened: Opener) -> None:
    with opened(java_script_enabled=False) as page:
        page.locator("#trade-off > details > summary").click()
        assert page.locator("#trade-off figure").first.is_visible()
        assert page.locator(".chart").first.is_hidden()
        assert page.locator("#theme").is_hidden()
    paper = (794, 1123)  # A4 at 96 dots an inch
    with opened(size=paper, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth") == paper[0]
        assert page.locator("#trade-off figure").first.is_visible()
        assert page.locator(".chart").first.is_hidden()
        assert page.locator("nav").is_hidden()
        folded = page.locator("details:not([open]) table").first
        assert folded.evaluate("table => table.checkVisibility({contentVisibilityAuto: true})")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )


# Each size, each theme and each page once.
@pytest.mark.parametrize(
    ("size", "scheme", "which"), [(PHONE, "light", "whole"), (DESKTOP, "dark", "half")]
)
def test_axe_finds_nothing_serious(
    opened: Opener, half: Path, size: tuple[int, int], scheme: str, which: str
) -> None:
    options = {"folder": half} if which == "half" else {}
    with opened(size=size, color_scheme=scheme, **options) as page:
        _unfold(page)
        assert serious(page) == []


def test_axe_would_find_a_field_without_a_name(opened: Opener) -> None:
    with opened() as page:
        page.evaluate("document.querySelector('main').append(document.createElement('input'))")
        assert [name for name, *_ in serious(page)] == ["label"]


def test_a_phone_scrolls_tables_and_not_the_page(opened: Opener, large: Path) -> None:
    with opened(large, size=(360, 740)) as page:
        _unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        wide = page.locator(".scroll").evaluate_all(
            "all => all.filter(one => one.scrollWidth > one.clientWidth)"
            ".map(one => [one.tabIndex, one.getAttribute('role'), one.getAttribute('aria-label')])"
        )
        assert wide
        assert all(place == 0 and role == "region" and label for place, role, label in wide)


def test_300_cells_stay_below_5_mb(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(large)
    results = reader.load(load())
    assert len(results.cells) >= 300
    assert not results.missing()
    assert {figure.section for figure in figures(results) if figure.menu[1]} == LIVE
    assert (large / paths.REPORT).stat().st_size < MOST_BYTES


@pytest.mark.parametrize("way", ["hover", "tap", "focus"])
def test_a_term_explains_itself(opened: Opener, way: str) -> None:
    with opened(size=PHONE, has_touch=True) as page:
        tip = page.locator("#term")
        for name in ("T2T", "cell", "gate"):
            assert tip.is_hidden()
            term = page.locator(f"abbr[data-name='{name.lower()}'][tabindex]").first
            getattr(term, way)()
            assert tip.text_content() == terms()[name]
            assert tip.is_visible()
            box = tip.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]
            page.keyboard.press("Escape")
        of_sections = page.locator("main section").evaluate_all(
            "all => all.map(one => [...one.querySelectorAll('abbr')].map(a => a.dataset.name))"
        )
        assert all(len(names) == len(set(names)) for names in of_sections)


def test_the_first_table_fits_a_phone(opened: Opener, advised: Path) -> None:
    with opened(advised, size=PHONE) as page:
        for table in page.locator(".decision .scroll").all():
            assert table.evaluate("box => box.scrollWidth - box.clientWidth") == 0
        assert page.locator(".decision .scroll").count() > 0


def test_each_table_is_saved_as_it_stands(opened: Opener, advised: Path) -> None:
    with opened(advised) as page:
        _unfold(page)
        assert page.locator("table").count() == page.locator("table button.csv").count() > 20
        table = page.locator("#worth table.sortable").first
        with page.expect_download() as saved:
            table.locator("button.csv").click()
        assert saved.value.suggested_filename == "worth.csv"
        rows = list(csv.reader(saved.value.path().read_text().splitlines()))
        assert rows[0][:3] == ["Release", "η", "Accuracy, %"]
        assert len(rows) == table.locator("tr").count()
        assert {len(row) for row in rows} == {len(rows[0])}
        assert rows[1][0] == table.locator("tbody th").first.inner_text()


def test_the_first_screen_decides(opened: Opener, advised: Path) -> None:
    """One picture, one table of levels and one advice; ten sentences; all else is folded."""
    with opened(advised, unfolded=False) as page:
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / "first-screen.png")
        advice = page.locator("header dd").first
        for part in (advice, page.locator("#worth table").first, page.locator("#worth svg").first):
            box = part.bounding_box()
            assert box and box["y"] + box["height"] < DESKTOP[1]
        assert advice.inner_text().startswith("Send none of these releases.")
        levels = page.locator("#worth table").first.locator("tbody tr").all_inner_texts()
        assert [row.split("\t")[0] for row in levels] == ["η\xa0=\xa050", "η\xa0=\xa075"]
        assert page.locator("#examples q").count() == 10
        unfolded = page.locator("main > section:has(> details[open])")
        assert unfolded.evaluate_all("all => all.map(one => one.id)") == ["worth", "examples"]
        assert page.locator("header dt", has_text="State").is_hidden()


def test_screenshots_are_kept_and_nothing_is_complained_of_and_nothing_loaded(
    opened: Opener, reported: Path, half: Path, large: Path
) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    for name, folder in {"whole": reported, "half": half, "large": large}.items():
        for width, size, scheme in (("phone", PHONE, "light"), ("desktop", DESKTOP, "dark")):
            with opened(folder, size=size, color_scheme=scheme) as page:
                path = SCREENSHOTS / f"{name}-{width}-{scheme}.png"
                page.screenshot(path=path, full_page=True)
                assert path.read_bytes().startswith(b"\x89PNG")
                _unfold(page)
                page.mouse.wheel(0, 50_000)
