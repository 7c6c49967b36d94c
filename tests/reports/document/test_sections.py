"""What a report says of each kind of file, before any markup."""

from dataclasses import replace

import pytest

from harness.compare.figure import Kind
from harness.gate.config import Outcome
from reports.document.sections import missing_note, sections
from reports.evidence import Evidence
from reports.render.parts import Section, State, Verbatim
from reports.render.table import Column, ColumnKind, Table

from ..conftest import WriteResults, make_plan
from ..evidence import (
    LARGE,
    SMALL,
    duet_file,
    gate_file,
    overlap_file,
    verification_file,
    work_file,
)


def only(evidence: Evidence) -> Section:
    (section,) = sections(evidence)
    return section


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (Kind.SLOWER, State.BAD),
        (Kind.FASTER, State.GOOD),
        (Kind.NO_DIFFERENCE, State.GOOD),
        (Kind.INCONCLUSIVE, State.OPEN),
    ],
)
def test_a_duet(kind: Kind, state: State):
    file = duet_file(kind)
    # One of two cells failed in the file that is inconclusive; without it:
    whole = replace(
        file, results=file.results[:1], duet=replace(file.duet, scenarios=file.duet.scenarios[:1])
    )
    section = only(Evidence(duets=(whole,)))

    if kind is Kind.INCONCLUSIVE:
        assert only(Evidence(duets=(file,))).state is State.BAD
    assert section.state is state
    assert f"{kind}" in section.verdict.lower()
    assert isinstance(section.parts[0], Table)
    words = {Kind.NO_DIFFERENCE: "2.00% slower, within 0.50%"}  # As the made-up ratio has it.
    assert section.parts[0].texts[0][-1] == words.get(kind, kind)
    assert "stepbench compare a b" in section.provenance


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.PASSED, State.GOOD),
        (Outcome.FOUND, State.BAD),
        (Outcome.INCONCLUSIVE, State.OPEN),
        (Outcome.NOTHING_TO_COMPARE, State.BAD),
    ],
)
def test_a_gate(outcome: Outcome, state: State):
    section = only(Evidence(gates=(gate_file(outcome, "the details"),)))

    assert section.state is state
    why = "" if outcome is Outcome.PASSED else ": duet (!)"
    assert section.verdict == f"The gate against `origin/main`: {outcome.words}{why}."
    (table,), (heading, details) = section.parts, section.details
    assert isinstance(table, Table)
    assert table.texts == (("equivalence", "passed", "same"), ("duet", outcome.words, "!"))
    assert (heading, details) == ("duet:", Verbatim("the details"))


def test_counted_work():
    section = only(Evidence(works=(work_file(),)))

    assert (section.state, section.title) == (State.NEUTRAL, "How much work?")
    parts = (*section.parts, *section.details)
    tables = [part for part in parts if isinstance(part, Table)]
    assert tables[0].texts[1] == ("", "", "batched", "2", "450")
    # The tokens of full-copy grow as the context does, those of batched not at all.
    assert [row[1:3] for row in tables[1].texts] == [
        ("full-copy", "1.000 / -"),
        ("batched", "0.000 / -"),
    ]


def test_a_verification():
    same = only(Evidence(verifications=(verification_file(),)))
    different = only(Evidence(verifications=(verification_file(different=True),)))

    assert (same.state, same.parts) == (State.GOOD, ())
    assert different.state is State.BAD
    words, operations = different.parts
    assert words == "After report 2, field new_tokens: expected `[1]`, found `[]`."
    assert operations == Table.of(
        [Column("Shortest operation list", ColumnKind.WORDS)], [["1. join 0"], ["2. step"]]
    )
    assert different.provenance == "Here. Repeat with `stepbench verify batched --run 17`."


@pytest.mark.parametrize(
    ("factors", "state", "verdict"),
    [
        ((5.0, 2.0), State.NEUTRAL, "is 2.00 to 5.00 times as fast as `full-copy` (2 cells)."),
        ((5.0, 5.0), State.NEUTRAL, "is 5.00 times as fast as `full-copy` (2 cells)."),
        ((5.0, 0.5), State.NEUTRAL, "is 0.50 to 5.00 times as fast as `full-copy` (2 cells)."),
    ],
)
def test_a_speedup(
    write_results: WriteResults, factors: tuple[float, float], state: State, verdict: str
):
    samples = {
        (cell, arm, process): seconds
        for cell, factor in enumerate(factors)
        for process in range(3)
        for arm, seconds in (("full-copy", 1e-3), ("incremental", 1e-3 / factor))
    }
    results = write_results(make_plan(SMALL, LARGE), samples)

    section = only(Evidence((results,)))

    assert (section.state, section.verdict) == (state, f"`incremental` {verdict}")


def test_an_overlap():
    section = only(Evidence(overlaps=(overlap_file(),)))

    assert section.title == "Does it matter?"
    assert section.verdict == (
        "A step is shorter by more than 0.5% with `incremental` than with `full-copy` in 1 of 1 "
        "cell without overlap, and in 1 with the overlap scheduler."
    )
    assert "stepbench overlap" in section.provenance
    assert any(isinstance(part, Table) for part in section.parts)


def test_a_speedup_that_is_not_clear_is_told(write_results: WriteResults):
    noisy = {0: 0.9e-3, 1: 1.0e-3, 2: 1.1e-3}
    samples = {
        (0, arm, process): 1e-3 if arm == "full-copy" else seconds
        for process, seconds in noisy.items()
        for arm in ("full-copy", "incremental")
    }
    section = only(Evidence((write_results(make_plan(SMALL), samples),)))

    assert section.state is State.NEUTRAL
    assert section.verdict.endswith("(1 cell, no clear difference in 1).")


def test_of_a_single_process_nothing_is_unclear(write_results: WriteResults):
    samples = {(0, "full-copy", 0): 1e-3, (0, "incremental", 0): 2e-4}
    section = only(Evidence((write_results(make_plan(SMALL), samples),)))

    assert section.state is State.NEUTRAL
    assert section.verdict == "`incremental` is 5.00 times as fast as `full-copy` (1 cell)."


def test_arms_without_a_common_cell(write_results: WriteResults):
    samples = {(0, "full-copy", 0): 1e-3, (1, "incremental", 0): 1e-3}
    section = only(Evidence((write_results(make_plan(SMALL, LARGE), samples),)))

    assert section.state is State.NEUTRAL
    assert section.verdict == "`incremental` and `full-copy` were measured in no common cell."


def test_what_decides_comes_first(write_results: WriteResults):
    results = write_results(make_plan(SMALL), {(0, "full-copy", 0): 1e-3})
    everything = Evidence(
        (results,),
        (duet_file(),),
        (work_file(),),
        (verification_file(),),
        (gate_file(),),
        (overlap_file(),),
    )

    titles = [section.title.split(":")[0] for section in sections(everything)]
    assert titles == [
        "Gate",
        "Slower or faster?",
        "Speedup",
        "Same outputs?",
        "How much work?",
        "Does it matter?",
    ]
    assert missing_note(everything) == ""
    # What the gate includes is not missed beside it.
    assert missing_note(Evidence(gates=(gate_file(),))) == (
        "Not in this report: the speedup table (`stepbench speedup`); exact counts "
        "(`stepbench count --json`); what is hidden under the forward (`stepbench overlap`)."
    )
