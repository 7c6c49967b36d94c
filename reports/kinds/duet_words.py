"""What stands below the table of a duet: what the steps are like, and how it was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.processes import WARMUPS
from harness.stats.means import TAIL, Means
from reports.render.numbers import format_time
from reports.render.words import code, counted
from reports.speedup.steps import is_much


def steps(duet: Duet, result: CellResult) -> list[str]:
    """Say what the steps of a cell are like where the mean parts from the typical step."""
    verdict = result.verdict
    found = means(result)
    if not verdict.parts or verdict.ratio is None or verdict.mean is None or not found:
        return []
    arms = []
    for index, spec in enumerate((duet.a.spec, duet.b.spec)):
        typical = middle([each.seconds[index] for each in result.first + result.second])
        mean, tail = (
            middle([getattr(each, name)[index] for each in found]) for name in ("seconds", "tail")
        )
        arms.append(
            f"{code(spec)} takes {format_time(typical)} in a typical step, {format_time(mean)} in "
            f"the mean and {format_time(tail)} at the {TAIL}th percentile"
        )
    return [
        f"{result.scenario.name}: the mean of all steps parts from the typical step: "
        f"{verdict.mean.value:.4f} times as long instead of {verdict.ratio.value:.4f}; "
        f"{'; '.join(arms)}."
    ]


def handed_on(duet: Duet, results: Sequence[CellResult]) -> list[str]:
    """Say which arm leaves work to other threads or processes, and how much."""
    found = []
    for index, spec in enumerate((duet.a.spec, duet.b.spec)):
        names = sorted({name for result in results for name in alive(result, index)})
        left = f"alive after a call: {', '.join(names)}"
        spent, mean, cell = max(
            (
                (
                    middle([each.background[index] for each in kept]),
                    middle([each.seconds[index] for each in kept]),
                    result.scenario.name,
                )
                for result in results
                if (kept := means(result))
            ),
            default=(0.0, 1.0, ""),
        )
        if is_much(spent, mean):
            found.append(
                f"{code(spec)} leaves work to other threads or processes: {format_time(spent)} of "
                f"CPU time a step in {cell}, which counts as part of its mean"
                f"{f'; {left}' if names else ''}."
            )
        elif names:
            found.append(f"{code(spec)} leaves threads or processes behind; {left}.")
    return found


def alive(result: CellResult, arm: int) -> list[str]:
    """Return what calls of an arm left behind, of both of its copies."""
    return [name for names in result.alive[arm :: len(result.alive) // 2] for name in names]


def means(result: CellResult) -> list[Means]:
    """Return what each process of a cell says of all steps, as far as that was kept."""
    return [each.means for each in result.first + result.second if each.means is not None]


def how(duet: Duet, results: Sequence[CellResult], metadata: Mapping[str, object]) -> str:
    """Return one paragraph on how it was measured, what the words mean, and how to repeat it."""
    advice = ""
    if any(result.verdict.kind is Kind.INCONCLUSIVE for result in results):
        advice = (
            "Where it is inconclusive, a quiet machine or other cores (--cpu) help against noise, "
            "or none, so that the system may move a process away from other work; more time for a "
            "cell (--seconds) helps against an interval that is too wide. "
        )
    took = max((result.took for result in results), default=0.0)
    at_once = f", up to {len(duet.cpus)} at once on a core each" if len(duet.cpus) > 1 else ""
    world = "the same workload" if duet.subject is None else "worlds of the same seed"
    ran = f"ran side by side on {world} in each of the processes{at_once}, in random order"
    if duet.is_apart:
        ran = (
            "ran in a process of its own each, on a workload of the same seed; the four, which "
            f"count as one process here, took turns at single steps on one core{at_once}, in "
            "random order"
        )
    return (
        f"Both arms, and a second copy of each as a control, {ran}: "
        f"{counted(WARMUPS, 'warm-up iteration')}, then {_measured(results)} measured ones, the "
        f"garbage collector {'on' if duet.gc else 'off'}. A process gives the median log ratio "
        "of each copy of the one to each of the other, and their mean; ratios and intervals are "
        "over processes, of the mean without up to a fifth at either end. Mean ratio is that of "
        "the mean of all steps, as far as both copies of an arm agree on a step, with what they "
        "leave to other threads and processes. Slower or faster means: "
        f"wholly beyond {duet.threshold:.2%} and beyond the control, in two runs of fresh "
        "processes, of which the second one's figures are shown. A mean that is slower, of steps "
        "that both copies agree on or of every sample, is enough for slower. Each has to be clear "
        f"at {duet.rule.confidence:.1%}, a mean at {duet.rule.confidence_of_means:.1%}: then, "
        "although it is looked for again and again, arms that "
        f"differ by just the threshold are called different{_together(duet.rule.comparisons)} with "
        "a chance of at most about 2.5 %. No difference means: typical step and mean wholly within "
        "the threshold, at 99 % in a look. A cell ends when that is clear, and the intervals are "
        "those of that moment. Detectable is about the smallest slowdown that as many processes in "
        "each of two runs would find, if the noise stays as it was. The "
        f"longest cell took {took:.1f} s. Times are those of arms that run {_sharing(duet)}. "
        "Ratio is the time of the one named second over that of the first. "
        "Control is how far the interval of the second copies against the first reaches from 1; "
        "where the copies of either arm alone are further apart than the threshold, no verdict is "
        "given. "
        f"{advice}{metadata['where']} Seed {duet.seed}. "
        f"Repeat with {code(str(metadata['command']))}."
    )


def _sharing(duet: Duet) -> str:
    if duet.is_apart:
        return "in turn, each after the others had the caches"
    return "side by side and share their caches"


def _measured(results: Sequence[CellResult]) -> str:
    """Return how many iterations the processes measured, such as ``32 to 152``."""
    counts = {len(process[0]) for result in results for process in result.samples}
    return " to ".join(map(str, sorted({min(counts, default=0), max(counts, default=0)})))


def _together(comparisons: int) -> str:
    return f" in any of {comparisons} comparisons" if comparisons > 1 else ""


def middle(values: Sequence[float]) -> float:
    """Return the value in the middle, or of two there the larger one."""
    return sorted(values)[len(values) // 2]
