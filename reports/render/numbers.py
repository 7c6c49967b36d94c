"""Times and ratios as text."""

import math

from harness.stats.estimates import Estimate

from .table import State, Value


def format_time(seconds: float) -> str:
    """Return a time with three digits, in ms or, below a tenth of one, in us."""
    if seconds < 1e-4:
        return f"{_digits(seconds * 1e6)} us"
    return f"{_digits(seconds * 1e3)} ms"


def format_speedup(
    speedup: Estimate, *, typical_only: bool = False, missed: float | None = None
) -> str:
    """Return a speedup with its interval, and a word where it is none.

    Args:
        speedup: that of the typical step.
        typical_only: whether the mean step says something else.
        missed: as of ``format_ratio``.
    """
    text = format_ratio(speedup, missed)
    if is_open(speedup):
        return text
    if speedup.high < 1:
        return f"{text} slower"
    if speedup.low <= 1:
        return f"{text} {'in a typical step' if typical_only else 'no clear difference'}"
    return text


def time_value(seconds: float) -> Value:
    """Return a time as ``format_time`` writes it."""
    return Value(format_time(seconds), seconds, "s")


def speedup_value(
    speedup: Estimate, *, typical_only: bool = False, missed: float | None = None
) -> Value:
    """Return a speedup as ``format_speedup`` writes it."""
    text = format_speedup(speedup, typical_only=typical_only, missed=missed)
    state = State.NEUTRAL
    if not is_open(speedup) and speedup.low <= 1:
        state = State.BAD if speedup.high < 1 else State.OPEN
    if typical_only and state is State.OPEN:
        state = State.NEUTRAL  # The words are those of the typical step.
    return Value(text, speedup.value, state=state)


def ratio_value(ratio: Estimate, missed: float | None = None) -> Value:
    """Return a ratio as ``format_ratio`` writes it."""
    return Value(format_ratio(ratio, missed), ratio.value)


def share_value(share: float, text: str) -> Value:
    """Return a fraction in these words, in per cent."""
    return Value(text, share)


def format_share(share: float) -> str:
    """Return a fraction in per cent, with at most three digits."""
    return f"{100 * share:.3g} %"


def short_ratio(value: float) -> str:
    """Return a ratio with three digits, without its interval."""
    return _digits(value)


def format_ratio(ratio: Estimate, missed: float | None = None) -> str:
    """Return a ratio with its interval, without a judgement.

    Args:
        ratio: the ratio.
        missed: how far the interval was to reach at most, as a fraction, if it reaches further.
    """
    if is_open(ratio):
        return f"{_digits(ratio.value)}x (one process: no interval)"
    wide = "" if missed is None else f", not within ±{format_share(missed)}"
    return f"{_digits(ratio.value)}x ({_digits(ratio.low)} to {_digits(ratio.high)}{wide})"


def _digits(value: float) -> str:
    # Three digits, also where rounding carries into the next power of ten.
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}"


def is_open(interval: Estimate) -> bool:
    """Return whether an interval says nothing, since a single process was measured."""
    return math.isinf(interval.high)
