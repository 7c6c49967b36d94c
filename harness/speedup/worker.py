"""A worker process: one arm of one cell under ``pyperf.Runner``.

``harness.speedup.isolated`` starts it as ``python -m harness.speedup.worker`` with pyperf's own
worker options and a job on standard input. The warm-up is a turn, and so is each round
(``harness.system.turns``). The result, a pyperf benchmark with a single run, goes to stdout as
JSON.
"""

import gc
import io
import json
import os
from typing import Any

import pyperf

from harness.arms.loading import ArmOfSource, file_of
from harness.arms.missing import refuse_uncaught
from harness.arms.registry import ArmFactory, RegisteredArm
from harness.arms.sources import ArmSource
from harness.system.affinity import pin
from harness.system.background import Background
from harness.system.serving import answer
from harness.system.turns import take_job
from harness.system.worker_process import take_over_stdout
from scenarios.workload import create_workload

from .plan import Plan, benchmark_name, worker_seed
from .pyperf_psutil import shun_broken_psutil
from .sampling import Sampler, shape_notes


def main() -> None:
    """Measure the job that the command line describes."""
    result = take_over_stdout()
    text, turns = take_job()
    shun_broken_psutil()
    runner = pyperf.Runner()
    runner.parse_args()
    # It would pin to an isolated core by itself, also where no pinning was asked for.
    runner._cpu_affinity = lambda: None
    job = json.loads(text)
    arm, process, plan = job["arm"], job["process"], Plan.from_json(job["plan"])
    protocol, (scenario,) = plan.protocol, plan.scenarios
    if plan.cpu is not None:
        # Before the workload is built, so that its memory is this core's own.
        pin(plan.cpu)
    load = os.getloadavg()[0]
    background = Background()

    workload = create_workload(
        scenario, protocol.iterations, worker_seed(plan, process), plan.provider
    )
    make = _factory(arm, job["source"])
    refuse_uncaught({arm: file_of(make)})
    sampler = Sampler(
        workload,
        make(False),
        background=background,
        warmups=protocol.warmups,
        rounds=[protocol.samples] * protocol.rounds,
        wait=turns.wait,
    )
    if not plan.gc:
        gc.collect()
        gc.freeze()
        gc.disable()

    benchmark = runner.bench_time_func(benchmark_name(scenario, arm), sampler)

    benchmark.update_metadata(
        {
            "stepbench_scenario": json.dumps(scenario.to_dict(), separators=(",", ":")),
            "stepbench_arm": arm,
            "stepbench_process": process,
            "stepbench_load_start": load,
            **shape_notes(sampler.shapes[protocol.warmups :]),
            **_background_notes(background, sampler.left[protocol.warmups :]),
        }
    )
    printed = io.StringIO()
    benchmark.dump(printed)
    answer(result, printed.getvalue())


def _background_notes(background: Background, left: list[float]) -> dict[str, float | str]:
    """Return what calls left to other threads and child processes, if anything."""
    alive, spent = sorted(set(background.alive().values())), sum(left) / len(left)
    return {
        **({"stepbench_background_cpu": spent} if spent else {}),
        **({"stepbench_alive": json.dumps(alive)} if alive else {}),
    }


def _factory(name: str, source: dict[str, Any] | None) -> ArmFactory:
    return RegisteredArm(name) if source is None else ArmOfSource(ArmSource(**source))


if __name__ == "__main__":
    main()
