"""What is shown while it is measured."""

import math
from types import SimpleNamespace

import pyperf
import pytest

from harness.speedup.isolated import Event
from harness.speedup.plan import Job, Plan, Protocol
from harness.speedup.schedule import Schedule
from scenarios.scenario import SteadyDecode
from stepbench import progress
from stepbench.progress import MeasuringProgress
from stepbench_core.errors import WorkerError

A = SteadyDecode(requests=1, tokens=10)
B = SteadyDecode(requests=2, tokens=20)
RESULT = pyperf.Benchmark([pyperf.Run([1.0], metadata={"name": "x"}, collect_metadata=False)])
ARMS = ("full-copy", "incremental")


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


class Measured:
    """A measurement of two cells that is played, with what it shows."""

    def __init__(
        self, clock: Clock, *, quiet: bool = False, precision: float | None = None
    ) -> None:
        protocol = Protocol(processes=2, rounds=1, samples=1)
        self.plan = Plan(
            scenarios=(A, B), arms=ARMS, protocol=protocol, precision=precision, seconds=90
        )
        self.clock = clock
        self.schedule = Schedule(self.plan, clock.monotonic)
        self.shown = MeasuringProgress(self.plan, self.schedule, quiet=quiet)

    def step(self, seconds: float, noise: float = 0.0) -> None:
        """Measure the next processes of a cell, whose ratios differ by so much."""
        jobs = self.schedule.next_group()
        self.shown.show(Event(jobs))
        self.clock.now += seconds
        self.schedule.note_time(jobs[0].scenario, seconds)
        for job in jobs:
            is_noisy = job.arm == ARMS[1]
            self.schedule.add(job, [math.exp(noise * (-1) ** job.process) if is_noisy else 1.0])
        self.shown.show(Event(jobs, dict.fromkeys(jobs, RESULT)))

    def fail(self, seconds: float) -> Job:
        jobs = self.schedule.next_group()
        self.shown.show(Event(jobs))
        self.clock.now += seconds
        first, second = jobs
        self.schedule.note_time(first.scenario, seconds)
        self.schedule.add(first, [1.0])
        self.schedule.leave_out(second)
        error = WorkerError(f"{second}: the worker died")
        self.shown.show(Event(jobs, {first: RESULT}, {second: error}))
        return second


def test_a_pipe_gets_a_line_every_ten_seconds_at_most(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    measured = Measured(clock)
    with measured.shown:
        for seconds in (8.0, 4.0, 11.0):
            measured.step(seconds)

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "stepbench: 2 cells, 2 processes of each arm",
        # One of either cell is left: 8 and 4 s.
        "stepbench: 0 of 2 cells done, about 12 s left",
        "stepbench: 1 of 2 cells done, about 4 s left",
    ]


def test_where_processes_are_added_the_goal_is_told_and_how_long_it_takes_at_most(
    clock: Clock, capsys: pytest.CaptureFixture[str]
):
    measured = Measured(clock, precision=0.05)
    with measured.shown:
        for _ in range(4):
            measured.step(6.0, noise=1.0)

    assert capsys.readouterr().err.splitlines() == [
        "stepbench: 2 cells, at least 2 processes of each arm, until ratios are within ±5 % or "
        "90 s are over",
        "stepbench: 0 of 2 cells within ±5 %, at most about 1 min 18 s left",
        "stepbench: 0 of 2 cells within ±5 %, at most about 1 min 06 s left",
    ]


def test_at_the_end_nothing_is_left(clock: Clock, capsys: pytest.CaptureFixture[str]):
    measured = Measured(clock)
    with measured.shown:
        for _ in range(4):
            measured.step(6.0)

    assert capsys.readouterr().err.splitlines()[-1] == "stepbench: 2 of 2 cells done"


def test_quiet_shows_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]):
    measured = Measured(clock, quiet=True)
    with measured.shown:
        for _ in range(4):
            measured.step(60.0)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [True, False])
def test_errors_are_shown_even_if_quiet(
    clock: Clock, capsys: pytest.CaptureFixture[str], quiet: bool
):
    measured = Measured(clock, quiet=quiet)
    with measured.shown:
        job = measured.fail(1.0)

    first = [] if quiet else ["stepbench: 2 cells, 2 processes of each arm"]
    assert capsys.readouterr().err.splitlines() == [*first, f"stepbench: {job}: the worker died"]


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")

    measured = Measured(clock)
    with measured.shown:
        for _ in range(3):
            measured.step(4.0)
        measured.fail(1.0)

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "v2-2x20, process 1" in captured.err
    assert "1/2" in captured.err
    assert "about 4 s left" in captured.err
    assert "stepbench: cell v2-2x20, arm incremental, process 2: the worker died" in captured.err
    assert captured.err.rstrip().endswith("\x1b[2K")  # The line of the bar is cleared.
