"""The page as text: what is in it, and that nothing in it reaches out."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest

from harness.compare.figure import Kind
from reports.document.page import prose, render_page, sort_key
from reports.evidence import Evidence
from reports.render.table import Value

from ..conftest import WriteResults, make_plan, results_in
from ..evidence import (
    HOSTILE,
    HOSTILE_LINE,
    LARGE,
    SMALL,
    duet_file,
    gate_file,
    overlap_file,
    verification_file,
    work_file,
)

# Its page is drawn once.
pytestmark = pytest.mark.xdist_group("page")

VOID = {"meta", "source", "img", "link", "br", "hr", "input"}
ARMS = ("full-copy", "incremental", "floor")


class Page(HTMLParser):
    """Collects elements, and fails where they are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    samples = {
        (cell, arm, process): [1e-3 / (1 + index) * (1 + i / 100) for i in range(3)]
        for cell in range(2)
        for index, arm in enumerate(ARMS)
        for process in range(2)
    }
    folder = tmp_path_factory.mktemp("whole")
    results = results_in(folder, make_plan(SMALL, LARGE, arms=ARMS), samples)
    return Evidence(
        (results,),
        (duet_file(Kind.NO_DIFFERENCE),),
        (work_file(),),
        (verification_file(),),
        (gate_file(),),
        (overlap_file(),),
    )


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What is being made while the page of all evidence is."""
    return []


@pytest.fixture(scope="module")
def text(whole: Evidence, told: list[str]) -> str:
    """That page, which takes seconds to draw."""
    return render_page(whole, told.append)


def test_the_page_is_well_formed_and_whole(text: str):
    page = Page(text)

    assert page.all("html") == [{"lang": "en"}]
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert headings[0] == "h1"
    assert headings.count("h2") == 8  # Six sections, the plots, the figures.
    assert len(page.all("img")) == 6
    assert all(image["alt"] for image in page.all("img"))
    # Each id once, and no link or label that leads nowhere.
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = [str(link["href"]).removeprefix("#") for link in page.all("a")]
    targets += [str(section["aria-labelledby"]) for section in page.all("section")]
    assert set(targets) <= set(ids)
    assert all(head["scope"] == "col" for head in page.all("th"))


def test_nothing_is_fetched(text: str):
    page = Page(text)

    (policy,) = [m for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert str(policy["content"]).startswith("default-src 'none'; img-src data:;")
    addresses = [
        str(attrs[name])
        for _, attrs in page.elements
        for name in ("src", "srcset", "href", "action")
        if name in attrs
    ]
    assert addresses
    assert all(address.startswith(("data:image/svg+xml;base64,", "#")) for address in addresses)
    assert "@import" not in text
    assert "url(" not in text


def test_each_figure_stands_there_with_interval_and_samples(text: str):
    (script,) = re.findall(r'id="samples">(.*?)</script>', text, flags=re.DOTALL)

    (file,) = json.loads(script)
    assert len(file) == 6
    # Cell by cell, arm by arm, process by process: nanoseconds.
    assert file[0] == [[1_000_000, 1_010_000, 1_020_000]] * 2
    assert file[1] == [[500_000, 505_000, 510_000]] * 2
    assert text.count('<details class="raw"') == 6
    assert '<td data-key="2.0">2.00x (2.00 to 2.00)</td>' in text
    assert ">1.01 ms to 1.01 ms</td>" in text


def test_rows_can_be_sorted_on_their_own(text: str):
    # What tells the cell stands in each row, and numbers are sorted by their values.
    assert text.count('<td data-key="256">256</td>') >= 5
    assert '<td data-key="0.00101">1.01 ms</td>' in text


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (Value("1.50 ms", 0.0015, "s"), "0.0015"),
        (Value("1,024", 1024), "1024"),
        (Value("-3", -3), "-3"),
        (Value("v2-64x2048"), "v2-64x2048"),
        (Value("12 of them"), "12 of them"),
        (Value(""), ""),
    ],
)
def test_what_a_column_is_sorted_by(value: Value, key: str):
    assert sort_key(value) == key


def test_words_become_html():
    assert prose("a <b> `c <d>` & `` e`f ``") == (
        "a &lt;b&gt; <code>c &lt;d&gt;</code> &amp; <code>e`f</code>"
    )


def test_names_are_text(write_results: WriteResults):
    arms = ("full-copy", f"file:{HOSTILE_LINE}</script><script>alert(1)</script>")
    samples = {(0, arm, process): 1e-3 for arm in arms for process in range(2)}
    results = write_results(
        make_plan(SMALL, arms=arms), samples, metadata={"stepbench_revision": "<b>"}
    )

    page = Page(render_page(Evidence((results,), (duet_file(b=HOSTILE),))))

    assert len(page.all("script")) == 2
    assert {str(image["src"])[:10] for image in page.all("img")} == {"data:image"}
    assert page.all("b") == []


def test_the_plots_are_there_for_light_and_for_dark(text: str):
    page = Page(text)

    pairs = list(zip(page.all("source"), page.all("img"), strict=True))
    for dark, light in pairs:
        assert dark["media"] == "screen and (prefers-color-scheme: dark)"
        for address, colour in ((dark["srcset"], b"#0d1117"), (light["src"], b"#ffffff")):
            assert colour in base64.b64decode(str(address).partition(",")[2])


def test_a_page_of_a_part_says_what_is_missing():
    text = render_page(Evidence(works=(work_file(),)))

    assert (
        "Not in this report: the gate (<code>stepbench gate -o</code>); the speedup table" in text
    )
    assert Page(text).all("img") == []


@pytest.mark.usefixtures("text")
def test_what_is_being_made_is_told(told: list[str]):
    assert told[:2] == ["drawing speedup", "drawing scaling"]
