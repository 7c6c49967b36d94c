"""A worker process of a duet: both arms, twice each, on the same workload, side by side.

``harness.compare.duet`` starts it as ``python -m harness.compare.worker`` with a job on standard
input; the samples go to standard output, both as JSON.
"""

import json
import os
import random
import sys

from harness.arms.missing import refuse_uncaught
from harness.arms.sources import ArmSource
from harness.system.affinity import pin
from harness.system.background import Background, CoreShare
from harness.system.worker_process import take_over_stdout

from .calls import created_calls, iterations, mirrored_order, prepared_workload, told


def main() -> None:
    """Measure the job that standard input describes."""
    result = take_over_stdout()
    job = json.load(sys.stdin)
    if job["cpu"] is not None:
        # Before the workload is built, so that its memory is this core's own.
        pin(job["cpu"])
    background = Background()
    rng = random.Random(f"order {job['seed']}")
    imports = mirrored_order(len(job["sources"]) // 2, rng)
    sources = [ArmSource(**source) for source in job["sources"]]
    refuse_uncaught({source.spec: source.filename for source in sources})
    made = {copy: created_calls(sources[copy], copy, background) for copy in imports}
    calls = [made[copy] for copy in range(len(sources))]
    workload = prepared_workload(job)

    orders: list[list[int]] = []
    share = CoreShare(background)
    for counts, order in iterations(job, rng):
        if counts and not orders:
            background.look()
        workload.advance()
        for copy in order:
            calls[copy].time(workload, counts=counts)
        if counts:
            background.watch()
            orders.append(order)

    found = {"imports": imports, "orders": orders, "cpu_share": share.value()}
    result.write(json.dumps({**told(calls), **found}))
    result.flush()
    # Freeing a million ints one by one would take longer than a short measurement did.
    os._exit(0)


if __name__ == "__main__":
    main()
