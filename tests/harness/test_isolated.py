import json
import os
import signal
import threading
from itertools import groupby
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.child import hash_seed
from harness.isolated import Event, default_timeout, measure
from harness.machine import allowed_cpus
from harness.plan import Job, Plan
from scenarios.scenario import SteadyDecode, TraceReplay

from .helpers import OTHER, TINY, child_processes, make_plan


def run(plan: Plan, done: tuple[Job, ...] = (), timeout: float | None = 60) -> list[str]:
    """Measure; return what was reported, one word before a job and one after it."""
    log = []

    def report(event: Event) -> None:
        assert event.benchmark is None or event.error is None
        end = "ok" if event.benchmark else "failed" if event.error else "start"
        log.append(f"{event.job.benchmark} {event.job.process} {end}")

    measure(plan, done, report, timeout)
    return log


@pytest.mark.usefixtures("notes", "no_child_left")
def test_a_failure_takes_that_arm_of_that_cell_out_and_no_other():
    plan = make_plan("full-copy", "crash-on-three", scenarios=[OTHER, TINY], processes=2)
    assert run(plan) == [
        *["v2-3x40/full-copy 0 start", "v2-3x40/full-copy 0 ok"],
        *["v2-3x40/crash-on-three 0 start", "v2-3x40/crash-on-three 0 failed"],
        *["v2-2x40/full-copy 0 start", "v2-2x40/full-copy 0 ok"],
        *["v2-2x40/crash-on-three 0 start", "v2-2x40/crash-on-three 0 ok"],
        # The second turn goes the other way round, and without the arm that failed.
        *["v2-3x40/full-copy 1 start", "v2-3x40/full-copy 1 ok"],
        *["v2-2x40/crash-on-three 1 start", "v2-2x40/crash-on-three 1 ok"],
        *["v2-2x40/full-copy 1 start", "v2-2x40/full-copy 1 ok"],
    ]


@pytest.mark.usefixtures("notes", "no_child_left")
def test_what_was_finished_before_a_failure_counts():
    log = run(make_plan("crash-second-time", processes=3))
    assert [line.split()[1:] for line in log if not line.endswith("start")] == [
        ["0", "ok"],
        ["1", "failed"],
    ]


@pytest.mark.usefixtures("notes", "no_child_left")
def test_failures_come_back_in_order_and_are_those_reported():
    plan = make_plan("crash", "exit", scenarios=[TINY, OTHER])
    reported = []

    failures = measure(plan, (), lambda event: reported.append(event.error), 60)

    assert [error for error in reported if error] == failures
    assert [str(failure).partition(", process 1: the worker ")[::2] for failure in failures] == [
        ("cell v2-2x40, arm crash", "failed: RuntimeError: the subject broke"),
        ("cell v2-2x40, arm exit", "exited with 3"),
        ("cell v2-3x40, arm crash", "failed: RuntimeError: the subject broke"),
        ("cell v2-3x40, arm exit", "exited with 3"),
    ]


@pytest.mark.usefixtures("no_child_left")
def test_jobs_that_are_done_are_left_out():
    plan = make_plan(processes=2)
    first, second, third, fourth = plan.jobs()
    assert measure(plan, plan.jobs(), lambda _: pytest.fail("nothing is left")) == []
    assert run(plan, done=(first, third, fourth)) == [
        f"{second.benchmark} 0 start",
        f"{second.benchmark} 0 ok",
    ]


@pytest.mark.usefixtures("no_child_left")
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_between_workers_ends_the_measurement(when: str):
    before = child_processes()
    log = []

    def report(event: Event) -> None:
        log.append(event)
        assert child_processes() == before
        if (event.benchmark is not None) == (when == "after"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(make_plan(), (), report)
    assert len(log) == {"before": 1, "after": 2}[when]


@pytest.mark.usefixtures("no_child_left")
def test_an_interrupt_during_a_worker_leaves_none_behind(notes: Path):
    over = threading.Event()

    def interrupt() -> None:
        while not over.wait(0.01):
            if (notes / "hang").exists():
                os.kill(os.getpid(), signal.SIGINT)
                return

    before = child_processes()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(make_plan("hang"), (), lambda _: None)
    finally:
        over.set()
        thread.join()
    assert child_processes() == before
    assert not psutil.pid_exists(int((notes / "hang").read_text()))


@pytest.mark.usefixtures("no_child_left")
def test_what_a_worker_sees(notes: Path):
    cpu = allowed_cpus()[-1]
    plan = make_plan("look", "look-again", seed=5, cpu=cpu, processes=2)

    assert measure(plan, (), lambda _: None) == []

    lines = [line for file in notes.glob("look-*") for line in file.read_text().splitlines()]
    seen = [json.loads(line) for line in lines]
    workers = [list(group) for _, group in groupby(seen, key=lambda one: one["pid"])]
    # Two warm-up and six timed iterations.
    assert [len(iterations) for iterations in workers] == [8] * 4
    for one in seen:
        # A session of its own, so that Ctrl-C reaches the measuring process alone.
        assert one["session"] == one["pid"]
        assert one["cpus"] == [cpu]
        assert (one["gc"], one["frozen"]) == (False, True)
        assert one["heavy"] == []
    by_seed: dict[str, list[list[str]]] = {}
    for iterations in workers:
        tokens = [one["tokens"] for one in iterations]
        by_seed.setdefault(iterations[0]["hash_seed"], []).append(tokens)
    # Both arms of a turn see the same tokens under the same hash seed; another turn, others.
    assert set(by_seed) == {str(hash_seed(5, 0)), str(hash_seed(5, 1))}
    (first, same_as_first), (second, same_as_second) = by_seed.values()
    assert first == same_as_first
    assert second == same_as_second
    assert not set(first) & set(second)


@pytest.mark.usefixtures("no_child_left")
def test_the_collector_runs_in_the_worker_if_asked(notes: Path):
    measure(make_plan("look", gc=True, processes=1), (), lambda _: None)
    (file,) = notes.glob("look-*")
    seen = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(one["gc"], one["frozen"]) for one in seen} == {(True, False)}


def test_the_default_timeout_grows_with_the_work():
    def timeout(scenario: SteadyDecode | TraceReplay, **protocol: int) -> float:
        plan = make_plan(scenarios=[scenario], **protocol)  # type: ignore[list-item,arg-type]
        return default_timeout(plan, plan.jobs()[0])

    small = timeout(SteadyDecode(requests=1, tokens=1))
    assert small >= 60
    assert timeout(SteadyDecode(requests=1, tokens=100_000)) > small
    assert timeout(SteadyDecode(requests=100_000, tokens=1)) > small
    assert timeout(SteadyDecode(requests=1, tokens=1), rounds=9) > small
    assert timeout(TraceReplay(path="/a.csv")) >= 60
    # A thousand requests of 131,072 tokens cost about 4 s an iteration here: far from hanging.
    big = SteadyDecode(requests=1000, tokens=131_072)
    assert timeout(big, warmups=10, rounds=9, samples=15) > 2 * 145 * 4


@given(st.integers(0, 2**64), st.integers(0, 10_000))
def test_a_hash_seed_is_one_that_python_takes_and_never_off(seed: int, process: int):
    assert 1 <= hash_seed(seed, process) <= 4_294_967_295


def test_hash_seeds_are_distinct():
    seeds = {hash_seed(seed, process) for seed in range(20) for process in range(1000)}
    assert len(seeds) == 20_000
    # Where the sum is a multiple of the modulus, a seed of 0 would turn randomisation off.
    assert hash_seed(0, 4_294_967_295) == 1
