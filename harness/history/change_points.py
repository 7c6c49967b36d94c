"""Where a series of times changed: change points, as pure functions.

Candidates come from ruptures: of all ways to cut the series into stretches of at least three runs,
the one with the least sum of squared deviations plus a penalty for each cut, found exactly by PELT
(R. Killick, P. Fearnhead and I. A. Eckley, "Optimal detection of changepoints with a linear
computational cost", JASA 107, 2012). A candidate is kept only if a permutation test agrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Runs on either side of a change point at least: a run or two that stand out are no change.
LEAST_RUNS = 3
# Random orders in a permutation test, and the p-value up to which a change point is kept.
PERMUTATIONS = 1999
LEVEL = 0.001

# Orders at a time: what fits into a core's cache is three times as fast.
_BLOCK = 100
# Of the test, runs on either side at most: more say nothing new, and take memory.
_MOST_RUNS = 200
# Above the penalty of a cut, in variances of the noise times the logarithm of the number of runs:
# that of Zhang and Siegmund's modified criterion ("A modified Bayes information criterion with
# applications to the analysis of comparative genomic hybridization data", Biometrics 63, 2007).
_PENALTY = 3.0
# How far a run may stand out from those around it, in standard deviations of the noise.
_FAR = 3.0
# No run is steadier than this, as a standard deviation of logarithms.
_LEAST_NOISE = 1e-4
_SEED = 1

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """One change point.

    Attributes:
        run: index of the first run after it.
        before, after: the logarithms of the times from the change point before it to this one, and
            from this one to the next, those that stand out drawn in.
        p: the p-value of the permutation test.
    """

    run: int
    before: Floats
    after: Floats
    p: float


def find_changes(logs: Sequence[float]) -> list[Change]:
    """Return the change points of a series, in its order.

    A candidate's p-value is the share, among 1,999 random orders of the runs between its neighbours
    and the order that they were measured in, of those in which some runs in succession stand apart
    from the rest at least as clearly as the two sides of the candidate do from each other: by the
    sum of squares between them, of the clearest in each order, since the candidate is the clearest
    as well. While the largest p-value is above 0.001, its candidate is given up, and the neighbours
    are tested anew over the longer stretch.

    So, where no time changes and any order of the runs is as likely as any other, a series has a
    false change point at most about once in a thousand times, whatever its noise is like. Runs that
    depend on those before them give more.

    Args:
        logs: the logarithm of the time of each run.
    """
    # SciPy, which it imports, takes most of a second.
    from ruptures import KernelCPD

    count = len(logs)
    if count < 2 * LEAST_RUNS:
        return []
    times = np.asarray(logs, dtype=float)
    noise = noise_of(times)
    values = draw_in(times, noise)
    penalty = _PENALTY * noise**2 * math.log(count)
    # Its linear kernel is that of changes in the mean.
    cuts = KernelCPD("linear", min_size=LEAST_RUNS).fit(values).predict(pen=penalty)
    edges = [0, *map(int, cuts)]

    @cache
    def p_value(start: int, cut: int, end: int) -> float:
        start, end = max(start, cut - _MOST_RUNS), min(end, cut + _MOST_RUNS)
        return _p_value(times[start:end], cut - start, noise)

    while len(edges) > 2:
        between = list(zip(edges, edges[1:], edges[2:], strict=False))
        found = [p_value(*stretch) for stretch in between]
        worst = int(np.argmax(found))
        if found[worst] <= LEVEL:
            return [
                Change(cut, values[start:cut], values[cut:end], p)
                for (start, cut, end), p in zip(between, found, strict=True)
            ]
        del edges[worst + 1]
    return []


def draw_in(logs: Floats, noise: float) -> Floats:
    """Return series in which no value lies far from those around it.

    Farther from the median of the five around it than three standard deviations of the noise, it is
    moved to that distance: one run on a busy machine is no change, and should not hide one either.

    Args:
        logs: ``float[..., run]``; at the ends, what lies before a run stands for what is missing
            behind it.
        noise: the standard deviation.
    """
    around = np.pad(logs, [(0, 0)] * (logs.ndim - 1) + [(2, 2)], mode="reflect")
    a, b, e, c, d = (around[..., place : place + logs.shape[-1]] for place in range(5))
    # Of two pairs, the larger of the lower ends and the smaller of the upper ends: the median of
    # all five is that of these two and the fifth.
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    medians = np.maximum(np.minimum(low, high), np.minimum(np.maximum(low, high), e))
    return np.clip(logs, medians - _FAR * noise, medians + _FAR * noise)


def noise_of(logs: Floats) -> float:
    """Return the standard deviation of a series about its mean, wherever that changes.

    From the median of the distances between neighbours, which a few steps and outliers leave alone:
    their variance is twice that of the noise, and of normal noise half lies within 0.6745 standard
    deviations.
    """
    distance = float(np.median(np.abs(np.diff(logs))))
    return max(distance / (0.6745 * math.sqrt(2)), _LEAST_NOISE)


def _p_value(logs: Floats, cut: int, noise: float) -> float:
    """Return the p-value of a cut of a stretch of runs; once it is too large, from fewer orders."""
    (clear,) = _centred(logs[np.newaxis], noise)
    # What differs by rounding is as clear.
    observed = abs(clear[:cut].sum()) * _weight(cut, len(logs)) * (1 - 1e-9)
    generator, as_clear = np.random.default_rng(_SEED), 0
    for done in range(0, PERMUTATIONS, _BLOCK):
        orders = np.tile(logs, (min(_BLOCK, PERMUTATIONS - done), 1))
        generator.permuted(orders, axis=1, out=orders)
        as_clear += int(np.count_nonzero(_clearest(_centred(orders, noise)) >= observed))
        if 1 + as_clear > LEVEL * (1 + PERMUTATIONS):
            return (1 + as_clear) / (1 + done + len(orders))
    return (1 + as_clear) / (1 + PERMUTATIONS)


def _centred(orders: Floats, noise: float) -> Floats:
    """Return what the test sees of orders of runs: those that stand out drawn in, with a sum of 0.

    In each order anew, as in the one that was measured: or their p-value would not hold.
    """
    values = draw_in(orders, noise)
    values -= values.mean(axis=1, keepdims=True)
    return values


def _clearest(rows: Floats) -> Floats:
    """Return for each row, whose sum is 0, how clearly runs in succession stand apart at most.

    That is the root of the sum of squares between them and the rest: of those before each cut, and,
    wherever they begin, of 3, 6, 12 and so on up to half of all.
    """
    count, size = rows.shape
    sums = np.zeros((count, size + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    cuts = np.arange(LEAST_RUNS, size - LEAST_RUNS + 1)
    best: Floats = (np.abs(sums[:, cuts[0] : cuts[-1] + 1]) * _weight(cuts, size)).max(axis=1)
    length = LEAST_RUNS
    while 2 * length <= size:
        parts = sums[:, length:] - sums[:, :-length]
        np.abs(parts, out=parts)
        np.maximum(best, parts.max(axis=1) * _weight(length, size), out=best)
        length *= 2
    return best


def _weight(length: Any, size: int) -> Any:  # noqa: ANN401
    """Return what makes of a sum over ``length`` of ``size`` runs a root of a sum of squares."""
    return np.sqrt(size / (length * (size - length)))
