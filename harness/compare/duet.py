"""The duet: two near-equal arms on the same workload state, and a control that says how noisy.

The unit of inference is the process. Each has its own hash seed, input seed, import order and order
of the arms in each iteration. It loads either arm twice, as modules of their own, and runs all four
in every iteration. Its effect is the mean of the median log ratios of each copy of the second arm
to each of the first: where a copy happens to lie in memory, and what disturbs a single call, weighs
half. Its control is what the second copies differ by from the first ones, of the same samples: that
is at least as noisy as the effect, and the code is the same. Beside that stand the means of all
steps (``harness.stats.means``), with what calls left to other threads
(``harness.system.background``).

Several processes run at once, each on a core of its own. What two of them do to each other falls on
both arms of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.arms.packages import PackageArm
from harness.arms.sources import ArmSource
from scenarios.scenario import SteadyDecode, TraceReplay
from stubs.providers import DEFAULT_PROVIDER
from subjects.base import Cell

from .verdict import NOT_MEASURED, Process, Rule, Verdict

# Of both arms together, in each process.
COPIES = 4

Scenario = SteadyDecode | TraceReplay | Cell


@dataclass(frozen=True)
class Duet:
    """What is compared.

    Attributes:
        a, b: the arms.
        scenarios: the cells.
        threshold: how much slower or faster matters, as a fraction.
        seconds: time budget of a cell. A verdict needs a few processes, whatever the budget.
        seed: from which hash seeds, input seeds and orders are derived.
        cpus: the cores that workers are pinned to, one on each at once; none for one worker at a
            time that is not pinned.
        provider: where the stand-ins come from.
        comparisons: how many comparisons are made together, where they are more than the cells.
        gc: whether the garbage collector runs during the measurement.
        environment: the variables of ours that the arms read, for workers that have no others.
        is_apart: whether each copy has a process of its own, and the four take turns.
        subject: the user's own function, as ``OwnStage`` takes it; None for the connector.
    """

    a: ArmSource | PackageArm
    b: ArmSource | PackageArm
    scenarios: tuple[Scenario, ...]
    threshold: float = 0.005
    seconds: float = 10.0
    seed: int = 0
    cpus: tuple[int, ...] = ()
    provider: str = DEFAULT_PROVIDER
    comparisons: int = 1
    gc: bool = False
    environment: tuple[str, ...] = ()
    is_apart: bool = False
    subject: Mapping[str, Any] | None = None

    @property
    def rule(self) -> Rule:
        """When which verdict is given."""
        return Rule(self.threshold, max(self.comparisons, len(self.scenarios)))


@dataclass
class CellResult:
    """What a duet says of one cell.

    Attributes:
        scenario: the cell.
        verdict: the verdict.
        samples: for each process the seconds of each iteration, of both arms and then of their
            second copies: ``[process][copy][iteration]``.
        imports: for each process the copies in the order in which they were imported.
        orders: for each process and iteration the copies in the order in which they ran.
        first: the processes that the verdict rests on.
        second: those that repeated a difference; empty where none was seen.
        failure: why a worker gave no result; None if all did.
        took: seconds that the cell took.
        cores: for each process the core that it was pinned to; None for no pinning.
        background: for each process what other threads and child processes spent for each call, in
            CPU seconds, like ``samples``; None where that is nothing.
        alive: of each copy the threads and child processes that calls left behind, by their names.
    """

    scenario: Scenario
    verdict: Verdict = NOT_MEASURED
    samples: list[list[list[float]]] = field(default_factory=list)
    imports: list[list[int]] = field(default_factory=list)
    orders: list[list[list[int]]] = field(default_factory=list)
    first: list[Process] = field(default_factory=list)
    second: list[Process] = field(default_factory=list)
    failure: str | None = None
    took: float = 0.0
    cores: list[int | None] = field(default_factory=list)
    background: list[list[list[float]] | None] = field(default_factory=list)
    alive: list[list[str]] = field(default_factory=lambda: [[] for _ in range(COPIES)])
