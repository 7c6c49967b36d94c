"""What all steps of an arm cost together, of results that are made up."""

import math

import pandas as pd
import pytest

from reports.speedup.steps import (
    Steps,
    background_words,
    by_the_mean,
    dear_words,
    is_dear_now_and_then,
    speedup_of_means,
    steps_of,
)


def samples(*processes: list[float]) -> pd.DataFrame:
    rows = [(number, value) for number, own in enumerate(processes) for value in own]
    return pd.DataFrame(rows, columns=["process", "seconds"])


def steps(
    *excess: float, mean: float = 1e-3, alive: tuple[str, ...] = (), left: float = 0.0
) -> Steps:
    numbers = range(len(excess))
    return Steps(dict.fromkeys(numbers, mean), 2e-3, dict(enumerate(excess)), left, alive)


def test_mean_tail_and_excess_of_each_process():
    found = steps_of(samples([1.0] * 9 + [11.0], [2.0] * 10), {0: 0.0, 1: 0.5}, ["pool_0"])

    assert found.mean == {0: 2.0, 1: 2.5}
    assert found.excess == {0: 2.0, 1: 1.0}
    assert found.tail == pytest.approx(9.29, abs=0.01)
    assert (found.background, found.alive, found.typical_mean) == (0.25, ("pool_0",), 2.25)


@pytest.mark.parametrize(
    ("own", "other", "is_dear"),
    [
        ((1.50, 1.60, 1.55, 1.52), (1.00, 1.01, 1.00, 1.02), True),
        # One process that was disturbed says nothing, nor do all of them if they disagree.
        ((1.0, 1.0, 3.0, 1.0), (1.0, 1.0, 1.0, 1.0), False),
        ((1.3, 2.5, 1.1, 4.0), (1.0, 1.0, 1.0, 1.0), False),
        # The other arm is as dear now and then.
        ((1.50, 1.60, 1.55, 1.52), (1.50, 1.61, 1.54, 1.52), False),
        ((1.04, 1.04, 1.04, 1.04), (1.0, 1.0, 1.0, 1.0), False),
        ((1.5,), (1.0,), False),
    ],
)
def test_the_other_arm_is_the_control(
    own: tuple[float, ...], other: tuple[float, ...], is_dear: bool
):
    both = {"a": steps(*other), "b": steps(*own)}

    assert is_dear_now_and_then("b", both) == is_dear
    assert not is_dear_now_and_then("a", both)


def test_an_arm_alone_has_no_control():
    assert not is_dear_now_and_then("a", {"a": steps(1.5, 1.5, 1.5, 1.5)})


def test_the_speedup_of_means_is_of_processes_in_pairs():
    base = Steps({0: 2.0, 1: 4.0, 2: 9.0}, 0.0, {}, 0.0, ())
    other = Steps({0: 1.0, 1: 2.0}, 0.0, {}, 0.0, ())

    found = speedup_of_means(base, other)

    assert found is not None
    assert (found.value, found.low) == (pytest.approx(2.0), pytest.approx(2.0))
    assert speedup_of_means(base, Steps({5: 1.0}, 0.0, {}, 0.0, ())) is None
    assert by_the_mean(None, ()) == ""


def test_words():
    own = Steps({0: 3e-3}, 9e-3, {0: 3.0}, 0.0, ())
    speedup = speedup_of_means(Steps({0: 1e-3}, 0, {}, 0, ()), own)

    assert dear_words("v2-2x64", "b", own, 1e-3, by_the_mean(speedup, ["a"])) == (
        "Some steps of `b` in v2-2x64 are dear: 1.00 ms is typical, 3.00 ms the mean, 9.00 ms the "
        "99th percentile; by the mean it is 0.33x (one process: no interval) as fast as `a`."
    )
    assert background_words("v2-2x64", "b", steps(1.0, alive=("pool_0",), left=5e-4), "; x") == (
        "`b` leaves work to other threads or processes in v2-2x64: 0.50 ms of CPU time a step, "
        "which no time in the table holds; x with it; alive after a call: pool_0."
    )
    assert background_words("v2-2x64", "b", steps(1.0, alive=("pool_0",)), "") == (
        "`b` leaves threads or processes behind in v2-2x64; alive after a call: pool_0."
    )
    assert background_words("v2-2x64", "b", steps(1.0), "") is None
    assert math.isfinite(own.typical_mean)
