import os
import subprocess
import threading
import time

import psutil
import pytest

from harness.system import pool as processes
from harness.system.pool import aside, spread
from stepbench_core.errors import WorkerError

from ..helpers import child_processes

# Processes that a pool starts anew run none of this file's tests, but import its functions.


def where(number: int) -> tuple[int, int]:
    return number, os.getpid()


def hashes(_number: int) -> int:
    return hash("a text")


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


def hangs(number: int) -> int:
    if number == 1:
        # Not for good: a harness that does not kill it should fail its test, not hang it.
        time.sleep(60)
    return number


def keeps_a_thread(number: int) -> int:
    # Not for good: a harness that waits for it should fail its test, not hang it.
    threading.Thread(target=time.sleep, args=(60,)).start()
    return number


def prints(number: int) -> int:
    print("a word", flush=True)
    os.write(1, b"a native word\n")
    return number


def leaves_a_child(_number: int) -> int:
    return subprocess.Popen(["sleep", "60"], start_new_session=True).pid


def raises_local(_number: int) -> None:
    class OddError(Exception):
        pass

    raise OddError("odd")


def returns_local(_number: int) -> object:
    return lambda: None


def times_out(number: int) -> int:
    raise TimeoutError(f"number {number}")


def named(number: int) -> str:
    return f"number {number}"


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


def test_other_processes_hash_alike_whoever_starts_them(monkeypatch: pytest.MonkeyPatch):
    found = set()
    for seed in (None, "5"):
        if seed is None:
            monkeypatch.delenv("PYTHONHASHSEED", raising=False)
        else:
            monkeypatch.setenv("PYTHONHASHSEED", seed)
        found |= set(spread(hashes, [(1,), (2,)], 2))
        assert os.environ.get("PYTHONHASHSEED") == seed
    assert len(found) == 1


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
    before = child_processes()
    results = spread(where, [(number,) for number in range(50)], 2)
    assert next(results)[0] == 0
    results.close()  # type: ignore[attr-defined]
    assert child_processes() == before


def test_a_process_that_dies_is_an_error_and_no_result():
    with pytest.raises(WorkerError, match=r"^a process of dies was killed or died$"):
        list(spread(dies, [(1,), (2,)], 2))


@pytest.mark.parametrize("arguments", [[(4,)], [(4,), (2,)]])
def test_with_a_limit_no_call_is_made_here(arguments: list[tuple[int]]):
    done = list(spread(where, arguments, 1, limit=60))
    assert [(number,) for number, _ in done] == arguments
    assert len({pid for _, pid in done}) == 1
    assert os.getpid() not in {pid for _, pid in done}
    assert list(spread(where, [], 1, limit=60)) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_hangs_is_killed_and_named(jobs: int):
    before = child_processes()
    results = spread(hangs, [(0,), (1,), (2,)], jobs, limit=3, describe=named)
    assert next(results) == 0
    words = r"^number 1: a process of hangs hung: no result in 3 s$"
    with pytest.raises(WorkerError, match=words):
        next(results)
    assert child_processes() == before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_death_is_that_of_the_call(jobs: int):
    with pytest.raises(WorkerError, match=r"^number 1: a process of dies was killed or died$"):
        list(spread(dies, [(0,), (1,), (2,)], jobs, limit=60, describe=named))


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_call_started_ends_with_the_others(jobs: int):
    found = list(spread(leaves_a_child, [(1,), (2,)], jobs, limit=60))

    assert [psutil.pid_exists(pid) for pid in found] == [False, False]


def test_an_error_that_cannot_be_sent_is_told_in_words():
    with pytest.raises(WorkerError, match=r"^raises_local: OddError: odd$"):
        list(spread(raises_local, [(7,)], 1, limit=60))


def test_a_result_that_cannot_be_sent_is_an_error():
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        list(spread(returns_local, [(7,)], 1, limit=60))


def test_an_error_of_the_call_that_sounds_like_a_limit_is_none():
    with pytest.raises(TimeoutError, match="number 7"):
        list(spread(times_out, [(7,)], 1, limit=60))


def test_what_a_process_prints_is_not_our_result(capfd: pytest.CaptureFixture[str]):
    assert list(spread(prints, [(1,), (2,)], 2)) == [1, 2]
    assert capfd.readouterr().out == ""


def test_what_is_printed_here_is_not_our_result_either(capsys: pytest.CaptureFixture[str]):
    found = spread(prints, [(1,), (2,)], 1)

    for number in (1, 2):
        assert next(found) == number
        # Whoever asked for it prints as ever.
        print(number)
    assert capsys.readouterr().out == "1\n2\n"


def test_a_process_that_a_thread_keeps_alive_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "_SECONDS_TO_END", 0.2)

    before = child_processes()

    assert list(spread(keeps_a_thread, [(1,), (2,)], 2, limit=60)) == [1, 2]
    assert child_processes() == before


def test_calls_aside_are_made_in_one_other_process_and_in_order():
    with aside(where, (0,)) as call:
        results = call([(1,), (2,), (3,)])

    assert [number for number, _ in results] == [1, 2, 3]
    (process,) = {process for _, process in results}
    assert process != os.getpid()


def test_what_a_call_aside_raises_is_raised_here():
    with pytest.raises(LookupError, match="number 2"), aside(fails, (0,)) as call:
        call([(1,), (2,)])


def test_a_process_aside_that_dies_is_told():
    with pytest.raises(WorkerError) as caught, aside(dies, (0,)) as call:
        call([(1,)])

    assert str(caught.value) == "a process of dies was killed or died"


def test_nobody_waits_for_a_process_aside_that_is_not_needed_any_more():
    before, started = child_processes(), time.monotonic()
    with pytest.raises(LookupError), aside(hangs, (1,)):
        raise LookupError

    # It would sleep for a minute.
    assert time.monotonic() - started < 30
    assert child_processes() == before
