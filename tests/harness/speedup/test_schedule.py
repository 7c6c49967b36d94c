"""Which cell measures next, on a clock that moves when it is told to."""

import math
from collections.abc import Callable

from harness.speedup.plan import MAX_COUNT, Job, Plan
from harness.speedup.schedule import Schedule
from scenarios.scenario import SteadyDecode, TraceReplay

from ..helpers import OTHER, TINY, make_plan

Cell = SteadyDecode | TraceReplay
ROUNDS, SAMPLES = 3, 1


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def plan_of(*arms: str, least: int = 2, precision: float | None = 0.05, **options: float) -> Plan:
    return make_plan(
        *arms,
        scenarios=[TINY, OTHER],
        processes=least,
        rounds=ROUNDS,
        samples=SAMPLES,
        precision=precision,
        **options,
    )


def play(
    plan: Plan,
    ratio: Callable[[Job], float],
    took: float = 1.0,
    done: tuple[Job, ...] = (),
    failing: tuple[str, ...] = (),
) -> list[tuple[str, int]]:
    """Return the groups that are measured, where the arms' times are what ``ratio`` says."""
    clock = Clock()
    schedule = Schedule(plan, clock)
    for job in done:
        schedule.add(job, [ratio(job)] * ROUNDS)
    order = []
    while jobs := schedule.next_group():
        order.append((jobs[0].scenario.name, jobs[0].process))
        assert len(order) < 10_000
        for job in jobs:
            if job.benchmark in failing:
                schedule.leave_out(job)
            else:
                schedule.add(job, [ratio(job)] * ROUNDS)
        clock.now += took
        schedule.note_time(jobs[0].scenario, took)
    return order


def wide_in(cell: Cell, size: float) -> Callable[[Job], float]:
    """Times of which only one arm's, in one cell, differ from process to process."""

    def ratio(job: Job) -> float:
        is_noisy = job.scenario == cell and job.arm == "b"
        return math.exp(size * (-1) ** job.process) if is_noisy else 1.0

    return ratio


def test_without_a_precision_each_cell_measures_as_often_as_the_protocol_says():
    order = play(plan_of("a", "b", least=3, precision=None), wide_in(TINY, 1.0))

    assert order == [(cell.name, process) for process in range(3) for cell in (TINY, OTHER)]


def test_cells_that_are_precise_get_no_more_processes():
    order = play(plan_of("a", "b", seconds=1000), lambda _: 1.0)

    assert order == [(cell.name, process) for process in range(2) for cell in (TINY, OTHER)]


def test_processes_are_added_where_the_interval_is_too_wide_until_it_is_not():
    # A half-width of t * s / sqrt(n), s about 0.06: n = 13 is the first at which 98 % fit in 5 %.
    order = play(plan_of("a", "b", seconds=1000), wide_in(OTHER, 0.06))

    assert order[:4] == [(cell.name, process) for process in range(2) for cell in (TINY, OTHER)]
    assert order[4:] == [(OTHER.name, process) for process in range(2, 13)]


def test_the_widest_cell_comes_first():
    def ratio(job: Job) -> float:
        size = 0.3 if job.scenario == TINY else 0.1
        return math.exp(size * (-1) ** job.process) if job.arm == "b" else 1.0

    order = play(plan_of("a", "b", least=4, seconds=1000), ratio)[8:]

    # Three times as wide: nine times as many processes, until both are alike.
    names = [name for name, _ in order]
    assert set(names[:5]) == {TINY.name}
    assert OTHER.name in names[:100]


def test_nothing_is_added_for_which_there_is_no_time():
    order = play(plan_of("a", "b", seconds=7.5), wide_in(TINY, 1.0))

    # Four in any case, 1 s each; then three more.
    assert len(order) == 7
    assert len(play(plan_of("a", "b", seconds=0.5), wide_in(TINY, 1.0))) == 4


def test_an_end_is_found_where_no_precision_is_reached():
    order = play(plan_of("a", "b", seconds=1e8), wide_in(TINY, 20.0))

    assert order[-1] == (TINY.name, MAX_COUNT - 1)


def test_every_ratio_has_to_be_precise_the_floor_s_too():
    def ratio(job: Job) -> float:
        noise = 1.0 if job.arm == "floor" else 0.0
        return math.exp(noise * (-1) ** job.process)

    def count(*arms: str) -> int:
        return len(play(plan_of(*arms, seconds=40), ratio))

    assert count("a", "b") == 4
    assert count("a", "b", "floor") == 40
    assert count("a") == 4


def test_an_arm_that_failed_is_left_out_and_the_others_go_on():
    plan = plan_of("a", "b", "c", seconds=1000)
    clock = Clock()
    schedule = Schedule(plan, clock)

    first = schedule.next_group()
    assert [job.arm for job in first] == ["a", "b", "c"]
    schedule.leave_out(first[1])
    schedule.add(first[0], [1.0] * ROUNDS)
    schedule.add(first[2], [1.0] * ROUNDS)
    second = schedule.next_group()
    assert [(job.scenario, job.arm) for job in second] == [(OTHER, arm) for arm in "abc"]
    for job in second:
        schedule.add(job, [1.0] * ROUNDS)
    assert [(job.scenario, job.arm) for job in schedule.next_group()] == [(TINY, "a"), (TINY, "c")]
    # Where nothing is left to be compared, nothing is added.
    failing = tuple(Job(cell, arm, 0).benchmark for cell in (TINY, OTHER) for arm in ("b", "c"))
    assert len(play(plan, wide_in(TINY, 1.0), failing=failing)) == 4


def test_what_is_done_counts():
    plan = plan_of("a", "b", least=3, precision=None)
    jobs = plan.jobs()

    assert play(plan, lambda _: 1.0, done=tuple(jobs)) == []
    missing = jobs[5]
    schedule = Schedule(plan, Clock())
    for job in jobs:
        if job != missing:
            schedule.add(job, [1.0] * ROUNDS)
    assert schedule.next_group() == [missing]


def test_how_long_it_takes_is_known_by_what_was_measured():
    clock = Clock()
    schedule = Schedule(plan_of("a", "b", least=2, precision=None), clock)
    assert schedule.left() == 0.0

    def measure(took: float) -> None:
        jobs = schedule.next_group()
        for job in jobs:
            schedule.add(job, [1.0] * ROUNDS)
        schedule.note_time(jobs[0].scenario, took)

    measure(4.0)
    # Nothing else is known: three groups of four seconds.
    assert (schedule.left(), schedule.done()) == (12.0, 0)
    measure(1.0)
    assert (schedule.left(), schedule.done()) == (5.0, 0)
    measure(2.0)
    assert (schedule.left(), schedule.done()) == (1.0, 1)
    measure(1.0)
    assert (schedule.left(), schedule.done()) == (0.0, 2)


def test_where_processes_are_added_the_rest_takes_at_most_what_was_given():
    clock = Clock()
    plan = plan_of("a", "b", seconds=60.0)
    schedule = Schedule(plan, clock)
    for _ in range(4):
        jobs = schedule.next_group()
        for job in jobs:
            schedule.add(job, [wide_in(TINY, 1.0)(job)] * ROUNDS)
        clock.now += 2.0
        schedule.note_time(jobs[0].scenario, 2.0)

    assert (schedule.left(), schedule.done()) == (52.0, 1)
