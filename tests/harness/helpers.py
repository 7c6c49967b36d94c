"""Small plans and hand-made results that several tests share."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyperf
import pytest

from harness.speedup.file import ResultsWriter
from harness.speedup.isolated import run_jobs
from harness.speedup.plan import Job, Plan, Protocol
from harness.system.worker_process import WorkerError, run_child
from scenarios.scenario import SteadyDecode

TINY = SteadyDecode(requests=2, tokens=40)
OTHER = SteadyDecode(requests=3, tokens=40)

# What names a machine in hand-made results.
MACHINE = {
    "hostname": "elsewhere",
    "cpu_model_name": "Abacus 9",
    "cpu_count": 4,
    "python_implementation": "cpython",
    "python_version": "3.11.7 (64-bit)",
}


def make_plan(
    *arms: str,
    scenarios: Sequence[SteadyDecode] = (TINY,),
    processes: int = 2,
    warmups: int = 2,
    rounds: int = 2,
    samples: int = 3,
    **others: Any,  # noqa: ANN401
) -> Plan:
    """Return a plan of a few iterations; without arms, of the two reference arms."""
    return Plan(
        scenarios=tuple(scenarios),
        arms=arms or ("full-copy", "incremental"),
        protocol=Protocol(processes, warmups, rounds, samples),
        **others,
    )


def make_benchmark(
    job: Job,
    values: Sequence[float] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    *,
    without: str = "",
    **metadata: Any,  # noqa: ANN401
) -> pyperf.Benchmark:
    """Return what a worker would return for ``job``, with these values and made-up metadata."""
    notes = {
        **MACHINE,
        "name": job.benchmark,
        "unit": "second",
        "loops": 1,
        "stepbench_arm": job.arm,
        "stepbench_process": job.process,
        "stepbench_requests_mean": 2.0,
        "stepbench_tokens_first": 43.0,
        "stepbench_tokens_last": 48.0,
        "stepbench_tokens_mean": 45.5,
        "stepbench_load_start": 0.5,
        **metadata,
    }
    notes.pop(without, None)
    warmups = [(1, 9.0), (1, 8.0)]
    return pyperf.Benchmark(
        [pyperf.Run(values, warmups=warmups, metadata=notes, collect_metadata=False)]
    )


def write_results(path: Path, plan: Plan | None = None, **benchmark: Any) -> list[Job]:  # noqa: ANN401
    """Write a results file with every job of ``plan``; return them in order."""
    plan = plan or make_plan()
    writer = ResultsWriter(path, plan, {"stepbench_version": "1.2"})
    for job in plan.jobs():
        writer.add(make_benchmark(job, **benchmark))
    return plan.jobs()


def run_job(plan: Plan, job: Job, timeout: float = 60) -> pyperf.Benchmark:
    """Measure one process alone; raise what it failed with."""
    (outcome,) = run_jobs(plan, [job], timeout).values()
    if isinstance(outcome, WorkerError):
        raise outcome
    return outcome


def child_processes() -> set[int]:
    """Return the ids of all processes below this one, zombies included."""
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


def wait_for(path: Path) -> str:
    """Return what a process writes into a file, once it is there."""
    for _ in range(1000):
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path.name} was never written")


def wait_until_gone(pid: int) -> None:
    """Fail if a process does not end soon."""
    for _ in range(1000):
        # Dead, whether or not its new parent has collected it.
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the process is still there")


def run(program: str, text: str = "", *, seed: int = 1, timeout: float = 60) -> str:
    """Run a program of Python's as a worker; return what it printed."""
    return run_child("cell x", [sys.executable, "-c", program], seed, text, timeout)


def error_of(program: str, timeout: float = 60) -> str:
    """Return how a worker fails that runs a program."""
    with pytest.raises(WorkerError) as caught:
        run(program, timeout=timeout)
    return str(caught.value)
