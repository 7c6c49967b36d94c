import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.speedup.file import Results
from harness.speedup.plan import Protocol
from reports.speedup.summary import Summary, machines_note, summarise
from reports.speedup.table import speedup_table
from scenarios.scenario import SteadyDecode, TraceReplay

from ..conftest import MACHINE, WriteResults, make_plan, make_summary

SMALL = SteadyDecode(requests=2, tokens=64)


def _by_length(
    write_results: WriteResults, speedups: Mapping[int, tuple[float, float, float]]
) -> Results:
    """Results of four requests, with the speedup of each process by length."""
    plan = make_plan(*(SteadyDecode(requests=4, tokens=length) for length in speedups))
    samples, runs = {}, {}
    for index, (length, ratios) in enumerate(speedups.items()):
        for process, ratio in enumerate(ratios):
            for arm, seconds in (("full-copy", ratio), ("incremental", 1.0)):
                samples[index, arm, process] = seconds
                runs[index, arm, process] = {"stepbench_tokens_mean": float(length)}
    return write_results(plan, samples, runs=runs)


def test_missing_processes_are_named_with_how_to_carry_on(write_results: WriteResults):
    plan = make_plan(SMALL, SteadyDecode(requests=1, tokens=32), SteadyDecode(requests=3, tokens=9))
    results = write_results(
        plan,
        {
            **{(0, arm, process): 1.0 for arm in plan.arms for process in range(3)},
            (1, "full-copy", 0): 1.0,
            (1, "full-copy", 1): 1.0,
        },
    )

    summary = summarise(results)

    # The third cell has nothing at all: it is in the note, and not in the table.
    assert [cell.scenario.name for cell in summary.cells] == ["v2-2x64", "v2-1x32"]
    assert summary.cells[1].processes == {"full-copy": 2, "incremental": 0}
    assert list(summary.cells[1].seconds) == ["full-copy"]
    assert summary.cells[1].speedups == {}
    assert summary.notes == (
        "Incomplete: v2-1x32 with `full-copy` (2 of 3 processes), "
        "v2-1x32 with `incremental` (0 of 3 processes), "
        "v2-3x9 with `full-copy` (0 of 3 processes), "
        "v2-3x9 with `incremental` (0 of 3 processes). "
        f"`--resume {results.path}` carries on.",
    )


def test_single_processes_leave_nothing_unclear(write_results: WriteResults):
    results = _by_length(write_results, {64: (5.0,), 128: (0.5,)})

    notes = summarise(results).notes

    # Their ratio has no interval, so that nothing can be said of how clear it is.
    assert [note.partition(":")[0] for note in notes] == ["Incomplete"]


def test_the_hint_to_carry_on_can_be_pasted_into_a_shell(write_results: WriteResults):
    results = write_results(make_plan(), {(0, "full-copy", 0): 1.0}, name="my results.json")

    (note,) = summarise(results).notes

    pasted = note.split("`")[-2]
    assert shlex.split(pasted) == ["--resume", str(results.path)]


@pytest.mark.parametrize(
    ("ratios", "slower"),
    [
        ((0.50, 0.51, 0.49), True),
        ((0.50, 1.00, 0.25), False),  # Its interval reaches from 0.09 to 2.8.
        ((2.00, 2.01, 1.99), False),
    ],
)
def test_slower_is_said_only_if_the_whole_interval_says_it(
    write_results: WriteResults, ratios: tuple[float, ...], slower: bool
):
    samples = {(0, "full-copy", process): ratio for process, ratio in enumerate(ratios)}
    samples |= {(0, "incremental", process): 1.0 for process in range(3)}

    notes = summarise(write_results(make_plan(), samples)).notes

    expected = "`incremental` is slower than `full-copy` in 1 cell: v2-2x64."
    assert (expected in notes) == slower


def test_the_crossover_is_where_the_line_between_two_lengths_passes_one(
    write_results: WriteResults,
):
    # A speedup of 1/2 at 100 tokens and of 8 at 10,000: on log-log axes a quarter of the way, at
    # 100 * 100**0.25 = 316 tokens.
    results = _by_length(write_results, {10_000: (8.0, 8.0, 8.0), 100: (0.5, 0.5, 0.5)})

    assert summarise(results).notes == (
        "`incremental` is slower than `full-copy` in 1 cell: v2-4x100.",
        "With 4 requests, V2: crossover, `incremental` and `full-copy` take the same time at "
        "about 316 tokens per request.",
    )


def test_a_crossover_is_looked_for_between_clear_differences_alone(write_results: WriteResults):
    unclear = (0.5, 0.9, 0.8)  # Below 1, with an interval around it: no side of a crossover.
    results = _by_length(
        write_results, {10: unclear, 100: (0.5, 0.5, 0.5), 10_000: (8.0, 8.0, 8.0)}
    )
    assert "about 316 tokens per request" in summarise(results).notes[1]

    results = _by_length(write_results, {10: unclear, 10_000: (8.0, 8.0, 8.0)})
    assert summarise(results).notes[0] == (
        "With 4 requests, V2: no clear difference between `incremental` and `full-copy` at "
        "10 tokens per request."
    )


def test_a_crossover_may_go_the_other_way(write_results: WriteResults):
    results = _by_length(write_results, {100: (8.0, 8.0, 8.0), 10_000: (0.5, 0.5, 0.5)})

    # Three quarters of the way from 100 to 10,000.
    assert "the same time at about 3,162 tokens per request" in summarise(results).notes[-1]


def test_processes_that_disagree_are_named(write_results: WriteResults):
    results = _by_length(write_results, {100: (2.0, 2.0, 3.0)})

    assert summarise(results).notes == (
        "Noisy: rounds of the same cell and arm differ, those of v2-4x100 with `full-copy` by a "
        "factor of 1.40 (the middle four fifths).",
    )


def test_a_machine_of_two_speeds_is_told_in_one_line(write_results: WriteResults):
    # Slow in the second half of each process, for both arms: the ratio of each round is 4.
    plan = make_plan(
        SteadyDecode(requests=4, tokens=100),
        SteadyDecode(requests=4, tokens=200),
        protocol=Protocol(processes=3, warmups=1, rounds=4, samples=1),
    )
    samples = {
        (cell, arm, process): [seconds * factor for factor in (1.0, 1.0, 1.5, 1.5)]
        for cell in (0, 1)
        for arm, seconds in (("full-copy", 4.0), ("incremental", 1.0))
        for process in range(3)
    }

    summary = summarise(write_results(plan, samples))

    assert summary.notes == (
        "The machine had two speeds: 50% of the rounds took 1.50 times as long as the other "
        "rounds of their cell and arm. A time is the median of all rounds; a ratio is formed of "
        "rounds that followed each other.",
    )
    assert [cell.speedups["incremental"].value for cell in summary.cells] == [4.0, 4.0]
    assert all(cell.speedups["incremental"].high == 4.0 for cell in summary.cells)


def test_ratios_that_are_not_as_precise_as_was_asked_for_are_counted(write_results: WriteResults):
    noisy, steady = (1.0, 1.1, 1.0), (2.0, 2.0, 2.0)
    samples = {
        **{(0, "full-copy", process): value for process, value in enumerate(noisy)},
        **{(1, "full-copy", process): value for process, value in enumerate(steady)},
        **{(cell, "incremental", process): 1.0 for cell in (0, 1) for process in range(3)},
    }
    cells = SteadyDecode(requests=4, tokens=100), SteadyDecode(requests=4, tokens=200)

    asked = summarise(write_results(make_plan(*cells, precision=0.05, seconds=90.0), samples))
    free = summarise(write_results(make_plan(*cells), samples, name="free.json"))

    assert asked.notes[-1] == (
        "1 of 2 ratios is not within ±5 % after the 90 s that were given. "
        f"`--resume {asked.file}` adds processes for as long again."
    )
    assert [row[-1] for row in speedup_table(asked).texts] == [
        "1.03x (0.83 to 1.29, not within ±5 %) no clear difference",
        "2.00x (2.00 to 2.00)",
    ]
    assert not any("within" in note for note in free.notes)
    assert "within" not in speedup_table(free).texts[0][-1]


@pytest.mark.parametrize("field", ["load_avg_1min", "stepbench_load_start"])
def test_a_busy_machine_is_told(write_results: WriteResults, field: str):
    plan = make_plan()
    samples = {(0, arm, process): 1.0 for arm in plan.arms for process in range(3)}

    quiet = write_results(plan, samples, runs={(0, "full-copy", 1): {field: 1.4}})
    assert summarise(quiet).notes == ()
    busy = write_results(plan, samples, runs={(0, "full-copy", 1): {field: 2.5}}, name="busy.json")
    (note,) = summarise(busy).notes
    assert note.startswith("Busy machine: the load went up to 2.5 while one process measured.")


def test_lengths_on_one_side_have_no_crossover(write_results: WriteResults):
    results = _by_length(write_results, {100: (2.0, 2.0, 2.0), 10_000: (8.0, 8.0, 8.0)})

    assert summarise(results).notes == ()


@pytest.mark.parametrize(
    "other",
    [
        SteadyDecode(requests=8, tokens=10_000),
        SteadyDecode(requests=4, tokens=10_000, manager="v1"),
        SteadyDecode(requests=4, tokens=10_000, draft_tokens=3),
        TraceReplay(path="/traces/some.csv", max_batch=4),
    ],
)
def test_cells_that_differ_in_more_than_their_length_have_no_crossover(
    write_results: WriteResults, other: SteadyDecode | TraceReplay
):
    plan = make_plan(SteadyDecode(requests=4, tokens=100), other)
    times = {(0, "full-copy"): 0.5, (1, "full-copy"): 8.0}
    keys = [(index, arm, process) for index in (0, 1) for arm in plan.arms for process in range(3)]

    notes = summarise(write_results(plan, {key: times.get(key[:2], 1.0) for key in keys})).notes

    assert not any("Crossover" in note for note in notes)


def test_one_machine_needs_no_warning():
    assert machines_note([]) is None
    assert machines_note([make_summary()]) is None
    assert machines_note([make_summary(file="a.json"), make_summary(file="b.json")]) is None


def test_several_machines_are_counted_and_their_differences_named(write_results: WriteResults):
    def summary(name: str, **other: object) -> Summary:
        samples = {(0, "full-copy", 0): 1.0}
        return summarise(
            write_results(make_plan(), samples, name=name, machine={**MACHINE, **other})
        )

    here = summary("a.json")
    twin = summary("b.json")
    other = summary("c.json", hostname="crate", python_version="3.13.0 (64-bit)")
    third = summary("d.json", hostname="chest")

    assert machines_note([here, twin, other]) == (
        "These results come from 2 different machines or Pythons (they differ in hostname, "
        "python_version): compare speedups between the tables, never times."
    )
    note = machines_note([here, other, third])
    assert note is not None
    assert note.startswith("These results come from 3 different machines")


@pytest.mark.parametrize(
    ("fingerprint", "hostname", "note"),
    [
        ("0123", "box", None),
        # One machine, in two containers.
        ("0123", "crate", None),
        ("4567", "box", "2 different machines or Pythons (they differ in fingerprint)"),
    ],
)
def test_a_machine_is_its_fingerprint_where_all_have_one(
    fingerprint: str, hostname: str, note: str | None
):
    here = replace(make_summary(), fingerprint="0123")
    there = replace(make_summary(machine=(hostname, *here.machine[1:])), fingerprint=fingerprint)

    found = machines_note([here, there])

    assert (note in found) if note and found else found == note


def test_without_a_fingerprint_the_names_tell():
    here = replace(make_summary(), fingerprint="0123")
    there = make_summary(machine=("crate", *here.machine[1:]))

    note = machines_note([here, there])

    assert note is not None
    assert "(they differ in hostname)" in note
