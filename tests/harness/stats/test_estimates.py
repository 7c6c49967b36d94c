import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.estimates import (
    Estimate,
    Mean,
    crossover,
    degrees_of,
    estimate,
    geometric_mean,
    proportion,
    student_t,
    trimmed_mean,
)

# 0.975 quantiles to three decimals, from printed tables of the t distribution.
QUANTILES = {
    **{1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306},
    **{9: 2.262, 10: 2.228, 15: 2.131, 20: 2.086, 25: 2.060, 29: 2.045, 30: 2.042},
    **{31: 2.040, 35: 2.030, 40: 2.021, 50: 2.009, 60: 2.000, 80: 1.990, 100: 1.984, 120: 1.980},
}


@pytest.mark.parametrize(("degrees", "quantile"), QUANTILES.items())
def test_student_t_is_the_table_s_value(degrees: int, quantile: float):
    assert round(student_t(degrees), 3) == quantile


def test_student_t_falls_towards_the_normal_quantile():
    values = [student_t(degrees) for degrees in range(1, 500)]
    assert all(after < before for before, after in pairwise(values))
    assert student_t(10**9) == pytest.approx(1.959964, abs=1e-6)


# The same for other confidences, two-sided.
OTHERS = {
    (1, 0.99): 63.657,
    (5, 0.999): 6.869,
    (7, 0.99): 3.499,
    (9, 0.998): 4.297,
    (20, 0.9): 1.725,
}


@pytest.mark.parametrize(("case", "quantile"), OTHERS.items())
def test_student_t_at_other_confidences(case: tuple[int, float], quantile: float):
    assert round(student_t(*case), 3) == quantile


def test_the_two_ways_to_student_t_meet():
    for confidence in (0.9, 0.95, 0.999):
        assert student_t(200, confidence) == pytest.approx(student_t(201, confidence), rel=1e-4)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 95.0])
def test_student_t_needs_a_confidence(confidence: float):
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_t(5, confidence)


@pytest.mark.parametrize("degrees", [0, -3])
def test_student_t_needs_a_degree_of_freedom(degrees: int):
    with pytest.raises(ValueError, match=f"must be positive, not {degrees}$"):
        student_t(degrees)


def test_one_process_says_nothing_about_another():
    assert estimate(3.0, [math.log(3.0)]) == Estimate(3.0, 0.0, math.inf)


def test_two_processes():
    # 1 and 4: mean log 2, standard error log 2, so the interval is 2 times 2 to the +-12.7062.
    found = estimate(2.0, [0.0, math.log(4)])
    assert found.value == 2.0
    assert found.low == pytest.approx(2**-11.7062, rel=1e-4)
    assert found.high == pytest.approx(2**13.7062, rel=1e-4)


def test_three_processes():
    # 1, 2 and 4: mean and standard deviation are log 2; 4.30265 / sqrt(3) = 2.48414.
    found = estimate(2.0, [0.0, math.log(2), math.log(4)])
    assert found.low == pytest.approx(2**-1.48414, rel=1e-5)
    assert found.high == pytest.approx(2**3.48414, rel=1e-5)


def test_the_order_of_processes_does_not_matter():
    logs = [0.3, -0.1, 0.25, 0.0]
    forth, back = estimate(1.1, logs), estimate(1.1, logs[::-1])
    assert (forth.low, forth.high) == pytest.approx((back.low, back.high))


def test_equal_processes_leave_no_doubt():
    found = estimate(5.0, [math.log(5.0)] * 4)
    assert (found.low, found.high) == pytest.approx((5.0, 5.0))


def test_the_interval_is_that_of_the_processes_whatever_the_value():
    # A median of rounds may lie outside: the interval must not be stretched to hide it.
    assert estimate(10.0, [0.0, 0.0, 0.0]) == Estimate(10.0, 1.0, 1.0)


def test_the_geometric_mean_of_hand_made_ratios():
    found = geometric_mean([math.log(2), math.log(4), math.log(8)])
    assert found.value == pytest.approx(4)
    assert found.high / found.value == pytest.approx(found.value / found.low)


@given(st.lists(st.floats(-20, 7), min_size=1, max_size=10))
def test_the_geometric_mean_always_lies_in_its_interval(logs: list[float]):
    found = geometric_mean(logs)
    assert 0 <= found.low <= found.value * (1 + 1e-12)
    assert found.value <= found.high * (1 + 1e-12)


@pytest.mark.parametrize("processes", [3, 4, 5, 6])
def test_the_interval_holds_the_truth_as_often_as_it_says(processes: int):
    # Process medians vary by about 14 % on a shared machine; the true figure here is 2 ms.
    rng = np.random.default_rng(processes)
    trials = 2000
    logs = rng.normal(math.log(0.002), 0.14, size=(trials, processes))
    intervals = [estimate(math.exp(np.mean(row)), row.tolist()) for row in logs]
    held = sum(found.low <= 0.002 <= found.high for found in intervals)
    # 95 %, give or take four standard deviations: neither too narrow nor too wide.
    assert 0.93 <= held / trials <= 0.97


@pytest.mark.parametrize(
    ("sizes", "ratios", "expected"),
    [
        # Halfway between 1 and 4 on a log axis is 2.
        ([1, 4], [0.5, 2.0], 2.0),
        ([1, 4], [2.0, 0.5], 2.0),
        # A third of the way: log 0.5 to log 4, so 0 lies at 1/3 of log 1 to log 8.
        ([1, 8], [0.5, 4.0], 2.0),
        ([16, 64, 256, 1024], [0.25, 0.5, 2.0, 9.0], 128.0),
        # Exactly on a point.
        ([1, 3, 9], [0.5, 1.0, 2.0], 3.0),
        ([1, 3, 9], [2.0, 1.0, 0.5], 3.0),
        ([1, 3], [0.5, 1.0], 3.0),
        # The last of several.
        ([1, 4, 16, 64], [0.5, 2.0, 0.5, 2.0], 32.0),
        ([1, 4, 16], [2.0, 0.5, 2.0], 8.0),
    ],
)
def test_crossover(sizes: list[float], ratios: list[float], expected: float):
    assert crossover(sizes, ratios) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sizes", "ratios"),
    [
        ([1, 4, 16], [2.0, 3.0, 1.5]),
        ([1, 4, 16], [0.9, 0.5, 0.1]),
        ([1, 2], [1.0, 1.0]),
        ([8], [0.5]),
        ([], []),
    ],
)
def test_no_crossover(sizes: list[float], ratios: list[float]):
    assert crossover(sizes, ratios) is None


def test_crossover_needs_a_ratio_for_each_size():
    with pytest.raises(ValueError, match=r"zip\(\)"):
        crossover([1, 2, 3], [1.0, 2.0])


@pytest.mark.parametrize(
    ("found", "trials", "low", "high"),
    [
        # The bounds of nothing and of all are roots: 1 - 0.025 ** (1 / 40), 0.025 ** (1 / 40).
        (0, 40, 0.0, 0.08810),
        (40, 40, 0.91190, 1.0),
        # Clopper and Pearson's table of 1934 has 0.19 and 0.81 for 5 of 10.
        (5, 10, 0.18709, 0.81291),
        (99, 100, 0.94554, 0.99975),
        # 1 - 0.025 ** (1 / 5000).
        (0, 5000, 0.0, 0.00074),
        (2500, 5000, 0.48604, 0.51396),
    ],
)
def test_a_share_has_its_exact_interval(found: int, trials: int, low: float, high: float):
    share = proportion(found, trials)

    assert share.value == found / trials
    assert (share.low, share.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("found", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_is_refused(found: int, trials: int):
    with pytest.raises(ValueError, match="is no share"):
        proportion(found, trials)


def test_a_trimmed_mean_leaves_out_a_fifth_at_either_end():
    # One of six at each end; the others become 2, 2, 3, 4, 5, 5, whose squared deviations from
    # their mean of 3.5 sum up to 9.5. Divided by 4 times 3, that is the square of the error.
    values = [100.0, 3.0, 2.0, -50.0, 5.0, 4.0]

    assert trimmed_mean(values) == Mean(3.5, pytest.approx(math.sqrt(9.5 / 12)), 3)


def test_of_few_values_all_count():
    # 1, 2, 3, 6: mean 3, squared deviations 14 in all.
    assert trimmed_mean([6.0, 1.0, 2.0, 3.0]) == Mean(3.0, pytest.approx(math.sqrt(14 / 12)), 3)
    assert trimmed_mean([1.0, 1.0]) == Mean(1.0, 0.0, 1)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_value_has_no_error(values: list[float]):
    with pytest.raises(ValueError, match="no deviation"):
        trimmed_mean(values)


@pytest.mark.parametrize(
    ("count", "degrees"), [(2, 1), (4, 3), (5, 2), (6, 3), (9, 6), (10, 5), (28, 17)]
)
def test_as_many_degrees_of_freedom_as_values_are_left_less_one(count: int, degrees: int):
    assert degrees_of(count) == degrees
    assert trimmed_mean([float(value) for value in range(count)]).degrees == degrees


@given(st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=40), st.floats(1e4, 1e9))
def test_how_far_off_the_outermost_are_changes_nothing(values: list[float], far: float):
    inside = sorted(values)
    outside = [inside[0] - far, *inside[1:-1], inside[-1] + far]

    before, after = trimmed_mean(inside), trimmed_mean(outside)

    assert (after.value, after.error) == (pytest.approx(before.value), pytest.approx(before.error))
