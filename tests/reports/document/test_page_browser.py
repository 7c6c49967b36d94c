"""The page in headless Chromium: what it does at any width, and whether all can use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.compare.figure import Kind
from reports.document.page import render_page
from reports.evidence import Evidence

from ..conftest import make_plan, results_in
from ..evidence import (
    LARGE,
    SMALL,
    duet_file,
    gate_file,
    overlap_file,
    verification_file,
    work_file,
)

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
wait = pytest.importorskip("selenium.webdriver.support.wait", reason="selenium is not installed")
axe = pytest.importorskip("axe_core_python.base", reason="axe-core-python is not installed")

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

# Without the network, and as root in a container.
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1000",
)
# What WCAG 2.1 asks at its levels A and AA.
WCAG = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "preload": False,  # Nothing is to be fetched.
}
CHECK = """
    const done = arguments[1];
    axe.run(document, arguments[0]).then(done, (error) => done(String(error)));
"""
ARMS = ("full-copy", "incremental", "floor")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of one file of each kind, which takes seconds to draw."""
    folder = tmp_path_factory.mktemp("page")
    samples = {
        (cell, arm, process): [(1 + cell) * 1e-3 / (1 + index) * (1 + i / 100) for i in range(3)]
        for cell in range(2)
        for index, arm in enumerate(ARMS)
        for process in range(2)
    }
    evidence = Evidence(
        (results_in(folder, make_plan(SMALL, LARGE, arms=ARMS), samples),),
        (duet_file(Kind.INCONCLUSIVE),),
        (work_file(),),
        (verification_file(different=True),),
        (gate_file(),),
        (overlap_file(),),
    )
    file = folder / "page.html"
    file.write_text(render_page(evidence), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Chrome, file: Path) -> Iterator[Chrome]:
    """The browser, with that page anew, from disk."""
    media(browser, "screen", "light")
    browser.set_window_size(1200, 1000)
    browser.get_log("browser")  # Of the page before.
    browser.get(file.as_uri())
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def media(browser: Chrome, kind: str, scheme: str) -> None:
    """Have the browser show pages as on a screen or on paper, light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def column(browser: Chrome, table: int, number: int) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll('table')[arguments[0]].tBodies[0].rows]"
        ".map((row) => row.cells[arguments[1]].textContent)",
        table,
        number,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_everybody_can_use_it(page: Chrome, scheme: str, width: int):
    media(page, "screen", scheme)
    page.set_window_size(width, 900)
    for details in page.find_elements("css selector", "details"):
        page.execute_script("arguments[0].open = true", details)

    page.execute_script(axe.AXE_SCRIPT)
    found = page.execute_async_script(CHECK, WCAG)
    assert not isinstance(found, str), found

    problems = [
        (violation["id"], node["target"], node["failureSummary"])
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
    assert problems == []
    assert len(found["passes"]) > 10


def test_all_plots_are_shown(page: Chrome):
    widths = page.execute_script("return [...document.images].map((image) => image.naturalWidth)")

    assert len(widths) == 6
    assert all(width > 500 for width in widths)


def test_a_click_sorts_a_column_and_another_one_turns_it_round(page: Chrome):
    tables = page.find_elements("css selector", "table.sortable")
    number = len(tables) - 1  # All figures.
    before = column(page, number, 2)
    button = tables[number].find_elements("css selector", "th button")[2]

    button.click()
    upwards = column(page, number, 2)
    state = tables[number].find_elements("css selector", "th")[2].get_attribute("aria-sort")
    button.click()

    assert (sorted(before), state) == (sorted(upwards), "ascending")
    seconds = [float(text.split()[0]) for text in upwards]  # All in ms.
    assert seconds == sorted(seconds)
    assert seconds != [float(text.split()[0]) for text in before]
    assert [float(text.split()[0]) for text in column(page, number, 2)] == seconds[::-1]


def test_the_keyboard_sorts_as_well(page: Chrome):
    button = page.find_elements("css selector", "th button")[0]
    button.send_keys("\n")

    head = page.find_elements("css selector", "th")[0]
    assert head.get_attribute("aria-sort") == "ascending"


def test_samples_are_shown_once_they_are_asked_for(page: Chrome):
    details = page.find_elements("css selector", "details.raw")
    text = page.execute_script("return arguments[0].querySelector('pre').textContent", details[1])
    assert text == ""

    details[1].find_element("css selector", "summary").click()

    # They are filled in by an event that comes after the click.
    samples = details[1].find_element("css selector", "pre")
    shown = wait.WebDriverWait(page, 10).until(lambda _page: samples.text)
    assert shown.split("\n\n") == [
        "process 1: 500000 505000 510000",
        "process 2: 500000 505000 510000",
    ]


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_is_wider_than_the_screen(page: Chrome, width: int):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": width < 500},
    )
    try:
        found = page.execute_script("return document.documentElement.scrollWidth")
        assert found <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_on_paper_it_is_light_and_without_buttons(page: Chrome):
    media(page, "print", "dark")

    colour = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    hidden = page.execute_script(
        "return [...document.querySelectorAll('nav, .on-screen')]"
        ".map((element) => getComputedStyle(element).display)"
    )
    assert colour == "rgb(255, 255, 255)"
    assert set(hidden) == {"none"}
