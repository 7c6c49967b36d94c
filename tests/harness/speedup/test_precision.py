import math

import pytest

from harness.speedup.precision import log_ratio, ratio_of, reach, round_medians
from harness.stats.estimates import Estimate, student_t


def test_rounds_are_consecutive_and_each_has_its_median():
    assert round_medians([1.0, 9.0, 2.0, 5.0, 5.0, 8.0], 3) == [2.0, 5.0]


def test_a_process_says_the_median_of_the_ratios_of_its_rounds():
    # The machine was half as fast in the last two rounds: for both arms.
    above, below = [4.0, 4.4, 8.0, 8.0, 8.0], [1.0, 1.0, 2.0, 2.0, 2.0]

    assert log_ratio(above, below) == pytest.approx(math.log(4))
    assert log_ratio(below, above) == pytest.approx(-math.log(4))


def test_rounds_have_to_be_as_many():
    with pytest.raises(ValueError, match="zip"):
        log_ratio([1.0], [1.0, 2.0])


def test_an_interval_that_was_looked_at_is_computed_for_98_per_cent():
    logs = [0.0, 0.1, 0.2, 0.3]
    error = math.sqrt(sum((x - 0.15) ** 2 for x in logs) / 3 / 4)

    plain, looked = ratio_of(logs, is_looked_at=False), ratio_of(logs, is_looked_at=True)

    assert plain.value == looked.value == pytest.approx(math.exp(0.15))
    assert plain.high == pytest.approx(math.exp(0.15 + student_t(3, 0.95) * error))
    assert looked.high == pytest.approx(math.exp(0.15 + student_t(3, 0.98) * error))


def test_how_far_an_interval_reaches_is_a_share_of_the_ratio():
    assert reach(Estimate(2.0, 1.9, 2.1)) == pytest.approx(0.05)
    assert reach(ratio_of([0.0], is_looked_at=True)) == math.inf
