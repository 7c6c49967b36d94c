from types import SimpleNamespace

import pyperf
import pytest

from harness.child import WorkerError
from harness.isolated import Event
from harness.plan import Job, Plan, Protocol
from scenarios.scenario import SteadyDecode
from stepbench import progress
from stepbench.progress import MeasuringProgress

A = SteadyDecode(requests=1, tokens=10)
B = SteadyDecode(requests=2, tokens=20)
RESULT = pyperf.Benchmark([pyperf.Run([1.0], metadata={"name": "x"}, collect_metadata=False)])


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


@pytest.fixture
def jobs() -> list[Job]:
    """Process 0 of A and B with both arms, then process 1 with the arms the other way round."""
    plan = Plan(scenarios=(A, B), arms=("full-copy", "incremental"), protocol=Protocol(processes=2))
    return plan.jobs()


def _run(shown: MeasuringProgress, clock: Clock, job: Job, seconds: float) -> None:
    shown.show(Event(job))
    clock.now += seconds
    shown.show(Event(job, benchmark=RESULT))


def _fail(shown: MeasuringProgress, clock: Clock, job: Job, seconds: float) -> None:
    shown.show(Event(job))
    clock.now += seconds
    shown.show(Event(job, error=WorkerError(f"{job}: the worker died")))


def test_nothing_is_known_before_the_first_job_is_done(clock: Clock, jobs: list[Job]):
    shown = MeasuringProgress(jobs, quiet=True)
    assert shown.remaining_seconds() is None

    shown.show(Event(jobs[0]))
    clock.now += 5

    assert shown.remaining_seconds() is None


def test_jobs_left_take_what_their_predecessors_took(clock: Clock, jobs: list[Job]):
    shown = MeasuringProgress(jobs, quiet=True)

    # A full-copy, A incremental, B full-copy, B incremental; then the arms change places.
    _run(shown, clock, jobs[0], 4.0)
    # Nothing else is known: seven jobs of four seconds.
    assert shown.remaining_seconds() == 28.0

    _run(shown, clock, jobs[1], 1.0)
    # A is left once with each arm, 5 s; four jobs of B at the mean of 4 and 1.
    assert shown.remaining_seconds() == 15.0

    _run(shown, clock, jobs[2], 10.0)
    # 5 s for A, 10 s for B full-copy, and B incremental twice at the mean of 4, 1 and 10.
    assert shown.remaining_seconds() == 25.0

    _run(shown, clock, jobs[3], 3.0)
    assert shown.remaining_seconds() == 18.0

    # The second process of A incremental takes 2 s; its mean is of no use any more.
    _run(shown, clock, jobs[4], 2.0)
    assert shown.remaining_seconds() == 17.0

    for job in jobs[5:]:
        _run(shown, clock, job, 1.0)
    assert shown.remaining_seconds() == 0.0


def test_time_between_two_jobs_is_not_counted_as_theirs(clock: Clock, jobs: list[Job]):
    shown = MeasuringProgress(jobs, quiet=True)
    clock.now += 100  # Reading a trace, perhaps.

    _run(shown, clock, jobs[0], 2.0)

    assert shown.remaining_seconds() == 14.0


def test_jobs_of_an_arm_that_failed_will_not_come(clock: Clock, jobs: list[Job]):
    shown = MeasuringProgress(jobs, quiet=True)
    _run(shown, clock, jobs[0], 4.0)

    _fail(shown, clock, jobs[1], 50.0)

    # A full-copy once more and four of B, 4 s each; how long the failure took says nothing.
    assert shown.remaining_seconds() == 20.0


def test_a_pipe_gets_a_line_every_ten_seconds_at_most(
    clock: Clock, jobs: list[Job], capsys: pytest.CaptureFixture[str]
):
    with MeasuringProgress(jobs, quiet=False) as shown:
        for job in jobs[:6]:
            _run(shown, clock, job, 4.0)

    captured = capsys.readouterr()
    assert captured.out == ""
    # 24 s: a line after 12 s and one after 24 s, beside the one at the start.
    assert captured.err.splitlines() == [
        "stepbench: 8 processes to run",
        "stepbench: 3 of 8 processes done, about 20 s left",
        "stepbench: 6 of 8 processes done, about 8 s left",
    ]


def test_long_waits_are_told_in_minutes(
    clock: Clock, jobs: list[Job], capsys: pytest.CaptureFixture[str]
):
    with MeasuringProgress(jobs, quiet=False) as shown:
        _run(shown, clock, jobs[0], 26.0)

    assert capsys.readouterr().err.splitlines()[1:] == [
        "stepbench: 1 of 8 processes done, about 3 min 02 s left"
    ]


def test_a_pipe_gets_no_bar(clock: Clock, jobs: list[Job], capsys: pytest.CaptureFixture[str]):
    with MeasuringProgress(jobs, quiet=False) as shown:
        _run(shown, clock, jobs[0], 1.0)

    assert capsys.readouterr().err == "stepbench: 8 processes to run\n"


def test_quiet_shows_nothing(clock: Clock, jobs: list[Job], capsys: pytest.CaptureFixture[str]):
    with MeasuringProgress(jobs, quiet=True) as shown:
        for job in jobs:
            _run(shown, clock, job, 60.0)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [True, False])
def test_errors_are_shown_even_if_quiet(
    clock: Clock, jobs: list[Job], capsys: pytest.CaptureFixture[str], quiet: bool
):
    with MeasuringProgress(jobs, quiet=quiet) as shown:
        _fail(shown, clock, jobs[2], 1.0)

    first = [] if quiet else ["stepbench: 8 processes to run"]
    assert capsys.readouterr().err.splitlines() == [
        *first,
        f"stepbench: {jobs[2]}: the worker died",
    ]


def test_a_terminal_gets_a_bar_that_is_gone_in_the_end(
    clock: Clock,
    jobs: list[Job],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")

    with MeasuringProgress(jobs, quiet=False) as shown:
        _run(shown, clock, jobs[0], 4.0)
        shown.show(Event(jobs[1]))
        shown._bar.refresh()  # The bar draws itself ten times a second: too rarely for a test.
        _fail(shown, clock, jobs[1], 1.0)

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "v2-1x10/incremental" in captured.err
    assert "1/8" in captured.err
    assert "about 28 s left" in captured.err
    assert "stepbench: cell v2-1x10, arm incremental, process 1: the worker died" in captured.err
    assert captured.err.rstrip().endswith("\x1b[2K")  # The line of the bar is cleared.
