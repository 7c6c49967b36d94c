"""The loop in both orders: exactly, on a clock that moves only when something is done."""

import itertools
from pathlib import Path
from typing import cast

import pytest

from harness.arms.registry import create_arm
from harness.forward.devices import SimulatedDevice
from harness.overlap.loop import Iteration, Sweep, run_loop, sweep_size
from harness.overlap.model import exposed_time, predict
from harness.system.background import Background
from scenarios.scenario import SteadyDecode
from scenarios.workload import create_workload

from ..overlap_helpers import (
    TICK,
    CostlyClock,
    CostlyLaunch,
    FakeArm,
    FakeClock,
    FakeWorkload,
    always,
)


def loop(
    path: float,
    forward: float,
    *,
    overlap: bool,
    launch: float = 0.0,
    other: float = 0.0,
    advance: float = 0.0,
    iterations: int = 6,
) -> list[Iteration]:
    clock = FakeClock()
    return run_loop(
        CostlyLaunch(clock, launch * TICK),
        FakeWorkload(clock, advance * TICK),
        FakeArm(clock, path * TICK),
        always(forward * TICK),
        overlap=overlap,
        iterations=iterations,
        other_host=other * TICK,
    )


# Path, launch, other host work and forward, in ticks: the host's time below, at and beyond it.
TIMES = [(1, 0, 0, 10), (5, 2, 1, 10), (7, 1, 2, 10), (9, 1, 1, 10), (100, 3, 0, 10), (40, 2, 7, 3)]


@pytest.mark.parametrize(("path", "launch", "other", "forward"), TIMES)
def test_without_overlap_all_of_the_host_s_time_is_exposed(
    path: float, launch: float, other: float, forward: float
):
    found = loop(path, forward, overlap=False, launch=launch, other=other, advance=1_000)

    host = (path + launch + other) * TICK
    assert len(found) == 6
    for each in found:
        assert (each.path, each.launch, each.other) == (path * TICK, launch * TICK, other * TICK)
        assert each.between == 0, "the stand-ins' own time does not count"
        assert each.host == each.exposed == host
        assert each.forward == forward * TICK
        assert each.step == host + each.forward


@pytest.mark.parametrize(("path", "launch", "other", "forward"), TIMES)
def test_with_overlap_it_is_what_is_longer_than_the_forward(
    path: float, launch: float, other: float, forward: float
):
    found = loop(path, forward, overlap=True, launch=launch, other=other, advance=1_000)

    host, busy = (path + launch + other) * TICK, forward * TICK
    # Nothing runs yet that could hide the first one.
    assert found[0].exposed == host
    for each in found[1:]:
        assert each.host == host
        assert each.exposed == exposed_time(host, busy, overlap=True) == max(0.0, host - busy)
    for each in found[1:-1]:
        assert each.step == max(host, busy)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_forward_that_takes_no_time_hides_nothing(overlap: bool):
    for each in loop(5, 0, overlap=overlap)[1:-1]:
        assert each.exposed == each.step == 5 * TICK
        assert each.forward == 0


@pytest.mark.parametrize("overlap", [False, True])
def test_a_host_that_takes_no_time_exposes_nothing(overlap: bool):
    for each in loop(0, 5, overlap=overlap):
        assert each.exposed == each.host == 0
        assert each.step == 5 * TICK


@pytest.mark.parametrize("overlap", [False, True])
def test_a_single_iteration_has_nothing_to_hide_behind(overlap: bool):
    (only,) = loop(5, 3, overlap=overlap, iterations=1)

    assert (only.exposed, only.step) == (5 * TICK, 8 * TICK)


@pytest.mark.parametrize("overlap", [False, True])
def test_no_iteration_at_all(overlap: bool):
    assert loop(5, 3, overlap=overlap, iterations=0) == []


@pytest.mark.parametrize("overlap", [False, True])
def test_steps_add_up_to_the_whole(overlap: bool):
    found = loop(9, 4, overlap=overlap, launch=2, iterations=20)

    whole = sum(each.exposed + each.forward for each in found)
    assert sum(each.step for each in found) == whole


def test_the_model_gives_each_iteration_its_own_exposed_time():
    clock = FakeClock()
    paths = [cost * TICK for cost in (3, 12, 1, 8, 8, 20, 0, 5)]
    forwards = iter([cost * TICK for cost in (6, 2, 9, 8, 1, 30, 4, 4)])

    found = run_loop(
        SimulatedDevice(clock),
        FakeWorkload(clock),
        FakeArm(clock, paths),
        lambda _batch: next(forwards),
        overlap=True,
        iterations=len(paths),
    )

    model = predict(found, overlap=True)
    assert [each.path for each in found] == paths
    assert [each.exposed / TICK for each in found] == [3, 6, 0, 0, 0, 19, 0, 1]
    assert [exposed / TICK for exposed in model] == [6, 0, 0, 0, 19, 0, 1]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("path", [4, 40, 64, 100])
@pytest.mark.parametrize("forward", [0, 4, 64, 400])
def test_what_reading_the_clock_costs_makes_no_difference(
    path: float, forward: float, overlap: bool
):
    reading = 4 * TICK
    clock = CostlyClock(reading)

    found = run_loop(
        SimulatedDevice(clock),
        FakeWorkload(clock, 1_000 * TICK),
        FakeArm(clock, path * TICK),
        always(forward * TICK),
        overlap=overlap,
        iterations=10,
    )

    for each, exposed in list(zip(found[1:], predict(found, overlap=overlap), strict=True))[:-1]:
        # No more than the reading by which a launch, or the end of a forward, is seen too late.
        assert abs(each.step - (each.forward + exposed)) <= reading
        assert each.between == 0


def test_an_arm_that_raises_ends_the_loop():
    class Broken(FakeArm):
        def build_scheduler_output(self, *_: object) -> object:  # type: ignore[override]
            if self.built == 2:
                raise RuntimeError("the arm broke")
            return super().build_scheduler_output()

    clock = FakeClock()
    arm, workload = Broken(clock, TICK), FakeWorkload(clock)
    for overlap in (False, True):
        with pytest.raises(RuntimeError, match="the arm broke"):
            run_loop(
                SimulatedDevice(clock),
                workload,
                arm,
                always(TICK),
                overlap=overlap,
                iterations=5,
            )
    assert workload.advanced == 4


def test_caches_are_swept_before_each_path_and_that_takes_no_time():
    clock = FakeClock()
    sweeps = []

    def sweep() -> None:
        sweeps.append(clock.time)
        clock.work(50.0)

    found = run_loop(
        SimulatedDevice(clock),
        FakeWorkload(clock),
        FakeArm(clock, 2 * TICK),
        always(TICK),
        overlap=False,
        iterations=3,
        sweep=sweep,
    )

    assert sweeps == [0, 50 + 3 * TICK, 100 + 6 * TICK]
    assert [each.step for each in found] == [3 * TICK] * 3


def test_a_sweep_reads_and_writes_all_of_its_memory():
    sweep = Sweep(1_000)
    one, other = vars(sweep).values()
    assert len(one) + len(other) == 1_000
    one[7] = 1

    sweep()

    assert (one[7], other[7]) == (1, 1)


@pytest.mark.parametrize(
    ("sizes", "swept"),
    [
        (["32K", "32K", "1024K", "32768K"], 64 * 2**20),
        (["48K", "260M"], 520 * 2**20),
        ([], 64 * 2**20),
        (["unknown", ""], 64 * 2**20),
    ],
)
def test_twice_the_largest_cache_is_swept(tmp_path: Path, sizes: list[str], swept: int):
    for cpu, own in ((0, ["1K"]), (3, sizes)):
        for index, size in enumerate(own):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            (folder / "size").write_text(f"{size}\n")

    assert sweep_size(3, tmp_path) == swept
    assert sweep_size(None, tmp_path) == 2_048


@pytest.mark.parametrize("name", ["full-copy", "incremental"])
def test_the_token_of_the_iteration_before_is_late_under_overlap(name: str):
    outputs: dict[bool, list[tuple[list[int], int]]] = {}
    for overlap in (False, True):
        scenario = SteadyDecode(requests=1, tokens=40, overlap=overlap)
        workload = create_workload(scenario, 8, "0", "python")
        arm, seen = create_arm(name), []
        build = arm.build_scheduler_output

        def note(*arguments: object, build: object = build, seen: list = seen) -> object:
            output = build(*arguments)  # type: ignore[operator]
            (data,) = output.new_requests or output.cached_requests
            seen.append((data.new_tokens, data.computed_position))
            return output

        arm.build_scheduler_output = note  # type: ignore[method-assign,assignment]
        run_loop(
            SimulatedDevice(FakeClock()),
            workload,
            arm,
            always(TICK),
            overlap=overlap,
            iterations=8,
        )
        outputs[overlap] = seen

    in_time, late = outputs[False], outputs[True]
    # The prompt and the token that the context phase gave; under overlap that one is not there yet.
    assert [len(tokens) for tokens, _ in in_time] == [41, 1, 1, 1, 1, 1, 1, 1]
    assert [len(tokens) for tokens, _ in late] == [40, 1, 1, 1, 1, 1, 1, 1]
    assert [position for _, position in in_time] == list(range(40, 48))
    assert [position for _, position in late] == list(range(39, 47))
    # The same tokens, one iteration later.
    flat = [list(itertools.chain(*(tokens for tokens, _ in seen))) for seen in (in_time, late)]
    assert flat[1] == flat[0][:-1]


class Watched:
    """Says that each call left so many seconds of work to others."""

    is_there = True

    def __init__(self, left: float) -> None:
        self.left = left
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def end(self, seconds: float) -> float:
        self.calls.append(f"end {seconds / TICK:g}")
        return self.left

    def look(self) -> None:
        self.calls.append("look")

    def watch(self) -> None:
        self.calls.append("watch")


@pytest.mark.parametrize("overlap", [False, True])
def test_what_the_path_leaves_to_others_is_host_time(overlap: bool):
    clock, watched = FakeClock(), Watched(3 * TICK)
    found = run_loop(
        CostlyLaunch(clock, 1 * TICK),
        FakeWorkload(clock, 100 * TICK),
        FakeArm(clock, 5 * TICK),
        always(2 * TICK),
        overlap=overlap,
        iterations=6,
        other_host=4 * TICK,
        background=cast("Background", watched),
    )

    for each in found:
        assert (each.path, each.background, each.other) == (5 * TICK, 3 * TICK, 4 * TICK)
        assert each.host == 13 * TICK
    # Nobody is asked who is there until some calls have been made, and then in each iteration.
    assert watched.calls[:7] == ["begin", "end 5"] * 3 + ["look"]
    assert watched.calls.count("watch") == 2
