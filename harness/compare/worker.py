"""A worker process of a duet: both arms, twice each, on the same workload, side by side.

``harness.compare.duet`` starts it as ``python -m harness.compare.worker`` with a job on standard
input; the samples go to standard output, both as JSON.
"""

import random
from typing import Any

from harness.arms.missing import refuse_uncaught
from harness.arms.sources import ArmSource
from harness.system.background import Background, CoreShare
from harness.system.serving import serve

from .calls import created_calls, iterations, mirrored_order, prepared_workload, told


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Return the samples that a job asks for, and how they came about."""
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
    return {**told(calls), **found}


if __name__ == "__main__":
    serve(measure)
