import os
import time

import pytest

from harness.processes import spread
from scenarios.errors import WorkerError

from .helpers import child_processes

# Processes that a pool starts anew run none of this file's tests, but import its functions.


def where(number: int) -> tuple[int, int]:
    return number, os.getpid()


def later_first(number: int) -> int:
    """The first call ends last."""
    time.sleep(0.3 if number == 0 else 0)
    return number


def fails(number: int) -> int:
    if number == 2:
        raise LookupError(f"number {number}")
    return number


def dies(number: int) -> int:
    if number == 1:
        os._exit(3)
    return number


def test_one_process_is_this_one():
    assert list(spread(where, [(4,), (2,)], 1)) == [(4, os.getpid()), (2, os.getpid())]


def test_so_it_is_for_a_single_call():
    assert list(spread(where, [(4,)], 8)) == [(4, os.getpid())]


def test_calls_are_spread_over_other_processes():
    done = list(spread(where, [(number,) for number in range(6)], 2))

    assert [number for number, _ in done] == list(range(6))
    pids = {pid for _, pid in done}
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


def test_the_order_is_that_of_the_arguments_and_not_that_of_the_ends():
    assert list(spread(later_first, [(0,), (1,), (2,)], 2)) == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_to_do_gives_nothing(jobs: int):
    assert list(spread(where, [], jobs)) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_comes_through_after_what_was_done_before(jobs: int):
    results = spread(fails, [(0,), (1,), (2,), (3,)], jobs)

    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(LookupError, match="number 2"):
        next(results)
    assert list(results) == []


def test_work_in_this_process_is_not_done_before_it_is_asked_for():
    results = spread(fails, [(0,), (2,)], 1)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]


def test_whoever_stops_asking_leaves_no_process_behind():
    # The one that keeps track of what processes share stays with this one.
    list(spread(where, [(1,), (2,)], 2))
    before = child_processes()
    results = spread(where, [(number,) for number in range(50)], 2)
    assert next(results)[0] == 0
    results.close()  # type: ignore[attr-defined]
    assert child_processes() == before


def test_a_process_that_dies_is_an_error_and_no_result():
    with pytest.raises(WorkerError, match=r"^a process of dies was killed or died$"):
        list(spread(dies, [(1,), (2,)], 2))
