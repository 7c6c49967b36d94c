"""The figures of a cell over processes, and where the path is exposed."""

import math
from collections.abc import Sequence

import pytest

from harness.forward.forward_time import ForwardTime
from harness.overlap.exposure import Exposure, exposures, largest_departure
from harness.overlap.figures import CellFigures, OrderFigures, figures
from harness.overlap.run import OverlapPlan
from scenarios.scenario import SteadyDecode, TraceReplay

from ..overlap_runs import CELL, make_plan, make_run, make_segments


def of_paths(plan: OverlapPlan, scenario: SteadyDecode, *paths: float) -> CellFigures:
    """The figures of two equal processes, with these paths of the arms and the plan's forward."""
    assert plan.forward.seconds is not None
    segments = make_segments(paths, plan.forward.seconds, other=plan.other_host)
    return figures(plan, make_run(scenario, [segments, segments]))


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


def judged(*processes: tuple[float, float], base: float = 0.020) -> OrderFigures:
    """An arm in processes, each of a path and by how much more it saves than the model says."""
    segments = []
    for path, more in processes:
        own = make_segments([base, path], 0.004)
        for segment in own[2:]:
            segment["step"] = [step - more for step in segment["step"]]
        segments.append(own)
    (first, second) = figures(make_plan(), make_run(CELL, segments)).arms
    assert first.with_overlap.verdict is None
    return second.with_overlap


def test_steps_that_differ_by_what_the_model_predicts():
    order = judged((0.010, 0.0001), (0.0102, 0.0001), (0.0098, 0.00012))

    assert order.predicted_saved is not None
    assert order.unpredicted is not None
    assert order.predicted_saved.value == pytest.approx(0.010)
    assert order.unpredicted.value == pytest.approx(0.0001067, rel=1e-2)
    assert order.verdict == "holds"


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((0.0007, 0.0007, 0.00071), "departs"),
        ((-0.0007, -0.0007, -0.00071), "departs"),
        # Of whole steps of 10 ms that would have been 7 %, and 6 % on average.
        ((0.0001, 0.0009, 0.0008), "inconclusive"),
        ((0.0, 0.0, 0.0009), "inconclusive"),
        ((0.0,), "inconclusive"),
    ],
)
def test_steps_that_differ_by_something_else(more: tuple[float, ...], verdict: str):
    assert judged(*((0.010, each) for each in more)).verdict == verdict


def test_what_is_less_than_clocks_resolve_is_no_pass():
    # Both hidden: nothing is predicted, and nothing was saved.
    assert judged(*[(0.001, 0.0)] * 3, base=0.002).verdict == "inconclusive"
    assert judged(*[(0.001, 0.0003)] * 3, base=0.002).verdict == "inconclusive"
    # 5 % of 15 us.
    assert judged(*[(0.019985, 0.0)] * 3).verdict == "inconclusive"


LENGTHS = [SteadyDecode(requests=2, tokens=tokens) for tokens in (100, 400, 1_600)]


def exposed(*by_cell: tuple[float, float], forward: float = 0.004) -> list[Exposure]:
    plan = make_plan(*LENGTHS, forward=ForwardTime(forward))
    cells = [of_paths(plan, cell, *paths) for cell, paths in zip(LENGTHS, by_cell, strict=True)]
    # In any order.
    return exposures(plan, cells[::-1])


def test_the_context_from_which_on_an_arm_is_exposed():
    # The first grows fourfold with each fourfold length, and is 4 ms long at 450 tokens.
    first, second = exposed(*[(0.004 * cell.tokens / 450, 0.001) for cell in LENGTHS])

    assert (first.arm, first.size, first.cells) == ("full-copy", "tokens", tuple(LENGTHS))
    assert first.states == ("hidden", "hidden", "exposed")
    assert first.point == pytest.approx(450)
    assert (second.point, second.states) == (None, ("hidden",) * 3)


def test_the_point_lies_between_cells():
    # From a quarter of the forward at 100 tokens to four times of it at 400.
    (first, second) = exposed((0.001, 0.005), (0.016, 0.006), (0.064, 0.007))

    assert first.point == pytest.approx(200)
    assert (second.point, second.states) == (None, ("exposed",) * 3)


def test_an_arm_may_be_exposed_only_up_to_a_length():
    (first, _) = exposed((0.016, 0.001), (0.001, 0.001), (0.001, 0.001))

    assert first.point == pytest.approx(200)
    assert first.states == ("exposed", "hidden", "hidden")


def test_where_no_time_is_taken_no_point_is_found():
    assert [found.point for found in exposed(*[(0.001, 0.002)] * 3, forward=0.0)] == [None, None]
    assert all(
        found.states == ("exposed",) * 3 for found in exposed(*[(0.001, 0.002)] * 3, forward=0.0)
    )
    # A host that takes none is hidden, and no line leads from there to one that takes some.
    (first, _) = exposed((0.0, 0.001), (0.008, 0.001), (0.008, 0.001))
    assert (first.states, first.point) == (("hidden", "exposed", "exposed"), None)


def noisy(*by_cell: Sequence[float]) -> Exposure:
    """Where an arm is exposed, of its paths in the processes of each cell."""
    plan = make_plan(*LENGTHS, arms=["full-copy"])
    cells = [
        figures(plan, make_run(cell, [make_segments([path], 0.004) for path in paths]))
        for cell, paths in zip(LENGTHS, by_cell, strict=True)
    ]
    (found,) = exposures(plan, cells)
    return found


def test_a_size_at_which_the_interval_holds_the_forward_tells_nothing():
    # By their means the host passes the forward between the first two, and again after the second.
    found = noisy((0.0035, 0.0044), (0.0044, 0.0038), (0.0036, 0.0041))
    assert (found.states, found.point) == ((None,) * 3, None)

    found = noisy((0.001, 0.0011), (0.0039, 0.0043), (0.016, 0.0161))
    assert (found.states, found.point) == (("hidden", None, "exposed"), None)

    # What is clear on both sides of the crossing is enough.
    found = noisy((0.0039, 0.0043), (0.001, 0.001), (0.016, 0.016))
    assert found.states == (None, "hidden", "exposed")
    assert found.point == pytest.approx(800)


def test_one_process_tells_nothing():
    assert noisy([0.001], [0.001], [0.1]).states == (None,) * 3


def test_a_host_that_passes_the_forward_twice_has_no_point():
    found = noisy((0.001, 0.001), (0.016, 0.016), (0.001, 0.001))

    assert (found.states, found.point) == (("hidden", "exposed", "hidden"), None)


def test_on_a_real_gpu_nothing_is_said_of_where():
    plan = make_plan(*LENGTHS, forward=ForwardTime(model="llama-3.1-8b"), device="cuda")
    segments = make_segments([0.003, 0.001], 0.004, between=0.002)
    cells = [figures(plan, make_run(cell, [segments] * 2)) for cell in LENGTHS]

    assert exposures(plan, cells) == []
    within = cells[0].arms[0].with_overlap
    # The stand-ins' 2 ms are the device's to wait for, and no engine's.
    assert within.exposed.value == pytest.approx(0.001)
    assert within.engine_exposed.value == 0
    assert cells[0].arms[0].without_overlap.engine_exposed.value == pytest.approx(0.003)


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
