"""What calls leave to other threads and processes, really run."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from harness.system.background import Background, CoreShare

pytestmark = pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ, reason="threads of pytest-xdist work as well"
)


def spin(seconds: float) -> None:
    """Use so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="helper") as made:
        yield made


def test_a_call_that_leaves_nothing_behind():
    background = Background()

    background.begin()
    spin(0.001)
    assert background.end(0.001) == 0.0
    background.look()

    assert not background.is_there
    assert (background.alive(), background.newcomers()) == ({}, set())


def test_work_that_is_handed_to_a_thread_is_waited_for(pool: ThreadPoolExecutor):
    background = Background()

    background.begin()
    done = pool.submit(spin, 0.02)
    left = background.end(1e-4)

    assert done.done()
    # No less than it used; what it costs to hand it over comes on top.
    assert 0.019 < left < 0.2
    assert background.waited > 0.01
    assert list(background.alive().values()) == ["helper_0"]
    assert background.newcomers() == {"helper_0"}
    assert background.newcomers() == set()


def test_what_a_call_waits_for_is_in_its_own_time(pool: ThreadPoolExecutor):
    background = Background()
    background.begin()
    began = time.perf_counter()
    pool.submit(spin, 0.02).result()

    # The time that it took covers it; the rest is what handing over costs.
    assert background.end(time.perf_counter() - began) < 0.005


def test_a_thread_that_has_ended_is_counted():
    background = Background()
    background.begin()
    threading.Thread(target=spin, args=(0.02,)).start()

    assert background.end(1e-4) > 0.015
    assert background.alive() == {}


def test_who_begins_late_is_noticed(pool: ThreadPoolExecutor):
    background = Background()
    background.look()
    background.watch()
    assert not background.is_there

    pool.submit(spin, 0.02).result()
    background.watch()

    assert background.is_there


def test_a_thread_that_only_waits_is_not_waited_for(pool: ThreadPoolExecutor):
    background = Background()
    for number in range(10):
        background.begin()
        if number == 0:
            pool.submit(spin, 0.001).result()
        background.end(1.0)
    background.look()

    assert not background.is_there
    assert set(background.alive().values()) == {"helper_0"}


def test_what_most_calls_hand_on_is_waited_for_further(pool: ThreadPoolExecutor):
    background = Background()
    for _ in range(3):
        background.begin()
        pool.submit(spin, 0.001)
        background.end(1e-4)
    background.look()

    assert background.is_there


def test_child_processes_are_counted_and_named():
    background = Background()
    background.begin()
    code = (
        "import time; e = time.process_time() + 0.05\nwhile time.process_time() < e: pass\ninput()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        left = background.end(1e-4)
        (name,) = background.alive().values()
        background.look()
        process.communicate(b"\n")

    assert left > 0.04
    assert name.startswith("child process python")
    assert background.is_there


def test_a_process_that_was_there_before_is_none_of_theirs():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
        background = Background()
        background.begin()
        assert background.end(1e-4) == 0.0
        background.look()
        assert (background.is_there, background.alive()) == (False, {})


def test_one_that_never_rests_is_not_waited_for_for_ever():
    stop = threading.Event()

    def restless() -> None:
        while not stop.is_set():
            pass

    background = Background()
    background.begin()
    thread = threading.Thread(target=restless, name="restless")
    thread.start()
    try:
        assert background.end(1e-4) > 0.01
        assert set(background.alive().values()) == {"restless"}
        # Nobody waits for it any more.
        assert background.is_restless
        background.restart()
        background.look()
        background.watch()
        assert not background.is_there
    finally:
        stop.set()
        thread.join()


def test_the_share_of_a_core_leaves_out_what_was_waited_for_others(
    monkeypatch: pytest.MonkeyPatch,
):
    """Two of four seconds were waited outside the calls; in one of these there was no core."""
    background = SimpleNamespace(waited=0.0, waited_cpu=0.0, waited_for_core=0.0)
    now = {"wall": 10.0, "queued": 5.0}
    monkeypatch.setattr("harness.system.background.perf_counter", lambda: now["wall"])
    monkeypatch.setattr("harness.system.background.scheduled", lambda _task: (0.0, now["queued"]))
    share = CoreShare(background)
    now |= {"wall": 14.0, "queued": 6.5}
    background.waited, background.waited_for_core = 2.0, 1.0

    assert share.value() == 0.75
