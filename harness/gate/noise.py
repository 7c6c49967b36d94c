"""Which thresholds the noise of this machine can carry: each timed arm of a gate against itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from harness.arms.registry import check_arms
from harness.arms.sources import find_source
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import EQUIVALENCE_CONFIDENCE
from harness.compare.noise_floor import (
    Noise,
    detectable,
    doubt,
    noise_of,
    processes_of,
    processes_of_a_run,
)
from harness.compare.processes import check_memory
from harness.compare.run import processes_within
from harness.compare.verdict import POWER_QUANTILE, Rule, judge
from harness.stats.estimates import degrees_of, student_t
from scenarios.catalogue import find_scenarios
from stepbench_core.errors import NoBaselineError
from stubs.providers import DEFAULT_PROVIDER

from .config import GateConfig, check_patterns

# What is proposed, as fractions: nobody wants to read a threshold of 1.37 %.
STEPS = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1)


# How many standard errors to either side a figure lies within, in 99 of 100 runs.
_WITHIN_QUANTILE = NormalDist().inv_cdf(0.995)


@dataclass(frozen=True)
class Proposal:
    """What is proposed for an arm in a cell.

    Attributes:
        cell: name of the cell.
        arm: the arm.
        noise: of the arm against itself, with the gate's verdict at the configured threshold.
        configured: its threshold so far, as a fraction.
        needed: the smallest threshold within which an arm that did not change is found to be the
            same in about 99 of 100 runs, with this noise and in the gate's time.
        proposed: the threshold that is proposed, never below the configured one; None where
            nothing can be.
        detectable: about the smallest slowdown that is then found in 99 of 100 runs, as a fraction.
        reason: why nothing is proposed; empty otherwise.
    """

    cell: str
    arm: str
    noise: Noise
    configured: float
    needed: float
    proposed: float | None
    detectable: float | None
    reason: str = ""

    @property
    def is_raised(self) -> bool:
        """Whether a higher threshold than the configured one is proposed."""
        return self.proposed is not None and self.proposed > self.configured


def duets_of(config: GateConfig, cpus: tuple[int, ...]) -> list[Duet]:
    """Return each timed arm against itself in each timed cell, as the gate would time it.

    Args:
        config: the gate's configuration.
        cpus: the cores to pin to, with a process on each at once; none for no pinning.

    Raises:
        InputError: an arm is not known, a glob matches nothing, or the memory is not there.
        NoBaselineError: a cell is gone.
    """
    check_arms(config.arms, floor=False, foreign=False)
    check_patterns(config)
    cells = {scenario.name: scenario for scenario in find_scenarios(config.scenario)}
    gone = [cell for cell in config.cells if cell not in cells]
    if gone:
        raise NoBaselineError(f"no such cell in scenario {config.scenario}: {', '.join(gone)}")
    check_memory([cells[name] for name in config.cells], len(cpus), 0)
    return [
        Duet(
            source,
            source,
            (cells[name],),
            config.threshold_of(name, arm),
            config.seconds,
            cpus=cpus,
            provider=DEFAULT_PROVIDER,
            comparisons=_comparisons(config),
        )
        for name in config.cells
        for arm in config.arms
        for source in [find_source(arm)]
    ]


def _comparisons(config: GateConfig) -> int:
    """Return how many comparisons the gate makes where all arms have changed."""
    return len(config.cells) * len(config.arms)


def propose(config: GateConfig, arm: str, results: Sequence[CellResult]) -> Proposal | None:
    """Return what is proposed for an arm in a cell; None where too little was measured.

    That is the smallest round threshold that is not below what is needed, nor below the configured
    one, and at which the gate's own rule finds the arm to be the same over all processes seen. So
    there is none where a core is busy, whatever the figures say.

    Args:
        config: the gate's configuration.
        arm: the arm.
        results: its duets against itself in the cell.
    """
    configured = config.threshold_of(results[0].scenario.name, arm)
    return propose_threshold(results, arm, configured, _comparisons(config), config.seconds)


def propose_threshold(
    results: Sequence[CellResult], arm: str, configured: float, comparisons: int, seconds: float
) -> Proposal | None:
    """Return what is proposed for an arm in a cell; see ``propose``.

    Args:
        results: duets of the arm against itself in the cell.
        arm: how it is called.
        configured: its threshold so far, as a fraction.
        comparisons: how many comparisons the gate makes together.
        seconds: its time budget of a cell.
    """
    cell = results[0].scenario.name
    noise = noise_of(results, Rule(configured, comparisons))
    if noise is None:
        return None
    needed = _needed(noise, processes_within(seconds, noise.seconds))
    processes = processes_of(results)
    rules = [Rule(step, comparisons) for step in (configured, *STEPS) if step >= configured]
    for rule in rules:
        if rule.threshold >= needed and not doubt(judge(processes, rule)):
            count = processes_of_a_run(seconds, noise.seconds)
            found = detectable(noise, count, rule)
            return Proposal(cell, arm, noise, configured, needed, rule.threshold, found)
    reason = doubt(judge(processes, rules[-1]))
    reason = reason or f"its noise needs a threshold of {needed:.2%}, more than is ever proposed"
    return Proposal(cell, arm, noise, configured, needed, None, None, reason)


def _needed(noise: Noise, count: int) -> float:
    """Return the threshold within which so many processes of equal arms are found to be the same.

    As a fraction, for about 99 of 100 runs. The typical step and the mean of what both copies agree
    on have to lie within the threshold with an interval of 99 %, the mean of every sample without
    one: see ``harness.compare.figure`` and ``harness.compare.verdict``. With s the larger noise of
    the former, e that of the latter, n processes, t Student's quantile of a trimmed mean, and k how
    far its error is overestimated at most, that is the larger of (t k + 2.326) s / sqrt(n) and
    2.576 e / sqrt(n), as a log ratio.
    """
    degrees, root = degrees_of(count), math.sqrt(count)
    sure = student_t(degrees, EQUIVALENCE_CONFIDENCE) * _overestimate(degrees) + POWER_QUANTILE
    sharp = sure * max(noise.effect, noise.agreed or 0.0)
    return math.expm1(max(sharp, _WITHIN_QUANTILE * (noise.every or 0.0)) / root)


def _overestimate(degrees: int) -> float:
    """Return how many times its true value a standard error is estimated as, in 1 of 100 cases.

    The root of the 99th percentile of chi-square over its degrees of freedom, after Wilson and
    Hilferty ("The distribution of chi-square", 1931).
    """
    part = 2 / (9 * degrees)
    return float((1 - part + POWER_QUANTILE * math.sqrt(part)) ** 1.5)


def thresholds(config: GateConfig, proposals: Sequence[Proposal]) -> dict[str, float]:
    """Return the ``thresholds`` of a configuration with what is proposed, by glob.

    The raised ones come first, since the first that matches counts; a cell whose arms all need the
    same stands for itself.
    """
    raised = {
        (each.cell, each.arm): each.proposed
        for each in proposals
        if each.is_raised and each.proposed is not None
    }
    found: dict[str, float] = {}
    for cell in dict.fromkeys(each.cell for each in proposals):
        own = {arm: share for (name, arm), share in raised.items() if name == cell}
        if len(own) == len(config.arms) and len(set(own.values())) == 1:
            found[f"{cell}/*"] = next(iter(own.values()))
        else:
            found |= {f"{cell}/{arm}": share for arm, share in own.items()}
    return found | {glob: share for glob, share in config.thresholds.items() if glob not in found}


def toml_line(shares: Mapping[str, float]) -> str:
    """Return thresholds as a line of TOML, which gives the very same back."""
    inside = ", ".join(
        f"{json.dumps(glob, ensure_ascii=False)} = {share!r}" for glob, share in shares.items()
    )
    return f"thresholds = {{ {inside} }}"
