"""The verdict on a duet, as pure functions over processes.

Effects are natural logarithms of ratios of times. An interval that is not wholly on one side of a
threshold says nothing about that side: "not significant" is never "equal".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .statistics import Estimate, student_t, trimmed_mean

# A process that got less of its core than this shared it with something else.
LEAST_CPU_SHARE = 0.9
_CONFIDENCE = 0.95
# How much more often a run errs that is looked at again and again than an interval does that is
# looked at once. ``python benchmarks/looks.py`` simulates it.
_LOOKS = 10
# That there is no difference is looked for again and again, and not repeated: so be surer of it.
_EQUIVALENCE_CONFIDENCE = 0.99
# Normal quantile of 0.99: how sure the smallest detectable effect is found.
POWER_QUANTILE = 2.326


class Kind(StrEnum):
    """What can be said of an arm against another."""

    SLOWER = "slower"
    FASTER = "faster"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Process:
    """What one process says.

    Attributes:
        effect: log ratio of the second arm to the first.
        controls: log ratio of the second copy of either arm to its first.
        cpu_share: CPU time over wall time while it measured, at most about 1.
        seconds: median time of an iteration of either arm, in seconds.
    """

    effect: float
    controls: tuple[float, float]
    cpu_share: float
    seconds: tuple[float, float]

    @property
    def control(self) -> float:
        """Log ratio of second copies to first ones, at least as noisy as the effect."""
        return statistics.fmean(self.controls)


@dataclass(frozen=True)
class Rule:
    """When which verdict is given.

    Attributes:
        threshold: how much slower or faster matters, as a fraction: 0.005 is half a per cent.
        comparisons: how many comparisons are made together. Each is one more chance of a false
            alarm.
    """

    threshold: float = 0.005
    comparisons: int = 1

    @property
    def confidence(self) -> float:
        """How sure each of two runs has to be of a difference.

        Of arms that differ by just the threshold, in all comparisons together, one may be called
        different with a chance of 2.5 %. The two runs of a cell share no process, and it takes both
        to err: if each does so with a chance of p, over all its looks, that is comparisons * p^2.
        """
        p = math.sqrt((1 - _CONFIDENCE) / 2 / self.comparisons)
        return 1 - 2 * p / _LOOKS


@dataclass(frozen=True)
class Verdict:
    """What is said of one cell.

    Attributes:
        kind: the verdict.
        reason: why it is inconclusive; empty otherwise.
        ratio: time of the second arm over the first's, with its 95 % interval; None without enough
            processes.
        floor: how far the control's interval reaches from 1, as a fraction: what this run shows
            between two copies of the same code.
        detectable: about the smallest slowdown, as a fraction, that a run like this one would find,
            if the noise is what was seen.
    """

    kind: Kind
    reason: str = ""
    ratio: Estimate | None = None
    floor: float = math.nan
    detectable: float = math.nan

    @property
    def is_difference(self) -> bool:
        """Whether the verdict is that one arm is slower."""
        return self.kind in (Kind.SLOWER, Kind.FASTER)


NOT_MEASURED = Verdict(Kind.INCONCLUSIVE, "not measured")


def judge(processes: Sequence[Process], rule: Rule) -> Verdict:
    """Return the verdict on processes that are at least two."""
    if len(processes) < 2:
        return Verdict(Kind.INCONCLUSIVE, "fewer than two processes finished")
    effect = trimmed_mean([process.effect for process in processes])
    control = trimmed_mean([process.control for process in processes])
    middle, error, degrees = effect.value, effect.error, effect.degrees
    half = student_t(degrees, _CONFIDENCE) * error
    sure = student_t(degrees, rule.confidence) * error
    floor = abs(control.value) + student_t(degrees, _CONFIDENCE) * control.error
    threshold = math.log1p(rule.threshold)
    limit = max(threshold, floor)

    kind, reason = Kind.INCONCLUSIVE, _doubt(processes, threshold)
    if not reason:
        if middle - sure > limit:
            kind = Kind.SLOWER
        elif middle + sure < -limit:
            kind = Kind.FASTER
        elif abs(middle) + student_t(degrees, _EQUIVALENCE_CONFIDENCE) * error < threshold:
            # Equivalence in all cells is claimed only if each shows it: nothing to correct for.
            kind = Kind.NO_DIFFERENCE
        else:
            reason = _unclear(abs(middle), half, sure, floor, rule)
    return Verdict(
        kind,
        reason,
        Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half)),
        math.expm1(floor),
        math.expm1(limit + sure + POWER_QUANTILE * error),
    )


def _unclear(effect: float, half: float, sure: float, floor: float, rule: Rule) -> str:
    """Return why an effect is neither a difference nor none."""
    threshold = math.log1p(rule.threshold)
    if effect + half < threshold:
        return (
            f"within the threshold of {rule.threshold:.2%}, but not as surely as "
            f"{_EQUIVALENCE_CONFIDENCE:.0%}"
        )
    if effect - half <= threshold:
        return f"the interval reaches across the threshold of {rule.threshold:.2%}"
    if effect - sure <= threshold:
        return (
            f"beyond the threshold of {rule.threshold:.2%}, but not as surely as "
            f"{rule.confidence:.1%}"
        )
    return (
        f"the control reaches as far: two copies of the same code differ by {math.expm1(floor):.2%}"
    )


def settle(first: Verdict, second: Verdict) -> Verdict:
    """Return what stands of a difference after its repetition in fresh processes.

    With the figures of the second run, since the first one ended when it looked clear.
    """
    if second.kind == first.kind:
        return second
    if second.kind is Kind.INCONCLUSIVE:
        reason = f"{first.kind} at first, but its repetition was not clear: {second.reason}"
    else:
        reason = f"{first.kind} at first, but {second.kind} when it was repeated"
    return replace(second, kind=Kind.INCONCLUSIVE, reason=reason)


def overall(kinds: Iterable[Kind]) -> Kind:
    """Return the verdict on the whole: the first of these that any cell has.

    Slower, inconclusive, faster, no difference.
    """
    found = set(kinds)
    for kind in (Kind.SLOWER, Kind.INCONCLUSIVE, Kind.FASTER, Kind.NO_DIFFERENCE):
        if kind in found:
            return kind
    return Kind.INCONCLUSIVE


def _doubt(processes: Sequence[Process], threshold: float) -> str:
    """Return why no verdict can be given, whatever the effect; empty if one can."""
    share = statistics.median(process.cpu_share for process in processes)
    if share < LEAST_CPU_SHARE:
        return f"busy core: the measuring processes got {share:.0%} of it"
    # Of either arm: what the copies of one are off by can cancel what those of the other are.
    controls = zip(*(process.controls for process in processes), strict=True)
    control = max((trimmed_mean(each).value for each in controls), key=abs)
    if abs(control) > threshold:
        return f"the control: two copies of the same code differ by {abs(math.expm1(control)):.2%}"
    drift = _drift([process.effect for process in processes])
    if abs(drift) > threshold:
        return f"drift: the second half of the processes differs by {abs(math.expm1(drift)):.2%}"
    return ""


def _drift(effects: Sequence[float]) -> float:
    """Return by how much the second half of the effects is larger, or 0 if that is chance.

    Welch's interval of the difference with a confidence of 99 %.
    """
    half = len(effects) // 2
    if half < 3:
        return 0.0
    before, before_error = _mean_and_error(effects[:half])
    after, after_error = _mean_and_error(effects[half:])
    error = math.hypot(before_error, after_error)
    return after - before if abs(after - before) > student_t(half - 1, 0.99) * error else 0.0


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
