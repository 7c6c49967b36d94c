import json
import os
import signal
import threading
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil
import pyperf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.speedup.isolated import PLACES, Event, default_timeout, measure
from harness.speedup.plan import SETTLING, Job, Plan
from harness.speedup.schedule import Schedule
from harness.system.cores import allowed_cpus
from harness.system.worker_process import hash_seed
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import WorkerError

from ..helpers import OTHER, TINY, child_processes, make_plan


def run(plan: Plan, done: tuple[Job, ...] = (), timeout: float | None = 60) -> list[str]:
    """Measure; return what was reported, a line before the processes of a cell and one after."""
    log = []
    schedule = Schedule(plan)
    for job in done:
        schedule.add(job, [1.0] * plan.protocol.values)

    def report(event: Event) -> None:
        first = event.jobs[0]
        where = f"{first.scenario.name} {first.process}:"
        if not event.results and not event.errors:
            log.append(f"{where} {' '.join(job.arm for job in event.jobs)}")
            return
        assert not event.results.keys() & event.errors.keys()
        ends = {job.arm: "ok" for job in event.results} | {job.arm: "no" for job in event.errors}
        log.append(f"{where} {' '.join(f'{job.arm} {ends[job.arm]}' for job in event.jobs)}")

    measure(plan, schedule, report, timeout)
    return log


@pytest.mark.usefixtures("notes", "no_child_left")
def test_a_failure_takes_that_arm_of_that_cell_out_and_no_other():
    plan = make_plan("full-copy", "crash-on-three", scenarios=[OTHER, TINY], processes=2)
    assert run(plan) == [
        *["v2-3x40 0: full-copy crash-on-three", "v2-3x40 0: full-copy ok crash-on-three no"],
        *["v2-2x40 0: full-copy crash-on-three", "v2-2x40 0: full-copy ok crash-on-three ok"],
        *["v2-3x40 1: full-copy", "v2-3x40 1: full-copy ok"],
        *["v2-2x40 1: full-copy crash-on-three", "v2-2x40 1: full-copy ok crash-on-three ok"],
    ]


@pytest.mark.usefixtures("notes", "no_child_left")
def test_what_was_finished_before_a_failure_counts():
    assert run(make_plan("crash-second-time", processes=3))[1::2] == [
        "v2-2x40 0: crash-second-time ok",
        "v2-2x40 1: crash-second-time no",
    ]


@pytest.mark.usefixtures("notes", "no_child_left")
def test_failures_come_back_in_order_and_are_those_reported():
    plan = make_plan("crash", "exit", scenarios=[TINY, OTHER])
    reported: list[WorkerError] = []

    failures = measure(
        plan, Schedule(plan), lambda event: reported.extend(event.errors.values()), 60
    )

    assert reported == failures
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
    assert run(plan, done=(first, second, third, fourth)) == []
    assert run(plan, done=(first, third, fourth)) == [
        f"v2-2x40 0: {second.arm}",
        f"v2-2x40 0: {second.arm} ok",
    ]


@pytest.mark.usefixtures("notes", "no_child_left")
def test_arms_take_turns_at_rounds_and_each_run_notes_its_places(notes: Path):
    plan = make_plan("look", "look-again", processes=2, rounds=4, samples=3, warmups=2)
    found: dict[Job, pyperf.Benchmark] = {}

    assert measure(plan, Schedule(plan), lambda event: found.update(event.results)) == []

    seen = [
        json.loads(line) for file in notes.glob("look-*") for line in file.read_text().splitlines()
    ]
    for process in range(2):
        own = [one for one in seen if one["hash_seed"] == str(hash_seed(0, process))]
        turns = [len(list(group)) for _, group in groupby(sorted(own, key=when), key=who)]
        # Two warm-ups each, then rounds of three and what goes before them untimed. Where one ends
        # and the other's begins, they may touch.
        length = SETTLING + 3
        assert sum(turns) == 2 * (2 + 4 * length)
        assert turns[0] == 2
        assert {turn % length for turn in turns} <= {0, 2}
        places = [
            found[job].get_runs()[0].get_metadata()[PLACES].split(",")
            for job in plan.group(TINY, process)
        ]
        # In each round one goes first and the other second; each goes first twice.
        assert [set(pair) for pair in zip(*places, strict=True)] == [{"0", "1"}] * 4
        assert [own.count("0") for own in places] == [2, 2]


def when(seen: dict[str, Any]) -> float:
    return float(seen["time"])


def who(seen: dict[str, Any]) -> int:
    return int(seen["pid"])


@pytest.mark.usefixtures("no_child_left")
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_between_workers_ends_the_measurement(when: str):
    before = child_processes()
    log = []

    def report(event: Event) -> None:
        log.append(event)
        assert child_processes() == before
        if bool(event.results) == (when == "after"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(make_plan(), Schedule(make_plan()), report)
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
    plan = make_plan("hang", "full-copy")
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(plan, Schedule(plan), lambda _: None)
    finally:
        over.set()
        thread.join()
    assert child_processes() == before
    assert not psutil.pid_exists(int((notes / "hang").read_text()))


@pytest.mark.usefixtures("no_child_left")
def test_what_a_worker_sees(notes: Path):
    cpu = allowed_cpus()[-1]
    plan = make_plan("look", "look-again", seed=5, cpu=cpu, processes=2)

    assert measure(plan, Schedule(plan), lambda _: None) == []

    lines = [line for file in notes.glob("look-*") for line in file.read_text().splitlines()]
    seen = [json.loads(line) for line in lines]
    workers = [list(group) for _, group in groupby(seen, key=lambda one: one["pid"])]
    # Two warm-up and six timed iterations, and those at the start of the two rounds.
    assert [len(iterations) for iterations in workers] == [8 + 2 * SETTLING] * 4
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
    plan = make_plan("look", gc=True, processes=1)
    measure(plan, Schedule(plan), lambda _: None)
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
