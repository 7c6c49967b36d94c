"""The verdict on a duet, as pure functions over processes.

Effects are natural logarithms of ratios of times. An interval that is not wholly on one side of a
threshold says nothing about that side: "not significant" is never "equal".

Three figures are judged: the typical step, and twice the mean of all steps
(``harness.stats.means``), of what both copies of an arm agree on and of every sample. The first is
the sharpest. The second finds an arm that is dear in every Nth step, the third one that is dear at
random.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.stats.estimates import Estimate, Mean, student_t, trimmed_mean
from harness.stats.means import Means, Reading

from .figure import CONFIDENCE, Figure, Kind, judge_figure

# A process that got less of its core than this shared it with something else.
LEAST_CPU_SHARE = 0.9
# How much more often a run errs that is looked at again and again than an interval does that is
# looked at once. ``python benchmarks/looks.py`` simulates it.
_LOOKS = 10
# Normal quantile of 0.99: how sure the smallest detectable effect is found.
POWER_QUANTILE = 2.326


@dataclass(frozen=True)
class Process:
    """What one process says.

    Attributes:
        effect: log ratio of the second arm to the first, of a typical step.
        controls: log ratio of the second copy of either arm to its first.
        cpu_share: how much of its core it had while it measured, at most about 1.
        seconds: median time of an iteration of either arm, in seconds.
        means: what it says of all steps together; None where that was not kept.
        is_restless: whether somebody whom the arms started never rests.
    """

    effect: float
    controls: tuple[float, float]
    cpu_share: float
    seconds: tuple[float, float]
    means: Means | None = None
    is_restless: bool = False

    @property
    def control(self) -> float:
        """Log ratio of second copies to first ones, at least as noisy as the effect."""
        return self.typical.control

    @property
    def typical(self) -> Reading:
        """What it says of a typical step."""
        return Reading(self.effect, self.controls)


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
        """How sure each of two runs has to be of a difference of the typical step.

        Of arms that differ by just the threshold, in all comparisons together, one may be called
        different with a chance of 2.5 %.
        """
        return self._confidence(1 / 2)

    @property
    def confidence_of_means(self) -> float:
        """How sure each of two runs has to be of a difference of either mean."""
        return self._confidence(1 / 4)

    def _confidence(self, share: float) -> float:
        """Return how sure a run has to be of a figure that has this share of its chance to err.

        The two runs of a cell share no process, and it takes both to err, by whichever figure: if
        each does so with a chance of p, over all its looks, that is comparisons * p^2.
        """
        p = math.sqrt((1 - CONFIDENCE) / 2 / self.comparisons)
        return 1 - 2 * share * p / _LOOKS


@dataclass(frozen=True)
class Verdict:
    """What is said of one cell.

    Attributes:
        kind: the verdict.
        reason: why it is inconclusive; empty otherwise.
        ratio: time of a typical step of the second arm over the first's, with its 95 % interval;
            None without enough processes.
        reach: how far the control's interval reaches from 1, as a fraction: what this run shows
            between two copies of the same code.
        detectable: about the smallest slowdown, as a fraction, that a run like this one would find,
            if the noise is what was seen.
        mean: the same ratio of the mean of all steps, of what both copies of an arm agree on.
        parts: whether the mean clearly says something else than the typical step, by more than the
            threshold.
    """

    kind: Kind
    reason: str = ""
    ratio: Estimate | None = None
    reach: float = math.nan
    detectable: float = math.nan
    mean: Estimate | None = None
    parts: bool = False

    @property
    def is_difference(self) -> bool:
        """Whether the verdict is that one arm is slower."""
        return self.kind in (Kind.SLOWER, Kind.FASTER)


def verdict_words(verdict: Verdict, threshold: float) -> str:
    """Return what a verdict says, with the threshold where it finds no difference beyond it.

    A ratio that is clearly beside 1, though within the threshold, is said: it is not nothing. That
    of the mean as well, where the typical step does not point the same way.

    Args:
        verdict: the verdict.
        threshold: from which slowdown on a difference matters, as a fraction.
    """
    if verdict.kind is not Kind.NO_DIFFERENCE:
        return verdict.kind.value
    found: dict[Kind, str] = {}
    for ratio, where in ((verdict.ratio, ""), (verdict.mean, " in the mean")):
        if ratio is not None and not ratio.low <= 1 <= ratio.high:
            side = Kind.SLOWER if ratio.low > 1 else Kind.FASTER
            found.setdefault(side, f"{abs(ratio.value - 1):.2%} {side}{where}")
    if found:
        return f"{', '.join(found.values())}, within {threshold:.2%}"
    return _no_difference(threshold)


def _no_difference(threshold: float) -> str:
    return f"{Kind.NO_DIFFERENCE} beyond {threshold:.2%}"


NOT_MEASURED = Verdict(Kind.INCONCLUSIVE, "not measured")


def judge(processes: Sequence[Process], rule: Rule) -> Verdict:
    """Return the verdict on processes that are at least two."""
    if len(processes) < 2:
        return Verdict(Kind.INCONCLUSIVE, "fewer than two processes finished")
    threshold = math.log1p(rule.threshold)
    typical = judge_figure(
        [process.typical for process in processes], rule.threshold, rule.confidence
    )
    limit = max(threshold, typical.reach)
    verdict = Verdict(
        typical.kind,
        typical.reason,
        typical.ratio,
        math.expm1(typical.reach),
        math.expm1(limit + typical.sure + POWER_QUANTILE * typical.effect.error),
    )
    means = [process.means for process in processes if process.means is not None]
    if len(means) == len(processes):
        agreed, every = (
            judge_figure(each, rule.threshold, rule.confidence_of_means)
            for each in ([each.agreed for each in means], [each.every for each in means])
        )
        beyond = [
            each.agreed.effect - own.effect for each, own in zip(means, processes, strict=True)
        ]
        parts = _is_beyond(trimmed_mean(beyond), threshold)
        kind, reason = _together(typical, agreed, every, threshold, parts=parts)
        verdict = replace(verdict, kind=kind, reason=reason, mean=agreed.ratio, parts=parts)
    busy = _busy(processes)
    return replace(verdict, kind=Kind.INCONCLUSIVE, reason=busy) if busy else verdict


def _together(
    typical: Figure, agreed: Figure, every: Figure, threshold: float, *, parts: bool
) -> tuple[Kind, str]:
    """Return the verdict on all figures, and the reason if it is inconclusive.

    A cost is a cost: an arm whose mean is slower is slower. What the typical step alone says has
    to be borne out by the mean, or at least not be denied by it.

    Args:
        typical: the figure of the typical step.
        agreed: that of the mean of what both copies of an arm agree on.
        every: that of the mean of every sample.
        threshold: the logarithm of the ratio from which on a difference matters.
        parts: whether mean and typical step clearly differ by more than that.
    """
    means = (agreed.kind, every.kind)
    if Kind.SLOWER in means:
        return Kind.SLOWER, ""
    words = _parted(typical, agreed if parts else every)
    if Kind.FASTER in means:
        denied = typical.kind is Kind.SLOWER or every.effect.value > threshold
        return (Kind.INCONCLUSIVE, words) if denied else (Kind.FASTER, "")
    if typical.kind in (Kind.SLOWER, Kind.FASTER):
        sign = 1 if typical.kind is Kind.SLOWER else -1
        denied = (
            agreed.kind is Kind.NO_DIFFERENCE
            or sign * agreed.effect.value < 0
            or sign * every.effect.value < -threshold
        )
        return (Kind.INCONCLUSIVE, words) if denied else (typical.kind, "")
    if typical.kind is not Kind.NO_DIFFERENCE:
        return Kind.INCONCLUSIVE, typical.reason
    if parts or abs(every.effect.value) > threshold:
        return Kind.INCONCLUSIVE, words
    if agreed.kind is not Kind.NO_DIFFERENCE:
        same = _no_difference(math.expm1(threshold))
        return Kind.INCONCLUSIVE, f"{same} in the typical step; of the mean, {agreed.reason}"
    return Kind.NO_DIFFERENCE, ""


def _parted(typical: Figure, mean: Figure) -> str:
    return (
        f"the typical step takes {typical.ratio.value:.4f} times as long, the mean of all steps "
        f"{mean.ratio.value:.4f} times"
    )


def _is_beyond(difference: Mean, threshold: float) -> bool:
    """Return whether the 95 % interval of a difference lies wholly beyond the threshold."""
    half = student_t(difference.degrees, CONFIDENCE) * difference.error
    return abs(difference.value) - half > threshold


def settle(first: Verdict, second: Verdict, threshold: float) -> Verdict:
    """Return what stands of a difference after its repetition in fresh processes.

    With the figures of the second run, since the first one ended when it looked clear.

    Args:
        first: the difference.
        second: the verdict on the repetition.
        threshold: from which slowdown on a difference matters, as a fraction.
    """
    if second.kind == first.kind:
        return second
    if second.kind is Kind.INCONCLUSIVE:
        reason = f"{first.kind} at first, but its repetition was not clear: {second.reason}"
    else:
        again = second.kind if second.is_difference else _no_difference(threshold)
        reason = f"{first.kind} at first, but {again} when it was repeated"
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


def _busy(processes: Sequence[Process]) -> str:
    """Return why these processes tell nothing at all; empty if they do."""
    share = statistics.median(process.cpu_share for process in processes)
    if share < LEAST_CPU_SHARE:
        return f"busy core: the measuring processes got {share:.0%} of it"
    if any(process.is_restless for process in processes):
        return (
            "a thread or child process that the arms started never rests: what it does cannot be "
            "told from what the calls do"
        )
    return ""
