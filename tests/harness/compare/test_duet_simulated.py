"""Grids of duets, run again and again with drawn workers: how often each verdict comes."""

import functools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from harness.compare import figure
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.compare.verdict import Process, overall
from harness.stats.means import Means, Reading
from scenarios.scenario import SteadyDecode

from ..duet_workers import A, B

# How much processes differ: standard deviation of the log ratio of two copies.
NOISE = 0.0036


def drawn(seed: int, effect: float, *, heavy: float) -> Iterator[Process]:
    """Processes whose log ratios vary by ``NOISE``.

    The copies are loaded and placed anew in each: the log time of each varies by itself. A share
    ``heavy`` of the processes has one of the four 2 % off. All steps of a process take as long.
    """
    rng = random.Random(seed)
    while True:
        times = [rng.gauss(0, NOISE / math.sqrt(2)) for _ in range(4)]
        if rng.random() < heavy:
            times[rng.randrange(4)] += rng.choice([-0.02, 0.02])
        a, b, a_again, b_again = times
        own = effect + (b + b_again - a - a_again) / 2
        controls = (a_again - a, b_again - b)
        reading, second = Reading(own, controls), (1e-3, 1e-3)
        yield Process(own, controls, 1.0, second, Means(reading, reading, second, second, (0, 0)))


Simulate = Callable[..., Counter[Kind]]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Runs a grid at the default budget again and again; returns how often each verdict came.

    The verdicts are those on the whole.
    """
    # What would take most of the time: the same few quantiles, each of them by bisection.
    monkeypatch.setattr(figure, "student_t", functools.cache(figure.student_t))

    def run(
        runs: int, cells: int, effect: float, heavy: float = 0.0, seconds: float = 0.4
    ) -> Counter[Kind]:
        grid = tuple(SteadyDecode(requests=1 + n, tokens=8) for n in range(cells))
        duet = Duet(A, B, grid)
        processes = drawn(1, effect, heavy=heavy)

        def kind(cell: SteadyDecode) -> Kind:
            spent = [0.0]

            def drawing() -> Process:
                spent[0] += seconds
                return next(processes)

            return compare_cell(duet, cell, draw=drawing, clock=lambda: spent[0]).verdict.kind

        return Counter(overall([kind(cell) for cell in grid]) for _ in range(runs))

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


@pytest.mark.parametrize(
    ("runs", "most", "heavy"),
    [
        (10, 1, 0.0),
        pytest.param(100, 5, 0.0, marks=pytest.mark.thorough),
        pytest.param(100, 5, 0.1, marks=pytest.mark.thorough),
    ],
)
def test_of_all_cells_on_the_threshold_hardly_one_is_called_different(
    simulate: Simulate, runs: int, most: int, heavy: float
):
    """The worst there is for false alarms: 2.5 %."""
    found = simulate(runs, 12, math.log1p(0.005), heavy, 0.17)

    assert found[Kind.SLOWER] + found[Kind.FASTER] <= most


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
