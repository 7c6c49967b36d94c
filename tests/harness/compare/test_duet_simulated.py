"""Grids of duets, run again and again with drawn workers: how often each verdict comes."""

import functools
import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from harness.compare import figure
from harness.compare import processes as duet_processes
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.compare.verdict import overall
from scenarios.scenario import SteadyDecode

from ..duet_workers import A, B, Draws, Workers

# How much processes differ: standard deviation of the log ratio of two copies.
NOISE = 0.0036


def drawn(seed: int, effect: float, *, heavy: float) -> Draws:
    """Processes whose log ratios vary by ``NOISE``.

    The copies are loaded and placed anew in each: the log time of each varies by itself. A share
    ``heavy`` of the processes has one of the four 2 % off.
    """
    rng = random.Random(seed)
    while True:
        times = [rng.gauss(0, NOISE / math.sqrt(2)) for _ in range(4)]
        if rng.random() < heavy:
            times[rng.randrange(4)] += rng.choice([-0.02, 0.02])
        a, b, a_again, b_again = times
        yield effect + (b + b_again - a - a_again) / 2, (a_again + b_again - a - b) / 2, 1.0


Simulate = Callable[..., Counter[Kind]]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Runs a grid at the default budget again and again; returns how often each verdict came.

    The verdicts are those on the whole.
    """
    workers = Workers(monkeypatch)
    # What would take most of the time: the same few quantiles, each of them by bisection, and jobs
    # that no worker reads.
    monkeypatch.setattr(figure, "student_t", functools.cache(figure.student_t))
    monkeypatch.setattr(duet_processes, "asdict", lambda _source: {})
    monkeypatch.setattr(SteadyDecode, "to_dict", lambda _scenario: {})

    def run(
        runs: int, cells: int, effect: float, heavy: float = 0.0, seconds: float = 0.4
    ) -> Counter[Kind]:
        grid = tuple(SteadyDecode(requests=1 + n, tokens=8) for n in range(cells))
        duet = Duet(A, B, grid)
        workers.seconds = seconds
        workers.draws = drawn(1, effect, heavy=heavy)
        found: Counter[Kind] = Counter()
        for _ in range(runs):
            workers.calls.clear()
            found[overall([compare_cell(duet, cell).verdict.kind for cell in grid])] += 1
        return found

    return run


@pytest.mark.parametrize(("heavy", "seconds"), [(0.0, 0.3), (0.0, 0.4), (0.0, 0.6), (0.1, 0.4)])
def test_equal_arms_hardly_ever_raise_an_alarm(simulate: Simulate, heavy: float, seconds: float):
    found = simulate(60, 12, 0.0, heavy, seconds)

    # The target is one grid of a hundred; thousands of grids showed none.
    assert found[Kind.SLOWER] + found[Kind.FASTER] == 0


@pytest.mark.parametrize(("seconds", "share"), [(0.3, 0.98), (0.4, 0.92), (0.6, 0.65)])
def test_of_a_cell_of_equal_arms_it_is_mostly_told(
    simulate: Simulate, seconds: float, share: float
):
    """A slow process leaves fewer of them, and 99 % is asked: more stays open than at 95 %."""
    found = simulate(400, 1, 0.0, seconds=seconds)

    assert found[Kind.NO_DIFFERENCE] >= share * 400
    assert found[Kind.SLOWER] + found[Kind.FASTER] == 0


@pytest.mark.parametrize("effect", [math.log1p(0.005), -math.log1p(0.005)])
def test_of_arms_on_the_threshold_hardly_anything_is_said(simulate: Simulate, effect: float):
    found = simulate(600, 1, effect)

    # Each of four looks errs with 0.5 %, and those of few processes somewhat more: 12, and three
    # standard deviations.
    assert found[Kind.NO_DIFFERENCE] <= 22
    # Over its looks a run errs with 5 %: both of them 1.5 times, and three standard deviations.
    assert found[Kind.SLOWER] + found[Kind.FASTER] <= 5


@pytest.mark.parametrize("heavy", [0.0, 0.1])
def test_of_all_cells_on_the_threshold_hardly_one_is_called_different(
    simulate: Simulate, heavy: float
):
    """The worst there is for false alarms: 2.5 %."""
    found = simulate(100, 12, math.log1p(0.005), heavy, 0.17)

    assert found[Kind.SLOWER] + found[Kind.FASTER] <= 5


# With slow processes there is time for few: to judge the means as well, at no more false alarms,
# costs seven of a hundred there.
@pytest.mark.parametrize(("seconds", "share"), [(0.3, 0.99), (0.4, 0.985), (0.6, 0.82)])
@pytest.mark.parametrize(("effect", "kind"), [(0.01, Kind.SLOWER), (-0.01, Kind.FASTER)])
def test_one_per_cent_is_found(
    simulate: Simulate, effect: float, kind: Kind, seconds: float, share: float
):
    found = simulate(300, 1, effect, seconds=seconds)

    assert found[kind] >= share * 300
    assert set(found) <= {kind, Kind.INCONCLUSIVE}


@pytest.mark.parametrize("seconds", [0.4, 0.6])
def test_one_per_cent_is_found_in_a_grid(simulate: Simulate, seconds: float):
    assert simulate(40, 12, 0.01, seconds=seconds)[Kind.SLOWER] >= 39


@pytest.mark.parametrize("effect", [0.002, -0.002])
def test_a_fifth_of_one_per_cent_is_no_difference_that_matters(simulate: Simulate, effect: float):
    grids = simulate(30, 12, effect)
    cells = simulate(300, 1, effect)

    assert grids[Kind.SLOWER] + grids[Kind.FASTER] == 0
    # Six of ten.
    assert cells[Kind.NO_DIFFERENCE] >= 0.5 * 300
    assert cells[Kind.SLOWER] + cells[Kind.FASTER] == 0


@pytest.mark.parametrize("effect", [0.01, -0.01])
def test_outliers_hide_a_difference_but_do_not_turn_it_round(simulate: Simulate, effect: float):
    found = simulate(300, 1, effect, heavy=0.1)

    wrong = Kind.FASTER if effect > 0 else Kind.SLOWER
    assert found[wrong] == found[Kind.NO_DIFFERENCE] == 0


def test_twice_as_much_is_found_in_spite_of_outliers(simulate: Simulate):
    assert simulate(200, 1, 0.02, heavy=0.1)[Kind.SLOWER] >= 0.97 * 200
