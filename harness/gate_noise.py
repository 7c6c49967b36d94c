"""Which thresholds the noise of this machine can carry: each timed arm of a gate against itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scenarios.catalogue import find_scenarios
from scenarios.errors import NoBaselineError
from stubs.providers import DEFAULT_PROVIDER

from .arms import check_arms
from .duet import CellResult, Duet, processes_within
from .figure import EQUIVALENCE_CONFIDENCE
from .gate import GateConfig, check_patterns
from .noise_floor import (
    Noise,
    detectable,
    noise_of,
    processes_of_a_run,
    run_against_itself,
)
from .sources import find_source
from .statistics import degrees_of, student_t
from .verdict import POWER_QUANTILE, Rule

# What is proposed, as fractions: nobody wants to read a threshold of 1.37 %.
STEPS = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1)


@dataclass(frozen=True)
class Proposal:
    """What is proposed for an arm in a cell.

    Attributes:
        cell: name of the cell.
        arm: the arm.
        noise: of the arm against itself.
        configured: its threshold so far, as a fraction.
        needed: the smallest threshold within which an arm that did not change is found to be the
            same in 99 of 100 runs, with this noise and in the gate's time.
        proposed: the threshold that is proposed, never below the configured one; None where the
            noise is beyond all that can be.
        detectable: about the smallest slowdown that is then found in 99 of 100 runs.
    """

    cell: str
    arm: str
    noise: Noise
    configured: float
    needed: float
    proposed: float | None
    detectable: float

    @property
    def is_raised(self) -> bool:
        """Whether another threshold than the configured one is needed."""
        return self.proposed is None or self.proposed > self.configured


def check_timed(config: GateConfig) -> None:
    """Find out before anything is measured what of a configuration is not there.

    Raises:
        InputError: an arm is not known, or a glob matches nothing.
        NoBaselineError: a cell is gone.
    """
    check_arms(config.arms, floor=False)
    check_patterns(config)
    names = {scenario.name for scenario in find_scenarios(config.scenario)}
    gone = [cell for cell in config.cells if cell not in names]
    if gone:
        raise NoBaselineError(f"not in scenario {config.scenario}: {', '.join(gone)}")


def run_arms_against_themselves(
    config: GateConfig, cpus: tuple[int, ...], progress: Callable[[str], None]
) -> Iterator[tuple[str, list[CellResult]]]:
    """Yield each timed arm in each timed cell against itself, for as long as the gate times it.

    Args:
        config: the gate's configuration.
        cpus: the cores to pin to, with a process on each at once; none for no pinning.
        progress: called with what is measured.
    """
    cells = {scenario.name: scenario for scenario in find_scenarios(config.scenario)}
    for name in config.cells:
        for arm in config.arms:
            progress(f"{arm} against itself in {name}")
            source = find_source(arm)
            duet = Duet(
                source,
                source,
                (cells[name],),
                config.threshold_of(name, arm),
                config.seconds,
                cpus=cpus,
                provider=DEFAULT_PROVIDER,
                comparisons=comparisons_of(config),
            )
            yield arm, list(run_against_itself(duet))


def comparisons_of(config: GateConfig) -> int:
    """Return how many comparisons the gate makes where all arms have changed."""
    return len(config.cells) * len(config.arms)


def propose(config: GateConfig, arm: str, results: Sequence[CellResult]) -> Proposal | None:
    """Return what is proposed for an arm in a cell; None where too little was measured.

    Args:
        config: the gate's configuration.
        arm: the arm.
        results: its duets against itself in the cell.

    Equal arms are found to be the same if their mean and its interval of 99 % lie within the
    threshold: see ``harness.figure``. With s the noise of the effect, n processes in the gate's
    time, t Student's quantile of a trimmed mean and k that of how far its error is overestimated,
    that is so in 99 of 100 runs, at the least, within exp((t k + 2.326) s / sqrt(n)) - 1.
    """
    noise = noise_of(results)
    if noise is None:
        return None
    cell = results[0].scenario.name
    configured = config.threshold_of(cell, arm)
    alone = processes_within(config.seconds, noise.seconds)
    degrees = degrees_of(alone)
    sure = student_t(degrees, EQUIVALENCE_CONFIDENCE) * _overestimate(degrees) + POWER_QUANTILE
    needed = math.expm1(sure * noise.effect / math.sqrt(alone))
    least = max(needed, configured)
    proposed = next((step for step in (configured, *STEPS) if step >= least), None)
    rule = Rule(proposed or needed, comparisons_of(config))
    count = processes_of_a_run(config.seconds, noise.seconds)
    return Proposal(cell, arm, noise, configured, needed, proposed, detectable(noise, count, rule))


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


def toml_lines(shares: Mapping[str, float]) -> str:
    """Return thresholds as a line of TOML."""
    inside = ", ".join(f'"{glob}" = {share:g}' for glob, share in shares.items())
    return f"thresholds = {{ {inside} }}"
