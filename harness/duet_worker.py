"""A worker process of a duet: both arms, twice each, on the same workload, side by side.

``harness.duet`` starts it as ``python -m harness.duet_worker`` with a job on standard input; the
samples go to standard output, both as JSON.

After each call what it left to other threads or child processes is waited for, where there are any:
else it would fall on the copy that comes next.
"""

import gc
import json
import os
import random
import sys
import time
from typing import Any

from scenarios.scenario import from_dict
from scenarios.workload import Workload, create_workload

from .affinity import pin
from .arms import SchedulerOutputManager
from .background import Background, CoreShare
from .child import take_over_stdout
from .loading import create, load_apart
from .missing import refuse_uncaught
from .sources import ArmSource
from .turns import balanced_orders


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
    alive: list[set[str]] = [set() for _ in sources]
    arms = _create_arms(sources, imports, background, alive)
    iterations = job["warmups"] + job["most"]
    workload = create_workload(from_dict(job["scenario"]), iterations, job["seed"], job["provider"])
    if not job["gc"]:
        gc.collect()
        gc.freeze()
        gc.disable()

    found = _measure(job, arms, workload, background, alive, rng)
    json.dump({**found, "imports": imports}, result)
    result.flush()
    # Freeing a million ints one by one would take longer than a short measurement did.
    os._exit(0)


def _measure(
    job: dict[str, Any],
    arms: list[SchedulerOutputManager],
    workload: Workload,
    background: Background,
    alive: list[set[str]],
    rng: random.Random,
) -> dict[str, Any]:
    """Return what is told of this process but for the order of imports.

    ``seconds`` of each copy and iteration; ``background``, CPU seconds that others spent for each
    of these calls, None where that is nothing; ``alive``, the threads and child processes that
    each copy left behind; ``is_restless``, whether one of them never rests; ``orders`` of the
    copies; ``cpu_share``.
    """
    iterations = job["warmups"] + job["most"]
    builds = [arm.build_scheduler_output for arm in arms]
    turns: list[list[int]] = []
    seconds: list[list[float]] = [[] for _ in builds]
    beside: list[list[float]] = [[] for _ in builds]
    orders: list[list[int]] = []
    clock = time.perf_counter
    share, began = CoreShare(background), clock()
    for iteration in range(iterations):
        if iteration == job["warmups"]:
            background.look()
            # The first call of an arm takes in all tokens, and may take as long as all others.
            turns, began = [], clock()
        if not turns:
            # Only whole turns are measured, since only they are balanced.
            if len(seconds[0]) >= job["least"] and clock() - began > job["seconds"]:
                break
            turns = balanced_orders(len(builds), rng)
        workload.advance()
        batch, requests, manager = workload.batch, workload.async_requests, workload.manager
        order = turns.pop()
        for index in order:
            build = builds[index]
            background.begin()
            start = clock()
            output = build(batch, requests, manager)
            end = clock()
            left = background.end(end - start)
            del output
            if iteration >= job["warmups"]:
                seconds[index].append(end - start)
                beside[index].append(left)
            if background.is_there:
                alive[index] |= background.newcomers()
        if iteration >= job["warmups"]:
            background.watch()
            orders.append(order)
    return {
        "seconds": seconds,
        "background": beside if any(map(any, beside)) else None,
        "alive": [sorted(names) for names in alive],
        "is_restless": background.is_restless,
        "cpu_share": share.value(),
        "orders": orders,
    }


def mirrored_order(arms: int, rng: random.Random) -> list[int]:
    """Return an order of two copies of so many arms whose second half mirrors the first.

    First copies are ``0 ... arms - 1``, second ones follow. If each place is worth the same more
    than the one before it, that falls on all arms alike. Which arm lies outermost is random, and
    which of its copies comes first.
    """
    order = rng.sample(range(arms), arms)
    first = {arm: arm + arms * rng.randrange(2) for arm in order}
    second = {arm: (copy + arms) % (2 * arms) for arm, copy in first.items()}
    return [*(first[arm] for arm in order), *(second[arm] for arm in reversed(order))]


def _create_arms(
    sources: list[ArmSource],
    order: list[int],
    background: Background,
    alive: list[set[str]],
) -> list[SchedulerOutputManager]:
    """Return an instance of each source, loaded as modules of their own in this order.

    What each starts is noted in ``alive``.
    """
    arms = {}
    for index in order:
        module = load_apart(sources[index], f"_stepbench_duet_{index}")
        arms[index] = create(module, sources[index], attention_dp=False)
        alive[index] |= background.newcomers()
    return [arms[index] for index in range(len(sources))]


if __name__ == "__main__":
    main()
