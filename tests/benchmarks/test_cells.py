"""The cells of the speedup table, timed by the ``benchmark`` fixture of pytest-benchmark.

    nox -s bench                                       # the reference cells, to results/bench.json
    nox -s bench -- -k 64x2048                         # some of them
    STEPBENCH_SCENARIO=small STEPBENCH_ARMS=all nox -s bench
    STEPBENCH_CELLS=64x2048 pytest tests/benchmarks/test_cells.py --benchmark-only
    pytest tests/benchmarks/test_cells.py --codspeed   # pytest-codspeed, with its own fixture

``stepbench report results/bench.json`` prints the table of what pytest-benchmark wrote. The tests
are skipped unless one of the two is asked for.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyperf
import pytest

from connector.data import SchedulerOutput
from harness.arms.registry import check_arms, create_arm, split_arms
from harness.speedup.file import FORMAT
from harness.speedup.plan import DEFAULT, Job, Plan, worker_seed
from harness.speedup.pytest_results import NOTES
from harness.speedup.sampling import shape_notes
from harness.system.cores import allowed_cpus
from harness.verify.runs import verify_briefly
from scenarios.selection import Source, select
from scenarios.workload import batch_shape, create_workload
from stepbench.metadata import run_metadata
from stepbench_core.errors import InputError
from stubs.providers import AUTO, load_provider

SCENARIO, CELLS, ARMS = "STEPBENCH_SCENARIO", "STEPBENCH_CELLS", "STEPBENCH_ARMS"


def chosen() -> Plan:
    """What the environment asks for: by default what ``stepbench speedup`` measures."""
    source = Source(scenario=os.environ.get(SCENARIO), cells=os.environ.get(CELLS))
    scenarios, _ = select(source, {})
    arms = split_arms(os.environ.get(ARMS, "full-copy,incremental"))
    check_arms(arms, foreign=False)
    provider = load_provider(AUTO).name
    return Plan(tuple(scenarios), arms, replace(DEFAULT, processes=1), provider=provider)


try:
    PLAN = chosen()
except InputError as error:
    raise pytest.UsageError(str(error)) from None
JOBS = {job.benchmark: job for job in PLAN.jobs()}


def asked_for(config: pytest.Config) -> bool:
    """Whether either plugin is there and was told to measure."""
    codspeed = config.getoption("--codspeed", False) or "CODSPEED_ENV" in os.environ
    return bool(codspeed or config.getoption("--benchmark-only", False))


pytestmark = [
    pytest.mark.skipif("not asked_for(config)", reason="times cells: nox -s bench"),
    # Where pytest-codspeed counts instructions or memory it takes one call, and warns of it.
    pytest.mark.filterwarnings("ignore:.* instrument ignores rounds"),
]


class Subject:
    """One arm on the workload of a cell. What a worker of ours samples, in two halves."""

    def __init__(self, job: Job, plan: Plan) -> None:
        iterations, seed = plan.protocol.iterations, worker_seed(plan, job.process)
        arm = create_arm(job.arm)
        self.shapes: list[tuple[int, int]] = []
        self.output: SchedulerOutput | None = None
        self._workload = create_workload(job.scenario, iterations, seed, plan.provider)
        self._build = arm.build_scheduler_output
        self._prepare = getattr(arm, "prepare", None)  # The floor's, which is no arm.

    def advance(self) -> None:
        """Free the last output and move the workload on, outside the timing."""
        self.output = None
        workload = self._workload
        workload.advance()
        self.shapes.append(batch_shape(workload.batch))
        if self._prepare is not None:
            self._prepare(workload.batch, workload.async_requests, workload.manager)

    def call(self) -> None:
        """Make the call that is timed."""
        workload = self._workload
        self.output = self._build(workload.batch, workload.async_requests, workload.manager)


@pytest.fixture(scope="module")
def plan(pytestconfig: pytest.Config) -> Plan:
    """What is measured, and how it can be repeated."""
    settings = [name for name in (SCENARIO, CELLS, ARMS) if name in os.environ]
    words = [f"{name}={shlex.quote(os.environ[name])}" for name in settings]
    arguments = map(str, pytestconfig.invocation_params.args)
    cpus = allowed_cpus()
    return replace(
        PLAN,
        cpu=cpus[0] if len(cpus) == 1 else None,
        gc=not pytestconfig.getoption("--benchmark-disable-gc", False),
        command=" ".join([*words, shlex.join(["pytest", *arguments])]),
    )


@pytest.fixture(scope="module")
def common(plan: Plan) -> Mapping[str, object]:
    """What all runs note. Arms that differ are not timed."""
    verification = verify_briefly(plan.arms, plan.provider)
    assert verification is None or verification.failure is None
    return {
        "stepbench_format": FORMAT,
        "stepbench_plan": plan.to_json(),
        "stepbench_verified_runs": 0 if verification is None else verification.runs,
        **run_metadata(plan.cpu),
    }


@pytest.mark.parametrize("name", JOBS)
def test_cell(
    name: str,
    benchmark: Any,  # noqa: ANN401 - of either plugin
    plan: Plan,
    common: Mapping[str, object],
):
    job, protocol = JOBS[name], plan.protocol
    subject = Subject(job, plan)
    before = machine(name)

    benchmark.pedantic(
        subject.call,
        setup=subject.advance,
        rounds=protocol.values,
        iterations=1,
        warmup_rounds=protocol.warmups,
    )

    output, requests = subject.output, subject.shapes[-1][0]
    assert output is not None
    assert len(output.new_requests) + len(output.cached_requests) == requests
    if getattr(benchmark, "stats", None) is not None:  # pytest-benchmark's, which keeps samples.
        benchmark.extra_info[NOTES] = {
            **machine(name),
            **common,
            **shape_notes(subject.shapes[protocol.warmups :]),
            "date": before["date"],
            "stepbench_load_start": before["load_avg_1min"],
            "stepbench_arm": job.arm,
            "stepbench_process": job.process,
        }


def machine(name: str) -> dict[str, Any]:
    """The machine as it is now, in pyperf's words, for the benchmark of that name."""
    metadata: dict[str, Any] = pyperf.Run([1.0], metadata={"name": name}).get_metadata()
    return metadata
