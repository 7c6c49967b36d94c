"""What all steps of a process cost together: the mean beside the typical step.

A median does not see an arm that is dear in every 40th step. A plain mean does, but it sees every
disturbance as well: one of ten milliseconds moves it by more than what is looked for. What tells
the two apart is the second copy of each arm: both copies of an arm do the same in the same
iteration, and what disturbs a call disturbs one of them. So two means are taken: of what both
copies agree on, which is sharp, and of every sample, which also sees what copies do at random.

To the time of a call is added the CPU time that other threads and child processes spend for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .estimates import student_t

Steps = NDArray[np.float64]

# By how much the mean of an arm's steps has to be further from the typical one than another's.
_FAR = 1.05

# What is shown of the upper tail of the steps of an arm, in per cent.
TAIL = 99


@dataclass(frozen=True)
class Reading:
    """What one process says of one figure.

    Attributes:
        effect: log ratio of the second arm to the first.
        controls: the same of the second copy of either arm to its first.
    """

    effect: float
    controls: tuple[float, ...]

    @property
    def control(self) -> float:
        """The mean of the controls."""
        return statistics.fmean(self.controls)


@dataclass(frozen=True)
class Means:
    """What one process says of all steps together.

    Attributes:
        agreed: of what both copies of an arm agree on.
        every: of every sample.
        seconds: mean cost of a step of either arm, in seconds, of every sample.
        tail: 99th percentile of the cost of a step of either arm, in seconds.
        background: CPU seconds a step, of either arm, of other threads and child processes; they
            are part of ``seconds``.
    """

    agreed: Reading
    every: Reading
    seconds: tuple[float, float]
    tail: tuple[float, float]
    background: tuple[float, float]


def means_of(
    seconds: Sequence[Sequence[float]], background: Sequence[Sequence[float]] | None = None
) -> Means:
    """Return what the steps of a process say together.

    Args:
        seconds: positive seconds of each iteration, of the first arm, the second, and the second
            copy of either.
        background: as many CPU seconds of other threads and child processes; None for none.
    """
    others = np.zeros_like(seconds) if background is None else np.array(background)
    cost: Steps = np.array(seconds) + others
    a, b, a_again, b_again = cost
    mean = cost.mean(axis=1)
    return Means(
        _agreed_reading(cost),
        Reading(
            math.log((mean[1] + mean[3]) / (mean[0] + mean[2])),
            (math.log(mean[2] / mean[0]), math.log(mean[3] / mean[1])),
        ),
        (float(mean[[0, 2]].mean()), float(mean[[1, 3]].mean())),
        (_tail(a, a_again), _tail(b, b_again)),
        (float(others[[0, 2]].mean()), float(others[[1, 3]].mean())),
    )


def _tail(*copies: Steps) -> float:
    return float(np.percentile(np.concatenate(copies), TAIL))


def _agreed_reading(cost: Steps) -> Reading:
    """Return the log ratio of means of what both copies agree on, and its control.

    Each copy is first scaled by what it typically takes, so that where it lies in memory does not
    count as a disagreement.
    """
    a, b, a_again, b_again = cost
    of_a = math.log(statistics.median(a))
    of_a_again = of_a + _typical(a_again, a)
    of_b, of_b_again = (
        (_typical(copy, a) + of_a + _typical(copy, a_again) + of_a_again) / 2
        for copy in (b, b_again)
    )
    own = np.array([of_a, of_b, of_a_again, of_b_again])
    a, b, a_again, b_again = cost / np.exp(own)[:, None]
    together = agreed((a, b), (a_again, b_again))
    return Reading(
        (of_b + of_b_again - of_a - of_a_again) / 2 + agreed((a, a_again), (b, b_again)),
        # Of either arm: what the copies of one are off by can cancel what those of the other are.
        (of_a_again - of_a + together, of_b_again - of_b + together),
    )


def _typical(above: Steps, below: Steps) -> float:
    return float(np.median(np.log(above / below)))


def agreed(below: tuple[Steps, Steps], above: tuple[Steps, Steps]) -> float:
    """Return the log ratio of the means of two pairs of copies, of what each pair agrees on.

    In an iteration in which both of a pair are beyond both of the other, each pair counts by the
    one that is nearest to the others; in all other iterations the pairs count alike, by the median
    of the four. So a call that is disturbed by itself counts for nothing.

    Args:
        below: costs of each iteration of two copies, scaled so that the typical one is 1.
        above: those of the two copies that are held against them.
    """
    low, high = np.minimum(*below), np.maximum(*below)
    least, most = np.minimum(*above), np.maximum(*above)
    alike = np.median([*below, *above], axis=0)
    is_above, is_below = least > high, most < low
    of_below = np.where(is_above, high, np.where(is_below, low, alike))
    of_above = np.where(is_above, least, np.where(is_below, most, alike))
    return math.log(float(of_above.sum() / of_below.sum()))


def is_further(own: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether an arm's mean is clearly further from its typical step than another arm's.

    That other arm is the control. By 5 %, at a confidence of 99 %; not said of a single pair.

    Args:
        own: how many times the typical step the mean is, for each process.
        other: the same of another arm, of the processes that each of these is paired with.
    """
    logs = [math.log(one / control) for one, control in zip(own, other, strict=True)]
    if len(logs) < 2:
        return False
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    return statistics.fmean(logs) - student_t(len(logs) - 1, 0.99) * error > math.log(_FAR)
