"""The isolated measurement: each arm of each cell in worker processes of its own.

The processes of a cell, one of each arm, are alive at the same time on the same core and take turns
at rounds (``harness.system.turns``). So an arm has the core and its caches to itself within a
round, and whatever state the machine is in falls on all arms alike.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from types import MappingProxyType

import pyperf

from harness.arms.sources import ArmSource
from harness.system.turns import run_in_turns, turn_orders
from harness.system.worker_process import Child, hash_seed, module_command
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import WorkerError

from .plan import Job, Plan
from .schedule import Schedule

# A generous upper bound on what a token costs an iteration, to tell a hanging worker from a slow
# one: measured arms need 10 to 30 ns.
_SECONDS_PER_TOKEN = 1e-6
_LEAST_TIMEOUT = 60.0

# What a run notes: the place of its process in each round, from 0.
PLACES = "stepbench_places"


@dataclass(frozen=True)
class Event:
    """What ``measure`` reports before and after the processes of a cell that run at once.

    Attributes:
        jobs: the processes.
        results: what each gave; empty before they run.
        errors: why others gave nothing.
    """

    jobs: Sequence[Job]
    results: Mapping[Job, pyperf.Benchmark] = field(default_factory=dict)
    errors: Mapping[Job, WorkerError] = field(default_factory=dict)


def measure(
    plan: Plan,
    schedule: Schedule,
    report: Callable[[Event], None],
    timeout: float | None = None,
    sources: Mapping[str, ArmSource] = MappingProxyType({}),
) -> list[WorkerError]:
    """Run the processes that a schedule asks for.

    A failure ends neither the measurement nor what was finished: the arm of that cell is left out
    from there on, and the others go on.

    Args:
        plan: what to measure.
        schedule: what of it is left.
        report: called before and after the processes that run at once.
        timeout: seconds that a worker may take to be set up, and for a turn; None derives a
            generous number from its cell.
        sources: the arms that are named by where their source is.

    Returns:
        The failures, in order.
    """
    failures: list[WorkerError] = []
    while jobs := schedule.next_group():
        report(Event(jobs))
        began = time.monotonic()
        outcomes = run_jobs(plan, jobs, timeout or default_timeout(plan, jobs[0]), sources)
        schedule.note_time(jobs[0].scenario, time.monotonic() - began)
        event = Event(
            jobs,
            {job: one for job, one in outcomes.items() if isinstance(one, pyperf.Benchmark)},
            {job: one for job, one in outcomes.items() if isinstance(one, WorkerError)},
        )
        for job, benchmark in event.results.items():
            schedule.add(job, benchmark.get_values())
        for job, error in event.errors.items():
            schedule.leave_out(job)
            failures.append(error)
        report(event)
    return failures


def default_timeout(plan: Plan, job: Job) -> float:
    """Return the seconds after which a worker counts as hanging."""
    tokens = 0
    if isinstance(job.scenario, SteadyDecode):
        tokens = job.scenario.requests * job.scenario.tokens
    return _LEAST_TIMEOUT + plan.protocol.iterations * (1.0 + tokens * _SECONDS_PER_TOKEN)


def run_jobs(
    plan: Plan,
    jobs: Sequence[Job],
    timeout: float,
    sources: Mapping[str, ArmSource] = MappingProxyType({}),
) -> dict[Job, pyperf.Benchmark | WorkerError]:
    """Measure processes of one cell in turns, each of them a fresh one.

    Args:
        plan: the plan that they are part of.
        jobs: one process of each arm, all of the same cell and number.
        timeout: seconds that a worker may take to be set up, and for a turn.
        sources: the arms that are named by where their source is.

    Returns:
        Of each a pyperf benchmark with one run, or why there is none: the worker died, hung or
        returned nonsense.

    Raises:
        NotRunnableError: an arm uses what is not here.
    """
    protocol, first = plan.protocol, jobs[0]
    rounds = protocol.rounds
    # Balanced over all processes of a cell, so that a process goes on where the last one ended.
    orders = turn_orders(len(jobs), f"turns {plan.seed} {first.scenario.name}")
    places = list(islice(orders, first.process * rounds, (first.process + 1) * rounds))
    warmup = [range(len(jobs))] if protocol.warmups else []
    children = [_child(plan, job, sources.get(job.arm)) for job in jobs]
    texts = run_in_turns(children, [*warmup, *places], timeout)
    return {
        job: text if isinstance(text, WorkerError) else _result(job, text, index, places)
        for index, (job, text) in enumerate(zip(jobs, texts, strict=True))
    }


def _child(plan: Plan, job: Job, source: ArmSource | None) -> Child:
    text = json.dumps(
        {
            "plan": replace(plan, scenarios=(job.scenario,), command="").to_json(),
            "arm": job.arm,
            "process": job.process,
            "source": None if source is None else asdict(source),
        }
    )
    variables = {} if source is None else source.variables
    return Child(f"{job}", worker_command(plan), hash_seed(plan.seed, job.process), text, variables)


def _result(
    job: Job, text: str, index: int, places: Sequence[Sequence[int]]
) -> pyperf.Benchmark | WorkerError:
    try:
        (benchmark,) = pyperf.BenchmarkSuite.loads(text)
        own = ",".join(f"{order.index(index)}" for order in places)
        benchmark.update_metadata({PLACES: own})
    except Exception:  # pyperf checks little: any text can fail anyhow.
        return WorkerError(f"{job}: the worker returned no result")
    return benchmark


def worker_command(plan: Plan) -> list[str]:
    """Return the command line of a worker process."""
    return [
        *module_command("harness.speedup.worker"),
        "--worker",
        "--loops=1",
        f"--warmups={plan.protocol.warmups}",
        f"--values={plan.protocol.values}",
    ]
