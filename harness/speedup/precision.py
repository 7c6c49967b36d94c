"""How precise the ratio of two arms is, and whether that is enough.

Processes of a cell that take turns see the machine in the same state, round by round: so ratios are
formed, of the medians of two rounds that followed each other. What a process says is the median of
its rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from harness.stats.estimates import Estimate, geometric_mean

# Where processes are added until an interval is narrow enough, it is narrow by luck as well. An
# interval that is computed for a confidence of 98 % then holds the truth in at least 95 of 100
# cases: ``python benchmarks/stopping.py`` simulates it.
CONFIDENCE, CONFIDENCE_OF_LOOKS = 0.95, 0.98


def round_medians(values: Sequence[float], size: int) -> list[float]:
    """Return the median of each round of ``size`` values."""
    return [statistics.median(values[i : i + size]) for i in range(0, len(values), size)]


def log_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the logarithm of the ratio of two processes, of the medians of their rounds."""
    return statistics.median(
        math.log(first / second) for first, second in zip(above, below, strict=True)
    )


def ratio_of(logs: Sequence[float], *, is_looked_at: bool) -> Estimate:
    """Return the geometric mean over processes with its 95 % interval.

    Args:
        logs: what each process says, see ``log_ratio``.
        is_looked_at: whether processes were added for as long as the interval was too wide.
    """
    return geometric_mean(logs, CONFIDENCE_OF_LOOKS if is_looked_at else CONFIDENCE)


def reach(ratio: Estimate) -> float:
    """Return how far the interval of a ratio reaches from it, as a fraction of it."""
    return ratio.high / ratio.value - 1
