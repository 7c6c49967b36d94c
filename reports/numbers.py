"""Times and ratios as text."""

import math

from harness.statistics import Estimate


def format_time(seconds: float) -> str:
    """Return a time with three digits, in ms or, below a tenth of one, in us."""
    if seconds < 1e-4:
        return f"{_digits(seconds * 1e6)} us"
    return f"{_digits(seconds * 1e3)} ms"


def format_speedup(speedup: Estimate, *, typical_only: bool = False) -> str:
    """Return a speedup with its interval, and a word where it is none.

    Args:
        speedup: that of the typical step.
        typical_only: whether the mean step says something else.
    """
    text = format_ratio(speedup)
    if is_open(speedup):
        return text
    if speedup.high < 1:
        return f"{text} slower"
    if speedup.low <= 1:
        return f"{text} {'in a typical step' if typical_only else 'no clear difference'}"
    return text


def short_ratio(value: float) -> str:
    """Return a ratio with three digits, without its interval."""
    return _digits(value)


def format_ratio(ratio: Estimate) -> str:
    """Return a ratio with its interval, without a judgement."""
    if is_open(ratio):
        return f"{_digits(ratio.value)}x (one process: no interval)"
    return f"{_digits(ratio.value)}x ({_digits(ratio.low)} to {_digits(ratio.high)})"


def _digits(value: float) -> str:
    # Three digits, also where rounding carries into the next power of ten.
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}"


def is_open(interval: Estimate) -> bool:
    """Return whether an interval says nothing, since a single process was measured."""
    return math.isinf(interval.high)
