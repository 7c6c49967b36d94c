"""How small a slowdown can be found on this machine: an arm in duets against itself.

Runs what ``stepbench compare`` runs, on two copies of the same code, so that what is seen is noise.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.arms.sources import find_source
from harness.stats.estimates import degrees_of, student_t, trimmed_mean
from scenarios.scenario import SteadyDecode

from .duet import CellResult, Duet
from .figure import Kind
from .run import compare_cell, processes_within
from .verdict import POWER_QUANTILE, Process, Rule, Verdict, judge

ARM = "incremental"
CELL = SteadyDecode(requests=64, tokens=2_048)
SECONDS = 10.0


@dataclass(frozen=True)
class Noise:
    """How much processes of the same code differ.

    Attributes:
        processes: how many there were.
        effect: how much their log ratios of the second arm to the first differ: the standard error
            of the trimmed mean, times the root of their number.
        control: the same of the second copies to the first.
        seconds: what a process took, with its start: its share where several ran at once.
        verdict: what a duet says of all of them; on a quiet machine, no difference.
        agreed, every: the effect's noise in the mean of all steps, of what both copies of an arm
            agree on and of every sample; None where means were not kept.
    """

    processes: int
    effect: float
    control: float
    seconds: float
    verdict: Verdict
    agreed: float | None = None
    every: float | None = None

    @property
    def is_too_much(self) -> bool:
        """Whether the same code was not found to be the same."""
        return bool(doubt(self.verdict))


def doubt(verdict: Verdict) -> str:
    """Return why the same code was not found to be the same; empty if it was."""
    if verdict.kind is Kind.NO_DIFFERENCE:
        return ""
    return verdict.reason or f"the same code counts as {verdict.kind}"


def against_itself(cpus: tuple[int, ...], provider: str, seconds: float = SECONDS) -> Duet:
    """Return a duet of the arm against itself, for ``run_against_itself``.

    Args:
        cpus: the cores to pin to, with a process on each at once; none for no pinning.
        provider: where the stand-ins come from.
        seconds: how long.
    """
    source = find_source(ARM)
    return Duet(source, source, (CELL,), seconds=seconds, cpus=cpus, provider=provider)


def run_against_itself(
    duet: Duet, progress: Callable[[str], None] = lambda _what: None
) -> Iterator[CellResult]:
    """Yield one duet of an arm against itself after the other, until the time is about over.

    Args:
        duet: of a single cell.
        progress: called with what the processes are for that are started next.
    """
    (cell,) = duet.scenarios
    left = duet.seconds
    for seed in itertools.count():
        began = time.monotonic()
        result = compare_cell(replace(duet, seconds=left, seed=seed), cell, progress)
        took = time.monotonic() - began
        yield result
        left -= took
        # Another one would take as long: begin it only if more of it lies within the time.
        if result.failure is not None or left < took / 2:
            return


def noise_of(results: Sequence[CellResult], rule: Rule = Rule()) -> Noise | None:  # noqa: B008
    """Return the noise of all processes of duets; None if they are fewer than two.

    Args:
        results: the duets.
        rule: when which verdict is given on all of them together.
    """
    processes = processes_of(results)
    if len(processes) < 2:
        return None
    means = [process.means for process in processes if process.means is not None]
    is_whole = len(means) == len(processes)
    return Noise(
        len(processes),
        _spread([process.effect for process in processes]),
        _spread([process.control for process in processes]),
        sum(result.took for result in results if result.failure is None) / len(processes),
        judge(processes, rule),
        _spread([each.agreed.effect for each in means]) if is_whole else None,
        _spread([each.every.effect for each in means]) if is_whole else None,
    )


def processes_of(results: Sequence[CellResult]) -> list[Process]:
    """Return all processes of duets, but of those that failed: these have waited for a worker."""
    whole = [result for result in results if result.failure is None]
    return [process for result in whole for process in result.first + result.second]


def _spread(values: Sequence[float]) -> float:
    return trimmed_mean(values).error * math.sqrt(len(values))


def processes_of_a_run(seconds: float, each: float) -> int:
    """Return in how many processes a difference has to show itself.

    Half of those that there is time for: the others repeat it.

    Args:
        seconds: the time of a cell.
        each: what a process takes, in seconds: where several run at once, their share of it.
    """
    # The first run leaves time for the shortest second one: more than both there is no time for.
    return (processes_within(seconds, each) + processes_within(0.0, each)) // 2


def detectable(noise: Noise, processes: int, rule: Rule = Rule()) -> float:  # noqa: B008
    """Return about the smallest slowdown, as a fraction, that a duet finds in 99 of 100 runs.

    As ``harness.compare.verdict.judge`` has it for the processes that it saw, here for any number
    of them with the same noise: with s and c the noise of effect and control, n processes, and
    Student's quantiles of a trimmed mean, t for an interval of 95 % and u for that of a difference,
    the log ratio

        max(log(1 + threshold), t c / sqrt(n)) + (u + 2.326) s / sqrt(n)

    Args:
        noise: what was seen.
        processes: their number in the run in question, at least two.
        rule: when which verdict is given.
    """
    degrees, root = degrees_of(processes), math.sqrt(processes)
    limit = max(math.log1p(rule.threshold), student_t(degrees) * noise.control / root)
    sure = student_t(degrees, rule.confidence)
    return math.expm1(limit + (sure + POWER_QUANTILE) * noise.effect / root)
