"""What the clock that measures is like."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

_STRETCHES = 20
_READINGS = 1_000


@dataclass(frozen=True)
class Clock:
    """What ``time.perf_counter`` is like.

    Attributes:
        step: the smallest step that was seen, in seconds.
        cost: what reading it takes, in seconds.
    """

    step: float
    cost: float


def measure_clock(read: Callable[[], float] = time.perf_counter) -> Clock:
    """Return what a clock is like, from some thousand readings in a row.

    The cost is that of the quickest stretch, in which least came between.
    """
    steps: list[float] = []
    costs = []
    for _ in range(_STRETCHES):
        readings = [read() for _ in range(_READINGS)]
        steps += [after - before for before, after in itertools.pairwise(readings)]
        costs.append((readings[-1] - readings[0]) / (len(readings) - 1))
    return Clock(min((step for step in steps if step > 0), default=0.0), min(costs))
