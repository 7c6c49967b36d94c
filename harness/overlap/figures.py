"""The figures of ``stepbench overlap``: for each arm of a cell, in both orders, over processes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from harness.stats.estimates import Estimate
from harness.stats.means import is_further
from scenarios.scenario import SteadyDecode, TraceReplay

from .model import Sample, over_processes
from .run import CellRun, OverlapPlan, alive_of, cpu_share, samples_of

# By what share of what the model predicts to be saved that may be missed.
LIMIT = 0.05
# What is told apart, in seconds: events of a GPU resolve about half a microsecond.
RESOLUTION = 1e-6

Verdict = Literal["holds", "departs", "inconclusive"]


@dataclass(frozen=True)
class OrderFigures:
    """An arm in the order of one scheduler; all in seconds, with intervals over processes.

    Attributes:
        path, background, other_host, launch, between, host: the host's time, in parts and in sum.
        path_mean: the mean of the path and of what it leaves to others, where it is typical else.
        forward: how long a forward ran.
        exposed: how long the device waited for the host in each step.
        hidden: the rest of the host's time.
        step: what a step took.
        predicted_exposed, predicted_step: what it would be after the model, of the same samples.
        engine_exposed: the same without ``between``, as on an engine, which has no stand-ins.
        saved: how much shorter a step is than with the first arm; None of the first arm.
        predicted_saved: what that would be after the model, of the same processes.
        unpredicted: how much more is saved than that, paired by process.
    """

    path: Estimate
    path_mean: Estimate
    background: Estimate
    other_host: Estimate
    launch: Estimate
    between: Estimate
    host: Estimate
    forward: Estimate
    exposed: Estimate
    hidden: Estimate
    step: Estimate
    predicted_exposed: Estimate
    predicted_step: Estimate
    engine_exposed: Estimate
    saved: Estimate | None
    predicted_saved: Estimate | None
    unpredicted: Estimate | None

    @property
    def departure(self) -> float:
        """By what share the measured step departs from the model's; 0 where both are nothing."""
        predicted = self.predicted_step.value
        return abs(self.step.value - predicted) / predicted if predicted > 0 else 0.0

    @property
    def verdict(self) -> Verdict | None:
        """Whether what is saved is what the model predicts, within 5 % of that; of the first, None.

        It holds or departs where the whole interval of the difference lies within that, or beyond
        it. Where 5 % are less than clocks and events resolve, nothing is said.
        """
        if self.predicted_saved is None or self.unpredicted is None:
            return None
        limit = LIMIT * abs(self.predicted_saved.value)
        low, high = self.unpredicted.low, self.unpredicted.high
        if limit >= RESOLUTION:
            if -limit <= low and high <= limit:
                return "holds"
            if low > limit or high < -limit:
                return "departs"
        return "inconclusive"


@dataclass(frozen=True)
class ArmFigures:
    """One arm of a cell.

    Attributes:
        arm: how it was named.
        without_overlap, with_overlap: in either order.
        spread: how many times as long as the quickest process's the slowest one's path took, in
            the order in which that is more.
        excess: for each process how many times its typical path the mean one takes, of both orders.
        alive: the threads and child processes that the path left behind.
    """

    arm: str
    without_overlap: OrderFigures
    with_overlap: OrderFigures
    spread: float
    excess: tuple[float, ...] = ()
    alive: tuple[str, ...] = ()

    @property
    def forward(self) -> Estimate:
        """How long a forward ran, with overlap."""
        return self.with_overlap.forward


@dataclass(frozen=True)
class CellFigures:
    """One cell.

    Attributes:
        scenario: the cell.
        arms: its arms, the first of them what the others are compared with; empty where no
            process gave a result.
        processes: how many processes gave one.
        cpu_share: the smallest share of its core that one got.
        failure: why one gave none; None if all did.
    """

    scenario: SteadyDecode | TraceReplay
    arms: tuple[ArmFigures, ...]
    processes: int
    cpu_share: float
    failure: str | None

    @property
    def dear(self) -> tuple[ArmFigures, ...]:
        """The arms of which some steps are dear, as those of another arm are not."""
        return tuple(
            arm
            for arm in self.arms
            if any(is_further(arm.excess, other.excess) for other in self.arms if other is not arm)
        )


def figures(plan: OverlapPlan, run: CellRun) -> CellFigures:
    """Return the figures of a cell. Raises ValueError as ``samples_of``."""
    samples = samples_of(plan, run)
    arms = []
    for index, source in enumerate(plan.arms if run.processes else ()):
        orders = [samples[index, overlap] for overlap in (False, True)]
        without, within = (
            _order(own, samples[0, overlap] if index else None)
            for own, overlap in zip(orders, (False, True), strict=True)
        )
        spread = max(_spread([sample.path for sample in own]) for own in orders)
        pairs = zip(*orders, strict=True)
        excess = tuple(math.sqrt(_excess(one) * _excess(other)) for one, other in pairs)
        arms.append(ArmFigures(source.spec, without, within, spread, excess, alive_of(run, index)))
    return CellFigures(run.scenario, tuple(arms), len(run.processes), cpu_share(run), run.failure)


def _excess(sample: Sample) -> float:
    plain = sample.path_mean - sample.background
    return plain / sample.path if sample.path > 0 and plain > 0 else 1.0


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values) if min(values) > 0 else 1.0


def _order(samples: Sequence[Sample], base: Sequence[Sample] | None) -> OrderFigures:
    def of(name: str) -> Estimate:
        return over_processes(list(map(operator.attrgetter(name), samples)))

    saved = predicted = unpredicted = None
    if base is not None:
        # The same process, the same workload: what both share cancels out.
        pairs = list(zip(base, samples, strict=True))
        measured = [first.step - own.step for first, own in pairs]
        modelled = [first.predicted_step - own.predicted_step for first, own in pairs]
        saved, predicted = over_processes(measured), over_processes(modelled)
        unpredicted = over_processes(
            [one - other for one, other in zip(measured, modelled, strict=True)]
        )
    return OrderFigures(
        **{field.name: of(field.name) for field in fields(Sample)},
        saved=saved,
        predicted_saved=predicted,
        unpredicted=unpredicted,
    )
