"""A worker process: one arm of one cell under ``pyperf.Runner``.

``harness.isolated`` starts it as ``python -m harness.worker`` with pyperf's own worker options. The
result, a pyperf benchmark with a single run, goes to stdout as JSON.
"""

import gc
import json
import os
import sys

import pyperf

from scenarios.workload import create_workload

from .arms import ArmFactory, RegisteredArm, is_foreign
from .child import die_with_parent, take_over_stdout
from .loading import ArmOfSource, file_of
from .missing import refuse_uncaught
from .plan import Plan, benchmark_name, worker_seed
from .sampling import Sampler, shape_notes
from .sources import ArmSource


def main() -> None:
    """Measure the job that the command line describes."""
    result = take_over_stdout()
    die_with_parent()
    runner = pyperf.Runner()
    runner.argparser.add_argument("--plan", required=True)
    runner.argparser.add_argument("--arm", required=True)
    runner.argparser.add_argument("--process", type=int, required=True)
    args = runner.parse_args()
    plan = Plan.from_json(args.plan)
    (scenario,) = plan.scenarios
    if plan.cpu is not None:
        # Before the workload is built, so that its memory is this core's own.
        os.sched_setaffinity(0, {plan.cpu})
    load = os.getloadavg()[0]

    workload = create_workload(
        scenario, plan.protocol.iterations, worker_seed(plan, args.process), plan.provider
    )
    make = _factory(args.arm)
    refuse_uncaught({args.arm: file_of(make)})
    sampler = Sampler(workload, make(False))
    if not plan.gc:
        gc.collect()
        gc.freeze()
        gc.disable()

    benchmark = runner.bench_time_func(benchmark_name(scenario, args.arm), sampler)

    benchmark.update_metadata(
        {
            "stepbench_scenario": json.dumps(scenario.to_dict(), separators=(",", ":")),
            "stepbench_arm": args.arm,
            "stepbench_process": args.process,
            "stepbench_load_start": load,
            **shape_notes(sampler.shapes[plan.protocol.warmups :]),
        }
    )
    benchmark.dump(result)
    result.flush()
    # Freeing a million ints one by one would take longer than a short measurement did.
    os._exit(0)


def _factory(name: str) -> ArmFactory:
    """Return what makes the arm; its source is on standard input where its name says where."""
    if not is_foreign(name):
        return RegisteredArm(name)
    return ArmOfSource(ArmSource(**json.load(sys.stdin)))


if __name__ == "__main__":
    main()
