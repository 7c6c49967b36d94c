import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("ruptures", reason="the history is an extra: pip install 'stepbench[history]'")

from harness.history.change_points import LEVEL, Change, draw_in, find_changes, noise_of

STEP = math.log(1.05)


def series(seed: int, *stretches: tuple[int, float], noise: float = 0.01) -> list[float]:
    """Normal noise around a level for each stretch of so many runs."""
    generator = np.random.default_rng(seed)
    levels = np.concatenate([np.full(count, level) for count, level in stretches])
    return (levels + generator.normal(0.0, noise, len(levels))).tolist()


def places(changes: Sequence[Change]) -> list[int]:
    return [change.run for change in changes]


@pytest.mark.parametrize("seed", range(10))
def test_a_step_of_five_per_cent_is_found_where_it_is(seed: int):
    (change,) = find_changes(series(seed, (20, -7.0), (20, -7.0 + STEP)))

    assert change.run == 20
    assert (len(change.before), len(change.after)) == (20, 20)
    # A standard deviation of the difference of means is 0.3 %.
    size = float(change.after.mean() - change.before.mean())
    assert size == pytest.approx(STEP, abs=0.013)
    assert 0 < change.p <= LEVEL


def test_a_slowdown_that_was_mended_is_two_change_points():
    changes = find_changes(series(1, (30, 0.0), (12, STEP), (100, 0.0)))

    assert places(changes) == [30, 42]
    up, down = changes
    assert up.after.tolist() == down.before.tolist()
    assert len(down.after) == 100


def test_steps_in_one_direction_are_told_apart():
    assert places(find_changes(series(2, (20, 0.0), (20, STEP), (20, 2 * STEP)))) == [20, 40]


def _normal(generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.normal(0.0, 0.01, count)


def _heavy_tails(generator: np.random.Generator, count: int) -> np.ndarray:
    return 0.01 * generator.standard_t(2, count)


def _skewed(generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.exponential(0.02, count)


def _two_moods(generator: np.random.Generator, count: int) -> np.ndarray:
    slow = generator.random(count) < 0.15
    return generator.normal(0.0, 0.005, count) + 0.1 * slow


def most_of(trials: int, probability: float, confidence: float) -> int:
    """The number that a binomial variable stays within with this confidence."""
    total, count = 0.0, -1
    while total < confidence:
        count += 1
        ways = math.comb(trials, count)
        total += ways * probability**count * (1 - probability) ** (trials - count)
    return count


@pytest.mark.parametrize("noise", [_normal, _heavy_tails, _skewed, _two_moods])
def test_noise_alone_hardly_ever_has_a_change_point(
    noise: Callable[[np.random.Generator, int], np.ndarray],
):
    false = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        logs = noise(generator, int(generator.integers(6, 120)))
        false += bool(find_changes(logs.tolist()))

    # At the level of the test: 2 of 200, which more than 99.8 % of all sets of 200 stay within.
    assert most_of(200, LEVEL, 0.998) == 2
    assert false <= 2


@pytest.mark.parametrize("seed", [0, 13, 28])
def test_a_step_is_found_among_candidates_that_are_noise(seed: int):
    # ruptures proposes two to five more for these.
    logs = _heavy_tails(np.random.default_rng(seed), 80)
    logs[40:] += 2 * STEP

    assert places(find_changes(logs.tolist())) == [40]


def test_one_run_that_stands_out_is_no_change_and_hides_none():
    alone = series(3, (40, 0.0))
    alone[17] += 1.0
    assert find_changes(alone) == []

    with_step = series(3, (20, 0.0), (20, STEP))
    with_step[17] += 1.0
    with_step[30] -= 1.0
    assert places(find_changes(with_step)) == [20]


def test_a_change_is_told_after_a_few_runs_but_not_at_once():
    logs = series(4, (40, 0.0), (4, 3 * STEP))

    assert [places(find_changes(logs[:count])) for count in (41, 42, 44)] == [[], [], [40]]


@pytest.mark.parametrize("count", range(6))
def test_a_few_runs_say_nothing(count: int):
    assert find_changes([float(number) for number in range(count)]) == []


def test_times_that_never_differ_have_no_change_point():
    assert find_changes([-7.0] * 50) == []


def test_times_without_noise_change_where_they_change():
    (change,) = find_changes([0.0] * 10 + [STEP] * 10)

    assert change.run == 10
    assert change.after.tolist() == [STEP] * 10


def test_the_same_series_gives_the_same_answer_whatever_was_asked_before():
    logs = series(5, (15, 0.0), (15, STEP / 2))
    np.random.default_rng(9).random(100)

    first, second = find_changes(logs), find_changes(logs)

    assert [(change.run, change.p) for change in first] == [
        (change.run, change.p) for change in second
    ]
    assert len(first) == 1


def test_a_larger_level_or_unit_changes_nothing():
    logs = series(6, (15, 0.0), (15, STEP))

    assert places(find_changes(logs)) == places(find_changes([value - 9.0 for value in logs]))


def test_more_runs_than_the_test_takes_on_either_side():
    assert places(find_changes(series(7, (600, 0.0), (600, STEP)))) == [600]


def test_what_stands_out_is_drawn_in_and_all_else_stays():
    logs = np.array(series(8, (20, 0.0), (20, STEP)))
    spoilt = logs.copy()
    spoilt[7] += 1.0
    spoilt[-1] -= 1.0

    drawn = draw_in(spoilt, 0.01)

    # The medians around the two lie near their levels; that at the end is of fewer runs.
    assert drawn[7] == pytest.approx(0.03, abs=0.02)
    assert drawn[-1] == pytest.approx(STEP - 0.03, abs=0.03)
    kept = drawn == spoilt
    assert not kept[7]
    assert not kept[-1]
    # Of normal noise, about one in a hundred lies that far out.
    assert kept.sum() >= 36


def test_series_are_drawn_in_each_for_itself():
    rows = np.array([series(9, (12, 0.0)), [0.0] * 11 + [1.0], [0.0] * 6 + [1.0] * 6])

    drawn = draw_in(rows, 0.01)

    assert drawn.tolist() == [draw_in(row, 0.01).tolist() for row in rows]
    assert drawn[1].tolist() == [0.0] * 11 + [0.03]
    assert drawn[2].tolist() == rows[2].tolist()


def test_the_noise_is_that_between_steps():
    logs = np.array(series(10, (400, 0.0), (400, 1.0), (400, 0.5)))
    logs[::100] += 3.0

    assert noise_of(logs) == pytest.approx(0.01, rel=0.1)
    assert noise_of(np.zeros(10)) > 0.0
