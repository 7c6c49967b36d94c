"""The isolated measurement: each arm of each cell in worker processes of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyperf

from scenarios.scenario import SteadyDecode

from .plan import Job, Plan

# A generous upper bound on what a token costs an iteration, to tell a hanging worker from a slow
# one: measured arms need 10 to 30 ns.
_SECONDS_PER_TOKEN = 1e-6
_LEAST_TIMEOUT = 60.0


class WorkerError(Exception):
    """A worker died, hung or returned nonsense; the message names its cell and why."""


@dataclass(frozen=True)
class Event:
    """What ``measure`` reports before and after each job.

    Attributes:
        job: the job.
        benchmark: its result; None before the job.
        error: why it has none; None before the job and if it succeeded.
    """

    job: Job
    benchmark: pyperf.Benchmark | None = None
    error: WorkerError | None = None


def measure(
    plan: Plan,
    done: Collection[Job],
    report: Callable[[Event], None],
    timeout: float | None = None,
) -> list[WorkerError]:
    """Run the jobs of ``plan`` that are not done.

    A failure ends neither the measurement nor what was finished: the arm of that cell is left out
    from there on, and the others go on.

    Args:
        plan: what to measure.
        done: jobs to leave out.
        report: called before and after each job.
        timeout: seconds that one worker may take; None derives a generous one from its cell.

    Returns:
        The failures, in order.
    """
    failures: list[WorkerError] = []
    failed: set[str] = set()
    for job in plan.jobs():
        if job in done or job.benchmark in failed:
            continue
        report(Event(job))
        try:
            benchmark = run_worker(plan, job, timeout or default_timeout(plan, job))
        except WorkerError as error:
            failures.append(error)
            failed.add(job.benchmark)
            report(Event(job, error=error))
        else:
            report(Event(job, benchmark=benchmark))
    return failures


def default_timeout(plan: Plan, job: Job) -> float:
    """Return the seconds after which a worker counts as hanging."""
    tokens = 0
    if isinstance(job.scenario, SteadyDecode):
        tokens = job.scenario.requests * job.scenario.tokens
    return _LEAST_TIMEOUT + plan.protocol.iterations * (1.0 + tokens * _SECONDS_PER_TOKEN)


def run_worker(plan: Plan, job: Job, timeout: float) -> pyperf.Benchmark:
    """Measure one job in a fresh process.

    Args:
        plan: the plan that the job is part of.
        job: what to measure.
        timeout: seconds after which the worker counts as hanging and is killed.

    Returns:
        A pyperf benchmark with one run.

    Raises:
        WorkerError: the worker died, hung or returned nonsense.
    """
    # A session of its own: Ctrl-C reaches this process alone, which then stops the worker.
    with subprocess.Popen(
        worker_command(plan, job),
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed(plan.seed, job.process))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise WorkerError(f"{job}: the worker hung: no result after {timeout:g} s") from None
        finally:
            # With all that it started, which the session holds together.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise WorkerError(f"{job}: the worker {_death(process.returncode, stderr)}")
    try:
        return next(iter(pyperf.BenchmarkSuite.loads(stdout)))
    except Exception:  # pyperf checks little: any text can fail anyhow.
        raise WorkerError(f"{job}: the worker returned no result") from None


def worker_command(plan: Plan, job: Job) -> list[str]:
    """Return the command line of a worker process."""
    command = [
        sys.executable,
        "-P",  # The working folder must not shadow our packages, or be shadowed by them.
        "-m",
        "harness.worker",
        "--worker",
        "--loops=1",
        f"--warmups={plan.protocol.warmups}",
        f"--values={plan.protocol.values}",
        f"--plan={plan.to_json()}",
        f"--scenario={plan.scenarios.index(job.scenario)}",
        f"--arm={job.arm}",
        f"--process={job.process}",
    ]
    if plan.cpu is not None:
        command.append(f"--affinity={plan.cpu}")
    return command


def hash_seed(seed: int, process: int) -> int:
    """Return the PYTHONHASHSEED of a process; never 0, which would turn randomisation off."""
    return 1 + (seed * 1_000_003 + process) % 4_294_967_295


def _death(returncode: int, stderr: str) -> str:
    if returncode < 0:
        known = {number.value: number.name for number in signal.Signals}
        hint = " (out of memory?)" if -returncode == signal.SIGKILL else ""
        return f"was killed by {known.get(-returncode, f'signal {-returncode}')}{hint}"
    lines = [line for line in stderr.splitlines() if line.strip()]
    return f"failed: {lines[-1].strip()}" if lines else f"exited with {returncode}"
