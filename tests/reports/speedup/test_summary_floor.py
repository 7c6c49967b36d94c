"""What the floor, which is no arm, adds to a summary, and what it is kept out of."""

import math

import pytest

from harness.speedup.plan import Protocol
from harness.stats.estimates import Estimate
from reports.speedup.summary import proper_arms, summarise
from scenarios.scenario import SteadyDecode

from ..conftest import WriteResults, make_plan

ROOT3 = 3**0.5


@pytest.mark.parametrize(
    ("arms", "proper"),
    [
        (("full-copy", "incremental", "floor"), ("full-copy", "incremental")),
        (("floor", "incremental", "full-copy"), ("incremental", "full-copy")),
        (("batched",), ("batched",)),
        (("floor",), ()),
    ],
)
def test_the_floor_is_no_arm_and_the_others_keep_their_order(
    arms: tuple[str, ...], proper: tuple[str, ...]
):
    assert proper_arms(arms) == proper


def test_each_arm_has_its_ratio_to_the_floor(write_results: WriteResults):
    plan = make_plan(arms=("full-copy", "incremental", "floor"))
    times = {"full-copy": 12.0, "incremental": 3.0, "floor": 2.0}
    samples = {(0, arm, process): times[arm] for arm in plan.arms for process in range(3)}

    (cell,) = summarise(write_results(plan, samples)).cells

    ratios = {arm: ratio.value for arm, ratio in cell.times_floor.items()}
    assert ratios == {"full-copy": pytest.approx(6.0), "incremental": pytest.approx(1.5)}
    assert list(cell.speedups) == ["incremental"]
    assert cell.speedups["incremental"].value == pytest.approx(4.0)
    assert cell.seconds["floor"] == Estimate(2.0, 2.0, 2.0)
    assert cell.processes == {"full-copy": 3, "incremental": 3, "floor": 3}


def test_it_is_the_geometric_mean_over_pairs_with_students_interval(write_results: WriteResults):
    # Ratios 2, 4 and 8 under a machine that drifts: logarithms of mean 2 ln 2 and standard
    # deviation ln 2. Student's t with two degrees of freedom is 4.302652729911275 (any table).
    samples = {}
    for process, (ratio, drift) in enumerate([(2.0, 1.0), (4.0, 16.0), (8.0, 0.5)]):
        samples[0, "batched", process] = ratio * drift
        samples[0, "floor", process] = drift

    (cell,) = summarise(write_results(make_plan(arms=("batched", "floor")), samples)).cells

    ratio = cell.times_floor["batched"]
    assert ratio.value == pytest.approx(4.0)
    assert ratio.low == pytest.approx(4 * 2 ** (-4.302652729911275 / ROOT3), rel=1e-9)
    assert ratio.high == pytest.approx(4 * 2 ** (4.302652729911275 / ROOT3), rel=1e-9)
    assert cell.speedups == {}


def test_pairs_with_the_floor_are_by_number_where_processes_are_missing(
    write_results: WriteResults,
):
    plan = make_plan(arms=("full-copy", "incremental", "floor"))
    samples = {
        (0, "full-copy", 1): 30.0,
        (0, "full-copy", 2): 300.0,
        (0, "floor", 0): 1.0,
        (0, "floor", 1): 10.0,
        (0, "floor", 2): 100.0,
        (0, "incremental", 0): 5.0,
    }

    (cell,) = summarise(write_results(plan, samples)).cells

    assert cell.times_floor["full-copy"].value == pytest.approx(3.0)
    assert cell.times_floor["incremental"] == Estimate(pytest.approx(5.0), 0.0, math.inf)
    assert cell.speedups == {}  # No process of the two has the same number.


def test_without_a_floor_nothing_is_related_to_it(write_results: WriteResults):
    samples = {(0, arm, 0): 1.0 for arm in ("full-copy", "incremental")}
    plan = make_plan(protocol=Protocol(processes=1, warmups=1, rounds=1, samples=3))

    (cell,) = summarise(write_results(plan, samples)).cells

    assert cell.times_floor == {}


def test_a_floor_that_was_asked_for_and_never_measured_is_named(write_results: WriteResults):
    plan = make_plan(arms=("batched", "floor"))
    results = write_results(plan, {(0, "batched", process): 1.0 for process in range(3)})

    summary = summarise(results)

    assert summary.cells[0].times_floor == {}
    assert summary.notes == (
        "Incomplete: v2-2x64 with `floor` (0 of 3 processes). "
        f"`--resume {results.path}` carries on.",
    )


def test_the_floor_alone_has_times_and_no_ratio(write_results: WriteResults):
    samples = {(0, "floor", process): 2.0 for process in range(3)}

    summary = summarise(write_results(make_plan(arms=("floor",)), samples))

    (cell,) = summary.cells
    assert cell.seconds == {"floor": Estimate(2.0, 2.0, 2.0)}
    assert (cell.speedups, cell.times_floor) == ({}, {})
    assert summary.arms == ("floor",)
    assert summary.notes == ()


def test_speedups_are_over_the_first_arm_that_is_not_the_floor(write_results: WriteResults):
    plan = make_plan(arms=("floor", "incremental", "full-copy"))
    times = {"floor": 0.25, "incremental": 1.0, "full-copy": 4.0}
    samples = {(0, arm, process): times[arm] for arm in plan.arms for process in range(3)}

    summary = summarise(write_results(plan, samples))

    (cell,) = summary.cells
    assert {arm: ratio.value for arm, ratio in cell.speedups.items()} == {"full-copy": 0.25}
    assert summary.arms == ("floor", "incremental", "full-copy")
    # Not that an arm is slower than the floor, which goes without saying.
    assert summary.notes == ("`full-copy` is slower than `incremental` in 1 cell: v2-2x64.",)


@pytest.mark.parametrize(
    "arms", [("full-copy", "incremental", "floor"), ("floor", "full-copy", "incremental")]
)
def test_crossovers_are_those_of_the_arms(write_results: WriteResults, arms: tuple[str, ...]):
    # The floor crosses both arms between the two lengths, incremental crosses full-copy.
    times = {
        100: {"full-copy": 0.5, "incremental": 1.0, "floor": 0.75},
        10_000: {"full-copy": 8.0, "incremental": 1.0, "floor": 1.25},
    }
    plan = make_plan(*(SteadyDecode(requests=4, tokens=length) for length in times), arms=arms)
    keys = [
        (index, arm, process) for index in range(len(times)) for arm in arms for process in range(3)
    ]
    lengths = list(times)
    results = write_results(
        plan,
        {key: times[lengths[key[0]]][key[1]] for key in keys},
        runs={key: {"stepbench_tokens_mean": float(lengths[key[0]])} for key in keys},
    )

    assert summarise(results).notes == (
        "`incremental` is slower than `full-copy` in 1 cell: v2-4x100.",
        "With 4 requests, V2: crossover, `incremental` and `full-copy` take the same time at "
        "about 316 tokens per request.",
    )


def test_processes_of_the_floor_that_disagree_are_named(write_results: WriteResults):
    samples = {(0, "batched", process): 3.0 for process in range(3)}
    samples |= {(0, "floor", process): time for process, time in enumerate((1.0, 1.0, 1.5))}

    summary = summarise(write_results(make_plan(arms=("batched", "floor")), samples))

    assert summary.notes == (
        "Noisy: rounds of the same cell and arm differ, those of v2-2x64 with `floor` by a factor "
        "of 1.40 (the middle four fifths).",
    )
