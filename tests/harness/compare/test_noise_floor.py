"""``harness.compare.noise_floor`` on processes with chosen effects; nothing is measured."""

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.compare import noise_floor
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.noise_floor import (
    CELL,
    Noise,
    against_itself,
    detectable,
    noise_of,
    processes_of_a_run,
    run_against_itself,
)
from harness.compare.run import compare_cell, processes_within
from harness.compare.verdict import NOT_MEASURED, Process, Rule, judge
from harness.stats.means import Means, Reading
from harness.system.worker_process import WorkerError
from scenarios.scenario import SteadyDecode

from ..duet_workers import A


def process(effect: float, control: float = 0.0, share: float = 1.0) -> Process:
    return Process(effect, (control, control), share, (1e-3, 1e-3))


def result(*processes: Process, took: float = 3.0) -> CellResult:
    return CellResult(CELL, first=list(processes), took=took)


def test_noise_is_that_of_all_processes_together():
    first = result(process(0.01, 0.002), process(-0.01, -0.002))
    second = result(process(0.01, 0.002), took=2.0)
    second.second.append(process(-0.01, -0.002))

    noise = noise_of([first, second])

    assert noise is not None
    assert noise.processes == 4
    # Four values that are one away from their mean: the root of 4/3.
    assert noise.effect == pytest.approx(0.01 * math.sqrt(4 / 3))
    assert noise.control == pytest.approx(0.002 * math.sqrt(4 / 3))
    assert noise.seconds == 1.25
    assert noise.verdict == judge([*first.first, *second.first, *second.second], Rule())
    # Means were not kept.
    assert (noise.agreed, noise.every) == (None, None)
    wide = noise_of([first, second], Rule(0.05))
    assert wide is not None
    assert wide.verdict == judge([*first.first, *second.first, *second.second], Rule(0.05))


def test_the_means_have_a_noise_of_their_own():
    def means(sign: int) -> Means:
        agreed, every = (Reading(sign * size, (0.0, 0.0)) for size in (0.02, 0.03))
        return Means(agreed, every, (1e-3, 1e-3), (1e-3, 1e-3), (0.0, 0.0))

    signs = (1, -1, 1, -1)
    noise = noise_of([result(*(replace(process(0.01 * x), means=means(x)) for x in signs))])

    assert noise is not None
    # Four values that are one away from their mean: the root of 4/3.
    shares = (noise.effect, noise.agreed, noise.every)
    assert shares == pytest.approx(tuple(size * math.sqrt(4 / 3) for size in (0.01, 0.02, 0.03)))


@pytest.mark.parametrize("results", [[], [result()], [result(process(0.0))]])
def test_fewer_than_two_processes_show_no_noise(results: list[CellResult]):
    assert noise_of(results) is None


@pytest.mark.parametrize(
    ("effects", "share", "is_too_much"),
    [
        ((0.001, -0.001) * 5, 1.0, False),
        ((0.02, -0.02) * 5, 1.0, True),
        ((0.001, -0.001) * 5, 0.5, True),
        # The same code, and yet clearly slower.
        ((0.021, 0.019) * 5, 1.0, True),
    ],
)
def test_noise_is_too_much_unless_nothing_is_found(
    effects: tuple[float, ...], share: float, is_too_much: bool
):
    noise = noise_of([result(*(process(effect, share=share) for effect in effects))])
    assert noise is not None
    assert noise.is_too_much is is_too_much


@pytest.mark.parametrize("amount", [0.0003, 0.002, 0.02])
@pytest.mark.parametrize("count", [6, 22])
def test_detectable_is_the_verdict_s_for_what_was_seen(amount: float, count: int):
    # A control that is 0 in the mean, since that is what is expected of the next run.
    signs = [1 if number % 2 else -1 for number in range(count)]
    processes = [process(sign * amount, sign * amount / 2) for sign in signs]

    noise = noise_of([result(*processes)])

    assert noise is not None
    assert detectable(noise, count) == pytest.approx(judge(processes, Rule()).detectable)


def test_detectable_by_hand():
    noise = Noise(5, effect=0.002, control=0.0, seconds=0.5, verdict=NOT_MEASURED)
    # Fifteen processes are left, with 14 degrees of freedom. Student's quantile for 98.42 % is
    # 2.745, that for 95 % 2.145: 0.5 % + (2.745 + 2.326) 0.2 % / 5.
    expected = math.exp(math.log(1.005) + 5.071 * 0.002 / 5) - 1
    assert detectable(noise, 25) == pytest.approx(expected, abs=1e-6)
    # Beyond the threshold it is the control that is not to be mistaken for a difference.
    shaky = Noise(5, effect=0.002, control=0.05, seconds=0.5, verdict=NOT_MEASURED)
    expected = math.exp(2.145 * 0.05 / 5 + 5.071 * 0.002 / 5) - 1
    assert detectable(shaky, 25) == pytest.approx(expected, abs=2e-5)
    assert detectable(shaky, 25, Rule(0.1)) == pytest.approx(
        1.1 * math.exp(0.0020283) - 1, abs=2e-6
    )


def test_more_processes_find_less():
    noise = Noise(20, effect=0.003, control=0.003, seconds=0.5, verdict=NOT_MEASURED)
    found = [detectable(noise, count) for count in (6, 14, 22, 58)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 4
    assert found[-1] > 0.005


@pytest.mark.parametrize(
    ("seconds", "each"),
    [(10, 0.5), (10, 0.3), (10, 0.05), (60, 0.5), (60, 1.3), (10, 5.0), (1, 0.5)],
)
def test_a_duet_has_as_many_processes_as_are_foretold(seconds: float, each: float):
    now = 0.0

    def draw() -> Process:
        nonlocal now
        now += each
        return process(0.0, share=0.1)  # So that there is no verdict, and time decides.

    duet = Duet(A, A, (CELL,), seconds=seconds)
    found = compare_cell(duet, CELL, draw=draw, clock=lambda: now)
    assert len(found.first) == processes_within(seconds, each)
    assert found.second == []


@pytest.mark.parametrize(
    ("seconds", "each", "count"),
    [(10, 0.5, 10), (10, 0.3, 16), (60, 0.5, 60), (10, 5.0, 6), (600, 0.5, 117)],
)
def test_half_of_the_processes_are_for_the_repetition(seconds: float, each: float, count: int):
    assert processes_of_a_run(seconds, each) == count


class Duets:
    """Real duets of drawn processes, each of which takes half a second on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.duets: list[Duet] = []
        self.draws = itertools.repeat(process(0.0))
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(noise_floor, "time", clock)
        monkeypatch.setattr(noise_floor, "compare_cell", self)

    def __call__(
        self, duet: Duet, scenario: SteadyDecode, progress: Callable[[str], None]
    ) -> CellResult:
        self.duets.append(duet)
        return compare_cell(duet, scenario, progress, self._draw, lambda: self.now)

    def _draw(self) -> Process:
        self.now += 0.5
        return next(self.draws)


@pytest.fixture
def duets(monkeypatch: pytest.MonkeyPatch) -> Duets:
    return Duets(monkeypatch)


def test_an_arm_runs_against_itself_until_the_time_is_over(duets: Duets):
    told: list[str] = []

    results = list(run_against_itself(against_itself((), "python"), told.append))

    # Six processes of half a second show that there is no difference: thrice in ten seconds.
    assert [len(each.first) for each in results] == [6, 6, 6]
    assert {each.verdict.kind for each in results} == {Kind.NO_DIFFERENCE}
    assert told == ["v2-64x2048, first run"] * 18
    # No process is run twice: each has an input seed of its own.
    assert [each.seed for each in duets.duets] == [0, 1, 2]
    assert [each.seconds for each in duets.duets] == [10.0, 7.0, 4.0]
    for each in duets.duets:
        assert each.a == each.b
        assert (each.a.spec, each.cpus, each.provider) == ("incremental", (), "python")
        assert each.scenarios == (SteadyDecode(requests=64, tokens=2_048),)


def test_a_run_that_finds_no_verdict_takes_the_time_by_itself(duets: Duets):
    rng = random.Random(5)
    duets.draws = (process(rng.gauss(0, 0.05)) for _ in itertools.count())

    results = list(run_against_itself(against_itself((3,), "python")))

    assert [len(each.first) for each in results] == [14]
    assert [each.cpus for each in duets.duets] == [(3,)]


def test_a_worker_that_fails_ends_it(duets: Duets):
    def fail() -> Iterator[Process]:
        yield process(0.0)
        raise WorkerError("the worker was killed")

    duets.draws = fail()

    results = list(run_against_itself(against_itself((), "python")))

    assert [each.failure for each in results] == ["the worker was killed"]
    assert noise_of(results) is None


@pytest.mark.thorough
def test_real_processes_can_be_judged():
    (found,) = run_against_itself(against_itself((), "python", seconds=0.1))

    assert found.failure is None
    noise = noise_of([found])
    assert noise is not None
    assert noise.processes >= 6
    assert noise.effect > 0
    assert noise.agreed is not None
    assert noise.every is not None
    assert noise.seconds > 0
