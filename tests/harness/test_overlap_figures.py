"""The figures of a cell over processes, and where the path is exposed."""

import math

import pytest

from harness.exposure import Exposure, exposures, largest_departure
from harness.forward_time import ForwardTime
from harness.overlap_figures import CellFigures, figures
from harness.overlap_run import OverlapPlan
from scenarios.scenario import SteadyDecode, TraceReplay

from .overlap_runs import CELL, make_plan, make_run, make_segments


def of_paths(plan: OverlapPlan, scenario: SteadyDecode, *paths: float) -> CellFigures:
    """The figures of a cell of one process, with these paths of its arms and the plan's forward."""
    assert plan.forward.seconds is not None
    segments = make_segments(paths, plan.forward.seconds, other=plan.other_host)
    return figures(plan, make_run(scenario, [segments]))


def test_figures_are_means_over_processes_with_intervals():
    plan = make_plan()
    processes = [
        make_segments([0.009, 0.001], 0.004, launch=0.001),
        make_segments([0.011, 0.002], 0.004, launch=0.001),
    ]

    cell = figures(plan, make_run(CELL, processes))

    assert (cell.scenario, cell.processes, cell.failure) == (CELL, 2, None)
    assert cell.cpu_share == 0.99
    base, other = cell.arms
    assert (base.arm, other.arm) == ("full-copy", "incremental")
    without, within = base.without_overlap, base.with_overlap
    assert without.path.value == within.path.value == pytest.approx(0.010)
    # t of one degree is 12.706, the standard error 0.001.
    assert within.path.high - within.path.value == pytest.approx(0.012706, rel=1e-3)
    assert without.forward.value == other.with_overlap.forward.value == 0.004
    assert (base.spread, other.spread) == (pytest.approx(11 / 9), pytest.approx(2))
    assert without.host.value == without.exposed.value == pytest.approx(0.011)
    assert (without.hidden.value, without.step.value) == (0, pytest.approx(0.015))
    assert within.exposed.value == pytest.approx(0.007)
    assert within.hidden.value == pytest.approx(0.004)
    assert within.step.value == pytest.approx(0.011)
    assert within.predicted_step.value == pytest.approx(0.011)
    assert base.with_overlap.saved is base.without_overlap.saved is None


def test_what_is_saved_is_paired_by_process():
    # The second process is slower altogether: the difference does not see that.
    processes = [
        make_segments([0.009, 0.006], 0.004),
        make_segments([0.029, 0.026], 0.004),
    ]

    arm = figures(make_plan(), make_run(CELL, processes)).arms[1]

    for order in (arm.without_overlap, arm.with_overlap):
        assert order.saved is not None
        assert order.saved.value == pytest.approx(0.003)
        assert order.saved.high - order.saved.low < 1e-9
        assert order.step.high - order.step.low > 0.1


def test_under_overlap_only_what_stuck_out_can_be_saved():
    arm = figures(make_plan(), make_run(CELL, [make_segments([0.006, 0.001], 0.004)])).arms[1]

    assert arm.without_overlap.saved is not None
    assert arm.without_overlap.saved.value == pytest.approx(0.005)
    assert arm.with_overlap.saved is not None
    assert arm.with_overlap.saved.value == pytest.approx(0.002)
    assert math.isinf(arm.with_overlap.saved.high)


def test_a_cell_without_a_process_has_no_figures():
    cell = figures(make_plan(), make_run(CELL, [], failure="cell v2-2x64, process 1: hung"))

    assert cell == CellFigures(CELL, (), 0, 1.0, "cell v2-2x64, process 1: hung")


def test_by_how_much_steps_depart_from_the_model():
    plan = make_plan()
    cells = [
        figures(plan, make_run(CELL, [make_segments([0.001, 0.002], 0.004, departure=share)]))
        for share in (0.01, 0.04)
    ]

    assert cells[1].arms[0].with_overlap.departure == pytest.approx(0.04)
    found = largest_departure(cells)
    assert found is not None
    assert (found[0], found[1]) == (pytest.approx(0.04), "v2-2x64")
    assert largest_departure([]) is None
    nothing = figures(
        make_plan(forward=ForwardTime(0.0)), make_run(CELL, [make_segments([0.0, 0.0], 0.0)])
    )
    assert largest_departure([nothing]) == (0.0, "v2-2x64", "incremental", True)


LENGTHS = [SteadyDecode(requests=2, tokens=tokens) for tokens in (100, 400, 1_600)]


def exposed(*by_cell: tuple[float, float], forward: float = 0.004) -> list[Exposure]:
    plan = make_plan(*LENGTHS, forward=ForwardTime(forward))
    cells = [of_paths(plan, cell, *paths) for cell, paths in zip(LENGTHS, by_cell, strict=True)]
    # In any order.
    return exposures(plan, cells[::-1])


def test_the_context_from_which_on_an_arm_is_exposed():
    # The first doubles with each fourfold length, from half of the forward to twice of it.
    first, second = exposed((0.002, 0.001), (0.004, 0.001), (0.008, 0.001))

    assert (first.arm, first.size, first.cells) == ("full-copy", "tokens", tuple(LENGTHS))
    assert first.point == pytest.approx(400)
    assert first.is_exposed
    assert (second.point, second.is_exposed) == (None, False)


def test_the_point_lies_between_cells():
    # From a quarter of the forward at 100 tokens to four times of it at 400.
    (first, second) = exposed((0.001, 0.005), (0.016, 0.006), (0.064, 0.007))

    assert first.point == pytest.approx(200)
    assert (second.point, second.is_exposed) == (None, True)


def test_an_arm_may_be_exposed_only_up_to_a_length():
    (first, _) = exposed((0.016, 0.001), (0.001, 0.001), (0.001, 0.001))

    assert first.point == pytest.approx(200)
    assert not first.is_exposed


def test_where_no_time_is_taken_no_point_is_found():
    assert [found.point for found in exposed(*[(0.001, 0.002)] * 3, forward=0.0)] == [None, None]
    assert all(found.is_exposed for found in exposed(*[(0.001, 0.002)] * 3, forward=0.0))


def test_cells_that_differ_in_their_batch():
    batches = [SteadyDecode(requests=count, tokens=64) for count in (1, 16)]
    plan = make_plan(*batches)
    cells = [
        of_paths(plan, cell, path, 0.001)
        for cell, path in zip(batches, (0.001, 0.016), strict=True)
    ]

    first, second = exposures(plan, cells)

    assert (first.size, first.point) == ("requests", pytest.approx(4))
    assert second.point is None


def test_only_realistic_steady_cells_that_were_measured_count():
    forward = ForwardTime(model="llama-3.1-8b", gpu="h100")
    cells = [SteadyDecode(requests=64, tokens=tokens) for tokens in (1_024, 2_048, 8_192)]
    trace = TraceReplay(path="/x.csv")
    plan = make_plan(*cells, trace, forward=forward)
    known = [
        figures(plan, make_run(scenario, [make_segments([0.1, 0.2], 0.1)]))
        for scenario in (*cells, trace)
    ]

    found = exposures(plan, known)

    assert [each.cells for each in found] == [(cells[0], cells[1])] * 2
    assert exposures(plan, known[1:]) == []
    failed = CellFigures(cells[1], (), 0, 1.0, "hung")
    assert exposures(plan, [known[0], failed]) == []
