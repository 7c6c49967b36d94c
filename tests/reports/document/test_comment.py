"""The comment for a pull request, as GitHub would be given it."""

import re
from pathlib import Path

import pytest

from harness.compare.figure import Kind
from harness.gate.config import Outcome
from reports.document.comment import LONGEST, MARKER, render
from reports.evidence import Evidence
from scenarios.scenario import SteadyDecode

from ..conftest import WriteResults, make_plan
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

ARMS = ("full-copy", "incremental")


def samples(cells: int = 2, arms: tuple[str, ...] = ARMS, processes: int = 3):
    return {
        (cell, arm, process): 1e-3 / (1 + 4 * index) * (1 + process / 100)
        for cell in range(cells)
        for index, arm in enumerate(arms)
        for process in range(processes)
    }


@pytest.fixture
def whole(write_results: WriteResults) -> Evidence:
    """One file of each kind."""
    return Evidence(
        (write_results(make_plan(SMALL, LARGE), samples()),),
        (duet_file(Kind.NO_DIFFERENCE),),
        (work_file(),),
        (verification_file(),),
        (gate_file(),),
        (overlap_file(),),
    )


def first_lines(text: str) -> list[str]:
    return text.splitlines()[:2]


def test_the_marker_comes_first_and_the_verdict_next(whole: Evidence):
    text = render(whole)

    assert first_lines(text) == [MARKER, "**✅ The gate against `origin/main`: passed.**"]
    assert text.count(MARKER) == 1
    assert MARKER == "<!-- stepbench -->"


def test_the_other_verdicts_follow(whole: Evidence):
    listed = [line for line in render(whole).splitlines() if line.startswith("- ")]

    assert listed == [
        "- ✅ No difference between `incremental` and `batched` beyond 0.50% (1 cell: 1 no "
        "difference).",
        "- ✅ `batched` gave the outputs of `full-copy`, field by field, in 300 random runs with "
        "22,000 reports.",
        "- 📋 `incremental` is 5.00 times as fast as `full-copy` (2 cells).",
        "- 📋 Exact work of 2 arms in 2 cells, per iteration.",
        "- 📋 A step is shorter by more than 0.5% with `incremental` than with `full-copy` in 1 of "
        "1 cell without overlap, and in 1 with the overlap scheduler.",
    ]


@pytest.mark.parametrize(
    ("evidence", "line"),
    [
        (
            Evidence(duets=(duet_file(),), gates=(gate_file(),)),
            "**❌ `batched` is slower than `incremental` (1 cell: 1 slower).**",
        ),
        (
            Evidence(
                gates=(gate_file(Outcome.INCONCLUSIVE),), verifications=(verification_file(),)
            ),
            "**❔ The gate against `origin/main`: inconclusive: duet (!).**",
        ),
        (
            Evidence(gates=(gate_file(Outcome.NOTHING_TO_COMPARE),)),
            "**❌ The gate against `origin/main`: nothing to compare with: duet (!).**",
        ),
        (
            Evidence(verifications=(verification_file(), verification_file(different=True))),
            "**❌ `batched` departs from `full-copy` in run 17 of seed 3.**",
        ),
        (Evidence(), "**Nothing to report.**"),
    ],
)
def test_the_worst_verdict_is_the_first(evidence: Evidence, line: str):
    assert first_lines(render(evidence))[1] == line


def test_tables_are_at_sight_and_the_rest_is_folded(whole: Evidence):
    text = render(whole)
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)

    assert text.count("<details>") == text.count("</details>") == 6
    # A blank line on both sides, without which GitHub would not see Markdown in it.
    assert text.count("</summary>\n\n") == text.count("\n\n</details>") == 6
    assert "| 2 | 64 | 1.01 ms | 0.20 ms | 5.00x (5.00 to 5.00) |" in unfolded
    assert "| 2 | 64 | full-copy | 128 | 450 |" in unfolded
    assert "Measured 2026-03-04" not in unfolded
    assert "Measured 2026-03-04" in text
    assert "stepbench compare a b" in text


def test_one_chart_of_the_speedups(whole: Evidence):
    text = render(whole)

    (chart,) = re.findall(r"```mermaid\n(.*?)\n```", text, flags=re.DOTALL)
    assert chart.splitlines() == [
        "xychart-beta",
        '    title "incremental: times as fast as full-copy"',
        '    x-axis ["2x64", "2x256"]',
        '    y-axis "times as fast" 0 --> 5.5',
        "    bar [5, 5]",
    ]


def test_a_chart_shows_no_more_cells_than_can_be_read(write_results: WriteResults):
    cells = [SteadyDecode(requests=1 + n, tokens=64) for n in range(14)]
    results = write_results(make_plan(*cells), samples(14))

    text = render(Evidence((results,)))

    assert "12 of 14 cells" in text
    assert len(re.findall(r"    bar \[(.*)\]", text)[0].split(",")) == 12


def test_without_a_second_arm_there_is_no_chart(write_results: WriteResults):
    plan = make_plan(SMALL, arms=("incremental",))
    text = render(Evidence((write_results(plan, samples(1, ("incremental",))),)))

    assert "mermaid" not in text
    assert "`incremental` alone, in 1 cell: nothing to compare." in text


def test_what_is_missing_is_said(whole: Evidence):
    alone = render(Evidence(works=(work_file(),)))

    assert "Not in this report" not in render(whole)
    assert alone.rstrip().splitlines()[-1] == (
        "Not in this report: the gate (`stepbench gate -o`); the speedup table (`stepbench "
        "speedup`); the verdict of a duet (`stepbench compare`); equivalence (`stepbench verify "
        "--json`); what is hidden under the forward (`stepbench overlap`)."
    )


def test_nothing_that_has_a_name_gets_out_of_its_place(write_results: WriteResults):
    arms = ("full-copy", f"file:{HOSTILE_LINE}")
    results = write_results(
        make_plan(SMALL, arms=arms),
        samples(1, arms),
        name="a_b @team <b>.json",
        metadata={"stepbench_revision": "@rev <i>", "stepbench_governor": "#1 [x](http://y)"},
    )
    text = render(Evidence((results,), (duet_file(b=HOSTILE),)))

    # Outside of code, where GitHub would act upon it.
    rest = re.sub(r"```mermaid\n.*?\n```", "", text.replace(MARKER, ""), flags=re.DOTALL)
    rest = re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", rest)
    for sign in (r"<(?!/?(details|summary)>)", r"@\w", r"#\d", r"\w://", r"(?<!\\)\[\w+\]\("):
        assert not re.search(sign, rest), (sign, rest)
    # Every row of a table has as many cells as its head.
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table
    # And no heading begins but ours.
    assert {line.split(" ")[0] for line in text.splitlines() if line.startswith("#")} == {"###"}


def test_what_a_gate_prints_stays_in_its_fence():
    text = render(Evidence(gates=(gate_file(details="```\n````\n# no heading"),)))

    assert "`````text\n```\n````\n# no heading\n`````" in text


def many(count: int, write_results: WriteResults) -> Evidence:
    cells = [SteadyDecode(requests=1 + n, tokens=64) for n in range(count)]
    return Evidence((write_results(make_plan(*cells), samples(count, processes=2)),))


def test_a_long_comment_is_cut(write_results: WriteResults):
    evidence = many(60, write_results)
    whole, short = len(render(evidence)), 3_500

    text = render(evidence, short)

    assert short < whole < LONGEST < 65_536
    assert len(text) <= short
    assert "40 more rows." in text
    assert "Shortened, since GitHub takes no longer comment" in text
    assert text.startswith(f"{MARKER}\n**📋 ")


@pytest.mark.parametrize("longest", [200, 1_000, 1_500, 3_000, 6_000])
def test_whatever_the_limit_the_verdict_is_there(whole: Evidence, longest: int):
    text = render(whole, longest)

    assert len(text) <= longest
    assert first_lines(text) == [MARKER, "**✅ The gate against `origin/main`: passed.**"]
    assert text.count("<details>") == text.count("</details>")
    # What a gate prints stands between four.
    assert text.count("````") % 2 == 0


def test_nothing_is_cut_that_fits(whole: Evidence):
    text = render(whole)

    # As GitHub counts: a sign beyond the first 65,536 twice.
    length = len(text.encode("utf-16-le")) // 2
    assert length > len(text)
    assert render(whole, length) == text
    assert "Shortened" in render(whole, length - 1)
    assert "Shortened" not in text
    assert Path("duet.json") == whole.duets[0].path
