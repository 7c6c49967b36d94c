import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pyperf
import pytest

from connector.data import SchedulerOutput
from harness.arms.registry import SchedulerOutputManager
from harness.speedup.plan import SETTLING
from harness.speedup.sampling import Sampler
from scenarios.workload import Workload


class Stage:
    """A workload, an arm and a clock in one, which write down what is done to them.

    Time stands still but for ``advance``, which takes 100 s, and the k-th ``build``, which takes
    k seconds.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self.now = 1000.0
        self.iteration = 0
        self.async_requests = object()
        self.manager = object()
        self.batch = self._batch()

    def _batch(self) -> SimpleNamespace:
        def length(beam: int) -> int:
            self.events.append(f"tokens of beam {beam}")
            return 40 + self.iteration

        request = SimpleNamespace(get_num_tokens=length)
        return SimpleNamespace(context_requests=[], generation_requests=[request, request])

    def advance(self) -> None:
        self.events.append("advance")
        self.iteration += 1
        self.now += 100
        # A batch of its own for each iteration, as when requests join and leave.
        self.batch = self._batch()

    def build_scheduler_output(self, *arguments: object) -> SchedulerOutput:
        self.events.append("build")
        self.calls.append(arguments)
        self.now += self.iteration
        output = SchedulerOutput()
        weakref.finalize(output, self.events.append, "freed")
        return output

    def clock(self) -> float:
        self.events.append("clock")
        return self.now


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def sampler(stage: Stage) -> Sampler:
    arm = cast(SchedulerOutputManager, stage)
    return Sampler(cast(Workload, stage), arm, clock=stage.clock)


def test_nothing_but_the_call_stands_between_the_clock_readings(stage: Stage, sampler: Sampler):
    sampler(1)

    # The output outlives the second reading: freeing it is not the measured path's work.
    shape = ["tokens of beam 0"] * 2
    assert stage.events == ["advance", "clock", "build", "clock", "freed", *shape]


def test_each_sample_is_the_time_of_its_call(stage: Stage, sampler: Sampler):
    assert [sampler(1) for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert stage.events.count("advance") == 4


def test_the_arm_is_given_what_the_iteration_schedules(stage: Stage, sampler: Sampler):
    batches = []
    for _ in range(3):
        sampler(1)
        batches.append(stage.batch)

    assert [arguments[0] for arguments in stage.calls] == batches
    assert len({id(batch) for batch in batches}) == 3
    for arguments in stage.calls:
        assert arguments[1:] == (stage.async_requests, stage.manager)


def test_the_shape_of_every_iteration_is_kept(sampler: Sampler):
    assert sampler.shapes == []
    for _ in range(3):
        sampler(1)
    # Two requests of 41, 42 and 43 tokens.
    assert sampler.shapes == [(2, 82), (2, 84), (2, 86)]


@pytest.mark.parametrize("loops", [0, 2, 1024])
def test_a_value_of_several_iterations_is_refused(stage: Stage, sampler: Sampler, loops: int):
    with pytest.raises(ValueError, match=f"^a value is one iteration, not {loops}$"):
        sampler(loops)
    assert stage.events == []


def test_an_error_of_the_arm_is_not_swallowed(stage: Stage):
    def broken(*_: object) -> SchedulerOutput:
        raise RuntimeError("broken arm")

    arm = cast(SchedulerOutputManager, SimpleNamespace(build_scheduler_output=broken))
    sampler = Sampler(cast(Workload, stage), arm, clock=stage.clock)
    with pytest.raises(RuntimeError, match=r"^broken arm$"):
        sampler(1)
    assert sampler.shapes == []


def test_pyperf_takes_the_first_iterations_as_warm_up(
    monkeypatch: pytest.MonkeyPatch, sampler: Sampler
):
    # pyperf allows one runner a process and counts them here.
    monkeypatch.setattr(pyperf.Runner, "_created", set())
    runner = pyperf.Runner()
    runner.parse_args(["--worker", "--loops=1", "--warmups=3", "--values=4"])
    bench: Callable[..., pyperf.Benchmark] = runner.bench_time_func

    (run,) = bench("fake", sampler).get_runs()

    assert run.warmups == ((1, 1.0), (1, 2.0), (1, 3.0))
    assert run.values == (4.0, 5.0, 6.0, 7.0)
    assert len(sampler.shapes) == 7


def test_a_round_begins_with_a_turn_and_calls_that_are_not_timed(stage: Stage):
    waits: list[int] = []
    arm = cast(SchedulerOutputManager, stage)
    sampler = Sampler(
        cast(Workload, stage),
        arm,
        clock=stage.clock,
        warmups=2,
        rounds=[3, 1],
        wait=lambda: waits.append(stage.iteration),
    )

    seconds = [sampler(1) for _ in range(2 + 3 + 1)]

    # Two warm-ups; two calls for the caches, and a round of three; two again, and a round of one.
    assert SETTLING == 2
    assert seconds == [1.0, 2.0, 5.0, 6.0, 7.0, 10.0]
    assert len(sampler.shapes) == len(sampler.left) == 6
    # Before the warm-up and either round, and when the last round is over.
    assert waits == [0, 2, 7, 10]
