"""The verdict on one figure of a duet, such as the typical step, over processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.stats.estimates import Estimate, Mean, student_t, trimmed_mean
from harness.stats.means import Reading

CONFIDENCE = 0.95
# That there is no difference is looked for again and again, and not repeated: so be surer of it.
EQUIVALENCE_CONFIDENCE = 0.99


class Kind(StrEnum):
    """What can be said of an arm against another."""

    SLOWER = "slower"
    FASTER = "faster"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Figure:
    """What processes say of one figure.

    Attributes:
        kind, reason: the verdict on this figure alone.
        effect: its mean over processes.
        sure: how far the interval reaches that a difference has to be clear by.
        reach: how far the control's 95 % interval reaches from nothing.
    """

    kind: Kind
    reason: str
    effect: Mean
    sure: float
    reach: float

    @property
    def half(self) -> float:
        """How far the 95 % interval reaches to either side."""
        return student_t(self.effect.degrees, CONFIDENCE) * self.effect.error

    @property
    def ratio(self) -> Estimate:
        """The ratio of times with its 95 % interval."""
        middle, half = self.effect.value, self.half
        return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def judge_figure(readings: Sequence[Reading], share: float, confidence: float) -> Figure:
    """Return what readings, one of each process, say of one figure.

    Args:
        readings: at least two.
        share: how much slower or faster matters, as a fraction.
        confidence: how sure a difference has to be.
    """
    effect = trimmed_mean([reading.effect for reading in readings])
    control = trimmed_mean([reading.control for reading in readings])
    reach = abs(control.value) + student_t(control.degrees, CONFIDENCE) * control.error
    sure = student_t(effect.degrees, confidence) * effect.error
    threshold = math.log1p(share)
    limit = max(threshold, reach)
    middle, kind, reason = effect.value, Kind.INCONCLUSIVE, _doubt(readings, threshold)
    found = Figure(kind, reason, effect, sure, reach)
    if reason:
        return found
    if middle - sure > limit:
        return replace(found, kind=Kind.SLOWER)
    if middle + sure < -limit:
        return replace(found, kind=Kind.FASTER)
    within = student_t(effect.degrees, EQUIVALENCE_CONFIDENCE) * effect.error
    if abs(middle) + within < threshold:
        # Equivalence in all cells is claimed only if each shows it: nothing to correct for.
        return replace(found, kind=Kind.NO_DIFFERENCE)
    return replace(found, reason=_unclear(found, share, confidence))


def _unclear(figure: Figure, share: float, confidence: float) -> str:
    """Return why a figure shows neither a difference nor none."""
    threshold, effect = math.log1p(share), abs(figure.effect.value)
    if effect + figure.half < threshold:
        return (
            f"within the threshold of {share:.2%}, but not as surely as "
            f"{EQUIVALENCE_CONFIDENCE:.0%}"
        )
    if effect - figure.half <= threshold:
        return f"the interval reaches across the threshold of {share:.2%}"
    if effect - figure.sure <= threshold:
        return f"beyond the threshold of {share:.2%}, but not as surely as {confidence:.1%}"
    return (
        "the control reaches as far: two copies of the same code differ by "
        f"{math.expm1(figure.reach):.2%}"
    )


def _doubt(readings: Sequence[Reading], threshold: float) -> str:
    """Return why no verdict can be given, whatever the effect; empty if one can."""
    # Of either arm: what the copies of one are off by can cancel what those of the other are.
    controls = zip(*(reading.controls for reading in readings), strict=True)
    control = max((trimmed_mean(each).value for each in controls), key=abs)
    if abs(control) > threshold:
        return f"the control: two copies of the same code differ by {abs(math.expm1(control)):.2%}"
    drift = _drift([reading.effect for reading in readings])
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
