"""The model and the figures of a process, as pure functions."""

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.overlap.loop import Iteration
from harness.overlap.model import Sample, exposed_time, over_processes, predict, summarise
from harness.stats.estimates import Estimate

TIMES = st.floats(0, 10)


@given(TIMES, TIMES)
def test_the_model(host: float, forward: float):
    assert exposed_time(host, forward, overlap=False) == host
    assert exposed_time(host, forward, overlap=True) == max(0, host - forward)


def iteration(path: float, forward: float, **times: float) -> Iteration:
    names = ("between", "background", "other", "launch", "exposed", "step")
    known = dict.fromkeys(names, 0.0)
    return Iteration(path=path, forward=forward, **{**known, **times})


def test_what_hides_an_iteration_is_the_forward_before_it():
    iterations = [iteration(1, 5), iteration(7, 100), iteration(8, 2, launch=1), iteration(6, 0)]

    assert predict(iterations, overlap=True) == [2, 0, 4]
    assert predict(iterations, overlap=False) == [7, 9, 6]
    assert predict(iterations[:1], overlap=True) == []


ITERATIONS = [
    iteration(50, 4),
    iteration(1, 4, other=2, launch=1, between=1, exposed=1, step=5),
    iteration(2, 4, other=2, launch=1, between=0, exposed=2, step=6),
    iteration(9, 4, other=2, launch=1, between=2, exposed=10, step=16),
]


def test_a_steady_process_gives_medians():
    assert summarise(ITERATIONS, overlap=True, is_steady=True) == Sample(
        path=2,
        path_mean=4,
        background=0,
        other_host=2,
        launch=1,
        between=1,
        host=5,
        forward=4,
        exposed=2,
        hidden=4,
        step=6,
        predicted_exposed=1,
        predicted_step=5,
        engine_exposed=1,
    )


def test_a_trace_gives_means():
    found = summarise(ITERATIONS, overlap=False, is_steady=False)

    assert found == Sample(
        path=4,
        path_mean=4,
        background=0,
        other_host=2,
        launch=1,
        between=1,
        host=8,
        forward=4,
        exposed=13 / 3,
        hidden=11 / 3,
        step=9,
        predicted_exposed=8,
        predicted_step=12,
        engine_exposed=7,
    )


def test_more_exposed_than_the_host_took_hides_nothing():
    waited = [iteration(1, 1), iteration(1, 1, exposed=3)]

    assert summarise(waited, overlap=True, is_steady=True).hidden == 0


def test_over_processes():
    # The mean of 1, 2, 3 is 2, its standard error 1 / sqrt(3), and t of two degrees 4.303.
    found = over_processes([3.0, 1.0, 2.0])
    assert found.value == 2
    half = 4.3027 / math.sqrt(3)
    assert (2 - found.low, found.high - 2) == pytest.approx((half, half), rel=1e-4)
    # Nothing exposed, or a difference that is none, is a figure like any other.
    assert astuple(over_processes([0.0, 0.0])) == (0, 0, 0)
    assert over_processes([-1.0]) == Estimate(-1, -math.inf, math.inf)
