"""What both ways to run a duet share: the iterations, and how a copy's calls are timed."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.arms.loading import create, load_apart
from harness.arms.sources import ArmSource
from harness.system.background import Background
from harness.system.turns import balanced_orders
from scenarios.scenario import from_dict
from scenarios.workload import Workload, create_workload


@dataclass
class Calls:
    """The calls of one copy of an arm.

    After each what it left to other threads or child processes is waited for, where there are any:
    else it would fall on the copy that comes next.

    Attributes:
        build: the measured call.
        background: who waits for others.
        seconds: what each call that counts took.
        beside: CPU seconds that others spent for each of these.
        alive: the threads and child processes that the copy left behind.
    """

    build: Callable[..., object]
    background: Background
    seconds: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)

    def time(self, workload: Workload, *, counts: bool) -> None:
        """Time one call with what the workload is at. A warm-up does not count."""
        build, background, clock = self.build, self.background, time.perf_counter
        batch, requests, manager = workload.batch, workload.async_requests, workload.manager
        background.begin()
        start = clock()
        output = build(batch, requests, manager)
        end = clock()
        left = background.end(end - start)
        del output
        if counts:
            self.seconds.append(end - start)
            self.beside.append(left)
        if background.is_there:
            self.alive |= background.newcomers()


def created_calls(source: ArmSource, copy: int, background: Background) -> Calls:
    """Return the calls of an instance that is loaded as modules of its own."""
    module = load_apart(source, f"_stepbench_duet_{copy}")
    arm = create(module, source, attention_dp=False)
    return Calls(arm.build_scheduler_output, background, alive=background.newcomers())


def prepared_workload(job: dict[str, Any]) -> Workload:
    """Return the workload of a job. From here on the collector rests, unless it was asked for."""
    iterations = job["warmups"] + job["most"]
    workload = create_workload(from_dict(job["scenario"]), iterations, job["seed"], job["provider"])
    if not job["gc"]:
        gc.collect()
        gc.freeze()
        gc.disable()
    return workload


def iterations(job: dict[str, Any], rng: random.Random) -> Iterator[tuple[bool, list[int]]]:
    """Yield whether an iteration counts, and the copies in their order, until the time is over.

    Only whole turns of orders are measured, since only they are balanced.
    """
    copies, warmups = len(job["sources"]), job["warmups"]
    turns: list[list[int]] = []
    for iteration in range(-warmups, job["most"]):
        if iteration == 0:
            # The first call of an arm takes in all tokens, and may take as long as all others.
            turns, began = [], time.perf_counter()
        if not turns:
            is_over = iteration >= max(1, job["least"])
            if is_over and time.perf_counter() - began > job["seconds"]:
                return
            turns = balanced_orders(copies, rng)
        yield iteration >= 0, turns.pop()


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


def told(calls: Sequence[Calls]) -> dict[str, Any]:
    """Return what is told of the calls of each copy, for JSON.

    ``seconds`` of each copy and call; ``background``, CPU seconds that others spent for each of
    these, None where that is nothing; ``alive``, the threads and child processes that each copy
    left behind; ``is_restless``, whether one of them never rests.
    """
    beside = [each.beside for each in calls]
    return {
        "seconds": [each.seconds for each in calls],
        "background": beside if any(map(any, beside)) else None,
        "alive": [sorted(each.alive) for each in calls],
        "is_restless": any(each.background.is_restless for each in calls),
    }
