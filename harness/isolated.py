"""The isolated measurement: each arm of each cell in worker processes of its own."""

import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

import pyperf

from scenarios.errors import WorkerError
from scenarios.scenario import SteadyDecode

from .child import hash_seed, run_child
from .plan import Job, Plan
from .sources import ArmSource

# A generous upper bound on what a token costs an iteration, to tell a hanging worker from a slow
# one: measured arms need 10 to 30 ns.
_SECONDS_PER_TOKEN = 1e-6
_LEAST_TIMEOUT = 60.0


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
    sources: Mapping[str, ArmSource] = MappingProxyType({}),
) -> list[WorkerError]:
    """Run the jobs of ``plan`` that are not done.

    A failure ends neither the measurement nor what was finished: the arm of that cell is left out
    from there on, and the others go on.

    Args:
        plan: what to measure.
        done: jobs to leave out.
        report: called before and after each job.
        timeout: seconds that one worker may take; None derives a generous one from its cell.
        sources: the arms that are named by where their source is.

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
            limit = timeout or default_timeout(plan, job)
            benchmark = run_worker(plan, job, limit, sources.get(job.arm))
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


def run_worker(
    plan: Plan, job: Job, timeout: float, source: ArmSource | None = None
) -> pyperf.Benchmark:
    """Measure one job in a fresh process.

    Args:
        plan: the plan that the job is part of.
        job: what to measure.
        timeout: seconds after which the worker counts as hanging and is killed.
        source: the arm, where it is named by where its source is.

    Returns:
        A pyperf benchmark with one run.

    Raises:
        WorkerError: the worker died, hung or returned nonsense.
    """
    text = "" if source is None else json.dumps(asdict(source))
    seed = hash_seed(plan.seed, job.process)
    variables = {} if source is None else source.variables
    stdout = run_child(str(job), worker_command(plan, job), seed, text, timeout, variables)
    try:
        return next(iter(pyperf.BenchmarkSuite.loads(stdout)))
    except Exception:  # pyperf checks little: any text can fail anyhow.
        raise WorkerError(f"{job}: the worker returned no result") from None


def worker_command(plan: Plan, job: Job) -> list[str]:
    """Return the command line of a worker process."""
    return [
        sys.executable,
        "-P",  # The working folder must not shadow our packages, or be shadowed by them.
        "-m",
        "harness.worker",
        "--worker",
        "--loops=1",
        f"--warmups={plan.protocol.warmups}",
        f"--values={plan.protocol.values}",
        # With this cell alone: a large plan would not fit one argument.
        f"--plan={replace(plan, scenarios=(job.scenario,), command='').to_json()}",
        f"--arm={job.arm}",
        f"--process={job.process}",
    ]
