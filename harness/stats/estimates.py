"""Statistics as pure functions. Times are in seconds; intervals have a confidence of 95 %."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

_EXACT_DEGREES = 200


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


def student_t(degrees: int, confidence: float = 0.95) -> float:
    """Return the factor of a two-sided Student t interval: the quantile at its upper end.

    Up to 200 degrees of freedom from the distribution function, which is a finite sum for whole
    degrees (Abramowitz and Stegun, 26.7.3 and 26.7.4), by bisection; beyond, from the first terms
    of the Cornish-Fisher expansion (26.7.5).

    Raises:
        ValueError: there is no degree of freedom, or the confidence is not between 0 and 1.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom must be positive, not {degrees}")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    if degrees > _EXACT_DEGREES:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        return z + first / degrees + second / degrees**2
    low, high = 0.0, math.pi / 2  # Of the angle whose tangent is t over the root of the degrees.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


@dataclass(frozen=True)
class Mean:
    """A mean of values of which some may lie far off.

    Attributes:
        value: the mean.
        error: its standard error.
        degrees: degrees of freedom of Student's t for an interval around it.
    """

    value: float
    error: float
    degrees: int


def trimmed_mean(values: Sequence[float]) -> Mean:
    """Return the mean of the values without at most a fifth of them at either end.

    What a few of them are off by weighs little. The error is that of Yuen ("The two-sample trimmed
    t for unequal population variances", Biometrika 61, 1974): from the deviation of the values with
    those at the ends moved to the outermost that are left. Of fewer than five values all count.

    Raises:
        ValueError: there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("one value has no deviation")
    count = len(values)
    cut = _cut(count)
    left = sorted(values)[cut : count - cut]
    moved = [left[0]] * cut + left + [left[-1]] * cut
    error = statistics.stdev(moved) * math.sqrt((count - 1) / (len(left) * (len(left) - 1)))
    return Mean(statistics.fmean(left), error, degrees_of(count))


def degrees_of(count: int) -> int:
    """Return the degrees of freedom that a trimmed mean of so many values has."""
    return count - 2 * _cut(count) - 1


def _cut(count: int) -> int:
    return count // 5


def _within(angle: float, degrees: int) -> float:
    """Return the probability that |t| stays below the root of the degrees times ``tan(angle)``."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for number in range(1 + odd, degrees, 2):
        total += term
        term *= cosine**2 * number / (number + 1)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total


def is_finite(value: float) -> bool:
    """Return whether a number is a finite float; a whole number can be too large for one."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def proportion(found: int, trials: int) -> Estimate:
    """Return the share of trials that found something, with its exact interval.

    After Clopper and Pearson: the bounds are the shares at which what was seen, or more of it (or
    less), has a probability of 2.5 %. By bisection.

    Raises:
        ValueError: there is no trial, or more was found than there are.
    """
    if not 0 <= found <= trials or not trials:
        raise ValueError(f"{found} of {trials} is no share")

    def at_most(count: int, share: float) -> float:
        # In logarithms: of a thousand trials the binomial coefficients are no floats any more.
        odds, rest, all_of = math.log(share), math.log1p(-share), math.lgamma(trials + 1)
        return sum(
            math.exp(
                all_of
                - math.lgamma(k + 1)
                - math.lgamma(trials - k + 1)
                + k * odds
                + (trials - k) * rest
            )
            for k in range(count + 1)
        )

    def where(count: int, probability: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if at_most(count, middle) > probability else (low, middle)
        return low

    low = where(found - 1, 0.975) if found else 0.0
    high = where(found, 0.025) if found < trials else 1.0
    return Estimate(found / trials, low, high)


def estimate(value: float, logs: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return ``value`` with a t interval for the geometric mean over processes.

    The unit of inference is the process: within one, samples share memory layout, hash seed and
    the machine's mood, so that more of them say nothing about another process (Kalibera and
    Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). Times and their ratios are
    skewed and positive, hence the logarithm.

    Args:
        value: the figure, positive. Where it is a more robust summary than the geometric mean, it
            need not lie in the middle of the interval, or even inside.
        logs: logarithm of the same figure for each process.
        confidence: of the interval.
    """
    n = len(logs)
    if n < 2:
        return Estimate(value, 0.0, math.inf)
    middle = statistics.fmean(logs)
    half = student_t(n - 1, confidence) * statistics.stdev(logs) / math.sqrt(n)
    return Estimate(value, math.exp(middle - half), math.exp(middle + half))


def geometric_mean(logs: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the geometric mean over processes with its t interval; see ``estimate``."""
    return estimate(math.exp(statistics.fmean(logs)), logs, confidence)


def crossover(sizes: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Return the size at which a ratio passes 1, or None if it does not between two sizes.

    Straight lines between neighbouring points on log-log axes; the last crossing counts.

    Args:
        sizes: ascending, positive.
        ratios: the ratio at each size, positive.
    """
    found = None
    points = list(zip(map(math.log, sizes), map(math.log, ratios), strict=True))
    for (x0, y0), (x1, y1) in pairwise(points):
        if (y0 < 0) != (y1 < 0):
            found = math.exp(x0 - y0 * (x1 - x0) / (y1 - y0))
    return found


def log_slope(sets: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Return the slope of the logarithms of values against those of sizes.

    Least squares with an intercept for each set (the within estimator of panel data), so that what
    does not grow has a slope of exactly 0.

    Args:
        sets: of each set the sizes, positive, with their values, not negative.

    Returns:
        The slope; None where no set has two different sizes or all values are 0, and infinite where
        some values of a set are 0 and others are not.
    """
    over = under = 0.0
    for points in sets:
        values = [value for _, value in points]
        if len(points) < 2 or not any(values):
            continue
        if not all(values):
            return math.inf
        # From the first point, so that what does not grow is 0 and no rounding error.
        x0, y0 = points[0]
        logs = [(math.log(x / x0), math.log(y / y0)) for x, y in points]
        mean_x = sum(x for x, _ in logs) / len(logs)
        mean_y = sum(y for _, y in logs) / len(logs)
        over += sum((x - mean_x) * (y - mean_y) for x, y in logs)
        under += sum((x - mean_x) ** 2 for x, _ in logs)
    return over / under if under else None
