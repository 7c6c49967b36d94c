"""What both ways to run a duet share: the iterations, and how a copy's calls are timed."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.system.background import Background
from harness.system.turns import balanced_orders
from subjects.base import Stage


@dataclass
class Calls:
    """The calls of one copy of an arm.

    After each what it left to other threads or child processes is waited for, where there are any:
    else it would fall on the copy that comes next.

    Attributes:
        background: who waits for others.
        seconds: what each call that counts took.
        beside: CPU seconds that others spent for each of these.
        alive: the threads and child processes that the copy left behind.
    """

    background: Background
    seconds: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)

    def time(self, call: Callable[[], object], *, counts: bool) -> None:
        """Time one call. A warm-up does not count."""
        background, clock = self.background, time.perf_counter
        background.begin()
        start = clock()
        output = call()
        end = clock()
        left = background.end(end - start)
        del output
        if counts:
            self.seconds.append(end - start)
            self.beside.append(left)
        if background.is_there:
            self.alive |= background.newcomers()


def timed(stage: Stage, copy: int, calls: Calls, *, counts: bool) -> None:
    """Time the call of a copy in this step."""
    call = stage.ready(copy)
    try:
        calls.time(call, counts=counts)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        stage.tell(copy, error)
        raise


def loaded(stage: Stage, copy: int, background: Background) -> Calls:
    """Load a copy on a stage, and return its calls."""
    stage.load(copy)
    return Calls(background, alive=background.newcomers())


def build(stage: Stage, *, gc_on: bool) -> None:
    """Build what is on a stage. From here on the collector rests, unless it was asked for."""
    stage.build()
    if not gc_on:
        gc.collect()
        gc.freeze()
        gc.disable()


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
