"""Whether a machine had two speeds while it measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Of the slow rounds to the fast ones: what two clear states differ by at least.
_LEAST_FACTOR = 1.15
# Of all rounds: fewer than that are disturbances, and no state.
_LEAST_SHARE = 0.1
# Of all rounds, in the middle third between the two states: in one that is spread evenly there are
# 17 %, in one with a normal distribution 21 %.
_MOST_BETWEEN = 0.05


@dataclass(frozen=True)
class States:
    """The two speeds of a machine.

    Attributes:
        slow: share of the rounds that were slow.
        factor: how many times as long as the fast ones these took.
    """

    slow: float
    factor: float


def two_states(logs: Sequence[float]) -> States | None:
    """Return the two states of a machine; None where there are not clearly two.

    Args:
        logs: of each round the logarithm of its time over that of a typical round of its kind.
    """
    values = np.sort(np.asarray(logs))
    count = len(values)
    places = np.arange(1, count)
    if not len(places):
        return None
    # Where the sums of squares within both parts are smallest.
    sums = np.cumsum(values)
    below, above = sums[places - 1], sums[-1] - sums[places - 1]
    between = below**2 / places + above**2 / (count - places)
    place = int(places[np.argmax(between)])
    fast, slow = values[:place], values[place:]
    low, distance = float(fast.mean()), float(slow.mean() - fast.mean())
    third = (values > low + distance / 3) & (values < low + distance * 2 / 3)
    is_clear = distance >= math.log(_LEAST_FACTOR) and third.mean() <= _MOST_BETWEEN
    if not is_clear or min(len(fast), len(slow)) < max(2, _LEAST_SHARE * count):
        return None
    return States(len(slow) / count, math.exp(distance))
