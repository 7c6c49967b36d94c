"""A worker process of a duet: both arms, twice each, on the same workload, side by side.

``harness.compare.duet`` starts it as ``python -m harness.compare.worker`` with a job on standard
input; the samples go to standard output, both as JSON.
"""

import random
from typing import Any

from harness.system.background import Background, CoreShare
from harness.system.serving import serve

from .calls import build, iterations, loaded, mirrored_order, timed, told
from .stages import create_stage, failures_told


@failures_told
def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Return the samples that a job asks for, and how they came about."""
    background = Background()
    rng = random.Random(f"order {job['seed']}")
    imports = mirrored_order(len(job["sources"]) // 2, rng)
    stage = create_stage(job)
    made = {copy: loaded(stage, copy, background) for copy in imports}
    calls = [made[copy] for copy in range(len(imports))]
    build(stage, gc_on=job["gc"])

    orders: list[list[int]] = []
    share = CoreShare(background)
    for counts, order in iterations(job, rng):
        if counts and not orders:
            background.look()
        stage.advance()
        for copy in order:
            timed(stage, copy, calls[copy], counts=counts)
        if counts:
            background.watch()
            orders.append(order)

    found = {"imports": imports, "orders": orders, "cpu_share": share.value()}
    return {**told(calls), **found}


if __name__ == "__main__":
    serve(measure)
