import math

import pytest

from harness.speedup.plan import Protocol
from harness.stats.estimates import Estimate
from reports.render.numbers import is_open
from reports.speedup.summary import summarise
from scenarios.scenario import SteadyDecode

from ..conftest import WriteResults, make_plan

ROOT3 = 3**0.5


def test_a_speedup_is_the_geometric_mean_of_the_ratios_of_pairs(write_results: WriteResults):
    plan = make_plan(protocol=Protocol(processes=2, warmups=1, rounds=1, samples=3))
    # Figures: the median of 4 and 8, and of 1 and 5. The process ratios are 4 and 1.6.
    results = write_results(
        plan,
        {
            (0, "full-copy", 0): 4.0,
            (0, "full-copy", 1): 8.0,
            (0, "incremental", 0): 1.0,
            (0, "incremental", 1): 5.0,
        },
    )

    (cell,) = summarise(results).cells

    assert cell.seconds["full-copy"].value == 6.0
    assert cell.seconds["incremental"].value == 3.0
    assert list(cell.speedups) == ["incremental"]
    assert cell.speedups["incremental"].value == pytest.approx((4 * 1.6) ** 0.5)
    assert cell.processes == {"full-copy": 2, "incremental": 2}


def test_the_interval_is_students_over_the_processes(write_results: WriteResults):
    # Ratios 2, 4 and 8: logarithms of mean 2 ln 2 and standard deviation ln 2. Student's t with
    # two degrees of freedom is 4.302652729911275 (any table).
    results = write_results(
        make_plan(),
        {
            (0, "full-copy", 0): 2.0,
            (0, "full-copy", 1): 4.0,
            (0, "full-copy", 2): 8.0,
            **{(0, "incremental", process): 1.0 for process in range(3)},
        },
    )

    (cell,) = summarise(results).cells

    speedup = cell.speedups["incremental"]
    assert speedup.value == 4.0
    assert speedup.low == pytest.approx(4 * 2 ** (-4.302652729911275 / ROOT3), rel=1e-9)
    assert speedup.high == pytest.approx(4 * 2 ** (4.302652729911275 / ROOT3), rel=1e-9)
    # In plain numbers, so that a slip in the line above shows.
    assert (speedup.low, speedup.high) == (
        pytest.approx(0.7149, abs=1e-4),
        pytest.approx(22.380, abs=1e-3),
    )
    assert cell.seconds["full-copy"] == speedup
    assert cell.seconds["incremental"] == Estimate(1.0, 1.0, 1.0)


def test_processes_of_the_same_number_are_paired(write_results: WriteResults):
    # The machine was ten times slower in turn 1, for both arms: each pair still says 2.
    samples = {
        (0, arm, process): time * drift
        for process, drift in enumerate((1.0, 10.0, 3.0))
        for arm, time in (("full-copy", 2.0), ("incremental", 1.0))
    }

    (cell,) = summarise(write_results(make_plan(), samples)).cells

    speedup = cell.speedups["incremental"]
    assert speedup.value == pytest.approx(2.0)
    assert (speedup.low, speedup.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert cell.seconds["full-copy"].high > 10


def test_pairs_are_by_number_where_processes_are_missing(write_results: WriteResults):
    # Process 0 of full-copy is missing: 1 must be paired with 1, and 2 with 2.
    results = write_results(
        make_plan(),
        {
            (0, "full-copy", 1): 20.0,
            (0, "full-copy", 2): 200.0,
            (0, "incremental", 0): 1.0,
            (0, "incremental", 1): 10.0,
            (0, "incremental", 2): 100.0,
        },
    )

    (cell,) = summarise(results).cells

    assert cell.processes == {"full-copy": 2, "incremental": 3}
    speedup = cell.speedups["incremental"]
    # Of the pairs alone: the quotient of the two medians would be 110 / 10.
    assert speedup.value == pytest.approx(2.0)
    assert (speedup.low, speedup.high) == (pytest.approx(2.0), pytest.approx(2.0))


def test_one_process_gives_no_interval(write_results: WriteResults):
    plan = make_plan(protocol=Protocol(processes=1, warmups=1, rounds=1, samples=3))
    results = write_results(plan, {(0, "full-copy", 0): 1.0, (0, "incremental", 0): 2.0})

    summary = summarise(results)

    speedup = summary.cells[0].speedups["incremental"]
    assert speedup == Estimate(0.5, 0.0, math.inf)
    assert is_open(speedup)
    assert not is_open(Estimate(0.5, 0.4, 0.6))
    assert summary.notes == ()  # Slower, perhaps: a single process cannot tell.


def test_cells_stand_in_the_order_of_the_plan(write_results: WriteResults):
    cells = [SteadyDecode(requests=requests, tokens=64) for requests in (16, 4, 8)]
    plan = make_plan(*cells, protocol=Protocol(processes=1, warmups=1, rounds=1, samples=3))
    results = write_results(
        plan,
        {(index, arm, 0): 1.0 for index in (2, 0, 1) for arm in plan.arms},
        runs={
            (index, arm, 0): {
                "stepbench_requests_mean": float(index),
                "stepbench_tokens_mean": 100.0 + index,
            }
            for index in (2, 0, 1)
            for arm in plan.arms
        },
    )

    summary = summarise(results)

    assert [cell.scenario for cell in summary.cells] == cells
    assert [(cell.requests, cell.tokens) for cell in summary.cells] == [
        (0.0, 100.0),
        (1.0, 101.0),
        (2.0, 102.0),
    ]
    assert summary.file == str(results.path)
    assert summary.arms == ("full-copy", "incremental")
    assert summary.machine == ("box", "Test CPU 9000", "8", "cpython", "3.12.1 (64-bit)")


def test_several_arms_are_all_compared_with_the_first(write_results: WriteResults):
    plan = make_plan(arms=("incremental", "full-copy", "third"))
    times = {"incremental": 1.0, "full-copy": 4.0, "third": 0.5}
    samples = {(0, arm, process): times[arm] for arm in plan.arms for process in range(3)}

    summary = summarise(write_results(plan, samples))

    (cell,) = summary.cells
    assert {arm: speedup.value for arm, speedup in cell.speedups.items()} == {
        "full-copy": 0.25,
        "third": 2.0,
    }
    assert summary.notes == ("`full-copy` is slower than `incremental` in 1 cell: v2-2x64.",)


def test_a_complete_faster_result_needs_no_note(write_results: WriteResults):
    samples = {(0, "full-copy", process): 2.0 for process in range(3)}
    samples |= {(0, "incremental", process): 1.0 for process in range(3)}

    assert summarise(write_results(make_plan(), samples)).notes == ()


def test_an_arm_that_was_never_measured_is_missing_and_no_error(write_results: WriteResults):
    plan = make_plan(arms=("full-copy", "incremental", "third"))
    samples = {(0, arm, process): 1.0 for arm in plan.arms[::2] for process in range(3)}

    summary = summarise(write_results(plan, samples))

    (cell,) = summary.cells
    assert cell.processes == {"full-copy": 3, "incremental": 0, "third": 3}
    assert list(cell.seconds) == ["full-copy", "third"]
    assert list(cell.speedups) == ["third"]


def test_without_its_first_arm_a_cell_has_times_and_no_speedup(write_results: WriteResults):
    samples = {(0, "incremental", process): 1.0 for process in range(3)}

    (cell,) = summarise(write_results(make_plan(), samples)).cells

    assert cell.seconds["incremental"].value == 1.0
    assert cell.speedups == {}
