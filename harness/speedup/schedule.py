"""Which cell measures next: first each as often as is asked for in any case, then the widest."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.arms.registry import FLOOR
from scenarios.scenario import SteadyDecode, TraceReplay

from .plan import MAX_COUNT, Job, Plan
from .precision import log_ratio, ratio_of, reach, round_medians


@dataclass
class _Cell:
    """What is known of a cell so far.

    Attributes:
        scenario: the cell.
        pairs: the arms of the ratios that stand in the table.
        rounds: of each arm and process the medians of its rounds.
        failed: the arms that are not measured any more.
        took: seconds that the processes took that ran at once.
    """

    scenario: SteadyDecode | TraceReplay
    pairs: Sequence[tuple[str, str]]
    rounds: dict[str, dict[int, list[float]]]
    failed: set[str] = field(default_factory=set)
    took: list[float] = field(default_factory=list)
    _reach: float | None = None

    def add(self, job: Job, rounds: list[float]) -> None:
        self.rounds[job.arm][job.process] = rounds
        self._reach = None

    def leave_out(self, arm: str) -> None:
        self.failed.add(arm)
        self._reach = None

    def left(self, process: int) -> list[str]:
        """Return the arms of which a process has still to be measured."""
        return [
            arm for arm, own in self.rounds.items() if process not in own and arm not in self.failed
        ]

    def missing(self, least: int) -> int:
        """Return of how many of the first processes an arm has still to be measured."""
        return sum(bool(self.left(process)) for process in range(least))

    def next_process(self) -> int:
        return max((process for own in self.rounds.values() for process in own), default=-1) + 1

    def reach(self) -> float:
        """Return how far the interval of its widest ratio reaches; 0 where there is no ratio."""
        if self._reach is None:
            pairs = [pair for pair in self.pairs if not self.failed & {*pair}]
            self._reach = max(map(self._reach_of, pairs), default=0.0)
        return self._reach

    def _reach_of(self, pair: tuple[str, str]) -> float:
        above, below = (self.rounds[arm] for arm in pair)
        logs = [log_ratio(above[number], below[number]) for number in above.keys() & below.keys()]
        return reach(ratio_of(logs, is_looked_at=True)) if len(logs) > 1 else math.inf


class Schedule:
    """What of a plan is left, by what was measured so far.

    Args:
        plan: the plan.
        clock: seconds since some moment. The plan's time begins now.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._end = clock() + plan.seconds
        arms = [arm for arm in plan.arms if arm != FLOOR]
        pairs = [(arm, arms[0]) for arm in arms[1:]]
        pairs += [(arm, FLOOR) for arm in arms if FLOOR in plan.arms]
        self._cells = {
            scenario.name: _Cell(scenario, pairs, {arm: {} for arm in plan.arms})
            for scenario in plan.scenarios
        }
        self._in_any_case = [
            (scenario, process)
            for process in reversed(range(plan.protocol.processes))
            for scenario in reversed(plan.scenarios)
        ]

    def add(self, job: Job, values: Sequence[float]) -> None:
        """Take in the samples of a process."""
        rounds = round_medians(values, self._plan.protocol.samples)
        self._cells[job.scenario.name].add(job, rounds)

    def leave_out(self, job: Job) -> None:
        """Measure an arm no more in a cell in which it failed."""
        self._cells[job.scenario.name].leave_out(job.arm)

    def note_time(self, scenario: SteadyDecode | TraceReplay, seconds: float) -> None:
        """Note how long processes of a cell took that ran at once."""
        self._cells[scenario.name].took.append(seconds)

    def next_group(self) -> list[Job]:
        """Return the processes that run next, all of one cell and at once; none at the end."""
        while self._in_any_case:
            scenario, process = self._in_any_case[-1]
            if jobs := self._jobs(self._cells[scenario.name], process):
                return jobs
            self._in_any_case.pop()
        return self._added()

    def left(self) -> float:
        """Return about how many seconds the rest will take at most, by what was measured so far."""
        known = [seconds for cell in self._cells.values() for seconds in cell.took]
        mean = statistics.fmean(known) if known else 0.0
        needed = sum(
            cell.missing(self._plan.protocol.processes) * statistics.fmean(cell.took or [mean])
            for cell in self._cells.values()
        )
        if self._plan.precision is None or self.done() == len(self._cells):
            return needed
        return max(needed, self._end - self._clock())

    def done(self) -> int:
        """Return how many cells need no more processes."""
        least = self._plan.protocol.processes
        return sum(
            self._is_precise(cell) and not cell.missing(least) for cell in self._cells.values()
        )

    def _added(self) -> list[Job]:
        """Return processes of the cell whose widest ratio is the widest, if there is time."""
        left = self._end - self._clock()
        wide = [
            cell
            for cell in self._cells.values()
            if not self._is_precise(cell) and statistics.fmean(cell.took or [0.0]) <= left
        ]
        if not wide:
            return []
        widest = max(wide, key=_Cell.reach)
        process = widest.next_process()
        return self._jobs(widest, process) if process < MAX_COUNT else []

    def _jobs(self, cell: _Cell, process: int) -> list[Job]:
        return [Job(cell.scenario, arm, process) for arm in cell.left(process)]

    def _is_precise(self, cell: _Cell) -> bool:
        precision = self._plan.precision
        return precision is None or cell.reach() <= precision
