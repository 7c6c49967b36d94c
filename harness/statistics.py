"""Statistics as pure functions. Times are in seconds; intervals have a confidence of 95 %."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# 0.975 quantile of Student's t distribution by degrees of freedom, 1 to 30: any table of it.
# fmt: off
_STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval.

    Attributes:
        value: the figure.
        low, high: bounds of the interval; infinitely far apart where one process says nothing
            about how much another would differ.
    """

    value: float
    low: float
    high: float


def student_t(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t distribution.

    Beyond the table, the first terms of the Cornish-Fisher expansion (Abramowitz and Stegun,
    26.7.5), which are exact to three decimals there.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be positive, not {degrees}")
    if degrees <= len(_STUDENT_T):
        return _STUDENT_T[degrees - 1]
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def estimate(value: float, logs: Sequence[float]) -> Estimate:
    """Return ``value`` with a t interval for the geometric mean over processes.

    The unit of inference is the process: within one, samples share memory layout, hash seed and
    the machine's mood, so that more of them say nothing about another process (Kalibera and
    Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). Times and their ratios are
    skewed and positive, hence the logarithm.

    Args:
        value: the figure, positive. Where it is a more robust summary than the geometric mean, it
            need not lie in the middle of the interval, or even inside.
        logs: logarithm of the same figure for each process.
    """
    n = len(logs)
    if n < 2:
        return Estimate(value, 0.0, math.inf)
    middle = float(np.mean(logs))
    half = student_t(n - 1) * float(np.std(logs, ddof=1)) / math.sqrt(n)
    return Estimate(value, math.exp(middle - half), math.exp(middle + half))


def geometric_mean(logs: Sequence[float]) -> Estimate:
    """Return the geometric mean over processes with its t interval; see ``estimate``."""
    return estimate(math.exp(float(np.mean(logs))), logs)


def crossover(sizes: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Return the size at which a ratio passes 1, or None if it does not between two sizes.

    Straight lines between neighbouring points on log-log axes; the last crossing counts.

    Args:
        sizes: ascending, positive.
        ratios: the ratio at each size, positive.
    """
    found = None
    points = list(zip(np.log(sizes).tolist(), np.log(ratios).tolist(), strict=True))
    for (x0, y0), (x1, y1) in pairwise(points):
        if (y0 < 0) != (y1 < 0):
            found = math.exp(x0 - y0 * (x1 - x0) / (y1 - y0))
    return found
