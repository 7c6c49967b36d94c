import itertools
import time

import pytest

from harness.system.clock import Clock, measure_clock


def test_a_steady_clock():
    readings = itertools.count(100.0, 0.25)
    assert measure_clock(lambda: next(readings)) == Clock(step=0.25, cost=0.25)


def test_a_coarse_clock_stands_still_between_its_steps():
    # Ten readings between two steps of 0.5.
    readings = (number // 10 * 0.5 for number in itertools.count())
    found = measure_clock(lambda: next(readings))
    assert found.step == 0.5
    # In 999 gaps of 1,000 readings are 99 steps.
    assert found.cost == pytest.approx(99 * 0.5 / 999)


def test_an_interruption_is_no_cost_of_the_clock():
    # Something else has the core for a while in one of the stretches.
    readings = (number * 0.25 + (1000.0 if number > 1500 else 0.0) for number in itertools.count())
    assert measure_clock(lambda: next(readings)) == Clock(step=0.25, cost=0.25)


def test_a_clock_that_stands_still_has_no_step():
    assert measure_clock(lambda: 7.0) == Clock(step=0.0, cost=0.0)


def test_the_clock_here_moves():
    found = measure_clock()
    assert 0 < found.step <= 1
    assert found.cost > 0
    assert time.get_clock_info("perf_counter").monotonic
