"""Which cell measures next: first each as often as is asked for in any case, then the widest."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from scenarios.scenario import SteadyDecode, TraceReplay

from .arms import FLOOR
from .plan import MAX_COUNT, Job, Plan
from .precision import log_ratio, ratio_of, reach, round_medians


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
        self._rounds: dict[Job, list[float]] = {}
        self._failed: set[str] = set()
        self._took: dict[str, list[float]] = {}

    def add(self, job: Job, values: Sequence[float]) -> None:
        """Take in the samples of a process."""
        self._rounds[job] = round_medians(values, self._plan.protocol.samples)

    def leave_out(self, job: Job) -> None:
        """Measure an arm no more in a cell in which it failed."""
        self._failed.add(job.benchmark)

    def note_time(self, scenario: SteadyDecode | TraceReplay, seconds: float) -> None:
        """Note how long processes of a cell took that ran at once."""
        self._took.setdefault(scenario.name, []).append(seconds)

    def next_group(self) -> list[Job]:
        """Return the processes that run next, all of one cell and at once; none at the end."""
        return next(filter(None, (self._in_any_case(), self._added())), [])

    def left(self) -> float:
        """Return about how many seconds the rest will take at most, by what was measured so far."""
        known = [seconds for took in self._took.values() for seconds in took]
        mean = statistics.fmean(known) if known else 0.0
        needed = sum(
            statistics.fmean(self._took.get(scenario.name, [mean]))
            for process in self._in_any()
            for scenario in self._plan.scenarios
            if self._open(scenario, process)
        )
        if self._plan.precision is None or self.done() == len(self._plan.scenarios):
            return needed
        return max(needed, self._end - self._clock())

    def done(self) -> int:
        """Return how many cells need no more processes."""
        return sum(
            self._is_precise(scenario)
            and not any(self._open(scenario, process) for process in self._in_any())
            for scenario in self._plan.scenarios
        )

    def _in_any(self) -> range:
        """Return the numbers of the processes that are run in any case."""
        return range(self._plan.protocol.processes)

    def _in_any_case(self) -> list[Job]:
        for process in self._in_any():
            for scenario in self._plan.scenarios:
                if jobs := self._open(scenario, process):
                    return jobs
        return []

    def _added(self) -> list[Job]:
        """Return processes of the cell whose widest ratio is the widest, if there is time."""
        if self._plan.precision is None:
            return []
        left = self._end - self._clock()
        wide = [
            scenario
            for scenario in self._plan.scenarios
            if not self._is_precise(scenario)
            and statistics.fmean(self._took.get(scenario.name, [0.0])) <= left
        ]
        if not wide:
            return []
        widest = max(wide, key=self._reach)
        numbers = {job.process for job in self._rounds if job.scenario == widest}
        process = max(numbers, default=-1) + 1
        return self._open(widest, process) if process < MAX_COUNT else []

    def _open(self, scenario: SteadyDecode | TraceReplay, process: int) -> list[Job]:
        return [
            job
            for job in self._plan.group(scenario, process)
            if job not in self._rounds and job.benchmark not in self._failed
        ]

    def _is_precise(self, scenario: SteadyDecode | TraceReplay) -> bool:
        precision = self._plan.precision
        return precision is None or self._reach(scenario) <= precision

    def _reach(self, scenario: SteadyDecode | TraceReplay) -> float:
        """Return how far the interval of a cell's widest ratio reaches; 0 where there is none."""
        failed = {arm for arm in self._plan.arms if Job(scenario, arm, 0).benchmark in self._failed}
        arms = [arm for arm in self._plan.arms if arm != FLOOR]
        pairs = [(arm, arms[0]) for arm in arms[1:]]
        pairs += [(arm, FLOOR) for arm in arms if FLOOR in self._plan.arms]
        return max(
            (self._reach_of(scenario, pair) for pair in pairs if not failed & {*pair}), default=0.0
        )

    def _reach_of(self, scenario: SteadyDecode | TraceReplay, pair: tuple[str, str]) -> float:
        above, below = (
            {job.process: rounds for job, rounds in self._rounds.items() if _is(job, scenario, arm)}
            for arm in pair
        )
        logs = [log_ratio(above[number], below[number]) for number in above.keys() & below.keys()]
        return reach(ratio_of(logs, is_looked_at=True)) if len(logs) > 1 else math.inf


def _is(job: Job, scenario: SteadyDecode | TraceReplay, arm: str) -> bool:
    return job.scenario == scenario and job.arm == arm
