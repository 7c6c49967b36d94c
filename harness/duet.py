"""The duet: two near-equal arms on the same workload state, and a control that says how noisy.

The unit of inference is the process. Each has its own hash seed, input seed, import order and order
of the arms in each iteration. It loads either arm twice, as modules of their own, and runs all four
in every iteration. Its effect is the mean of the median log ratios of each copy of the second arm
to each of the first: where a copy happens to lie in memory, and what disturbs a single call, weighs
half. Its control is what the second copies differ by from the first ones, of the same samples: that
is at least as noisy as the effect, and the code is the same. Beside that stand the means of all
steps (``harness.means``), with what calls left to other threads (``harness.background``).

Several processes run at once, each on a core of its own. What two of them do to each other falls on
both arms of either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from scenarios.errors import LostWorkerError, WorkerError
from scenarios.scenario import SteadyDecode, TraceReplay
from stubs.providers import DEFAULT_PROVIDER

from .duet_processes import COPIES, run_processes
from .figure import Kind
from .sources import ArmSource
from .verdict import LEAST_CPU_SHARE, NOT_MEASURED, Process, Rule, Verdict, judge, settle

# After how many processes a verdict is looked for. Each look is a chance to err; a difference has
# to show itself again in fresh processes, and no difference at a confidence of 99 %.
_FIRST_LOOK = 6
_MOST_PROCESSES = 240


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
    """

    a: ArmSource
    b: ArmSource
    scenarios: tuple[SteadyDecode | TraceReplay, ...]
    threshold: float = 0.005
    seconds: float = 10.0
    seed: int = 0
    cpus: tuple[int, ...] = ()
    provider: str = DEFAULT_PROVIDER
    comparisons: int = 1
    gc: bool = False
    environment: tuple[str, ...] = ()
    is_apart: bool = False

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

    scenario: SteadyDecode | TraceReplay
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


def compare_cell(
    duet: Duet,
    scenario: SteadyDecode | TraceReplay,
    progress: Callable[[str], None] = lambda _what: None,
    draw: Callable[[], Process] | None = None,
    clock: Callable[[], float] | None = None,
) -> CellResult:
    """Compare the arms in one cell.

    Looks now and then, goes on while there is no verdict, and repeats a difference in fresh
    processes before it is said. A core that turns out to be busy is not used any more, unless it is
    the last.

    Args:
        duet: what is compared.
        scenario: the cell.
        progress: called with what the processes are for that are started next.
        draw: returns what the next process says, instead of running one.
        clock: the time in seconds; by default the real one.
    """
    result = CellResult(scenario)
    now = clock or time.monotonic
    began = now()

    cores: list[int | None] = [None] if draw or not duet.cpus else list(duet.cpus)
    batches = 0

    def collect(processes: list[Process], wanted: Kind | None = None) -> Verdict:
        nonlocal cores, batches
        look = _whole(_FIRST_LOOK, len(cores))
        # After the first run there has to be time for the shortest second one.
        reserve = look if wanted is None else 0
        while True:
            progress(f"{scenario.name}, {'first' if wanted is None else 'second'} run")
            ran = [draw()] if draw else run_processes(duet, scenario, cores, result)
            processes += ran
            batches += 1
            cores = _free(cores, ran)
            if len(processes) < look:
                continue
            verdict = judge(processes, duet.rule)
            is_clear = (
                verdict.kind != Kind.INCONCLUSIVE if wanted is None else verdict.kind == wanted
            )
            look = _next_look(len(processes), len(cores))
            # However many run at once, they take as long.
            needed = batches + (look - len(processes) + reserve) / len(cores)
            is_over = (now() - began) / batches * needed > duet.seconds
            if is_clear or is_over or look > _MOST_PROCESSES:
                return verdict

    try:
        result.verdict = collect(result.first)
        if result.verdict.is_difference:
            again = collect(result.second, result.verdict.kind)
            result.verdict = settle(result.verdict, again, duet.threshold)
    except LostWorkerError:
        raise
    except WorkerError as error:
        result.failure = str(error)
        result.verdict = Verdict(Kind.INCONCLUSIVE, result.failure)
    result.took = now() - began
    return result


def processes_within(seconds: float, each: float) -> int:
    """Return about how many processes the first run of a cell has that stays without a verdict.

    Args:
        seconds: the cell's time.
        each: what a process takes, in seconds: where several run at once, their share of it.
    """
    count = _FIRST_LOOK
    for look in looks():
        if (look + _FIRST_LOOK) * each <= seconds:
            count = look
    return count


def looks(at_once: int = 1) -> Iterator[int]:
    """Yield after how many processes a run without a verdict is looked at.

    Args:
        at_once: how many processes run at once.
    """
    look = _whole(_FIRST_LOOK, at_once)
    while look <= _MOST_PROCESSES:
        yield look
        look = _next_look(look, at_once)


def _next_look(look: int, at_once: int) -> int:
    """Return after how many processes a verdict is looked for again: ever more seldom."""
    return look + _whole(max(2, look // 8), at_once)


def _whole(count: int, at_once: int) -> int:
    """Return a number of processes that is at least ``count`` and keeps all cores busy."""
    return -(-count // at_once) * at_once


def _free(cores: list[int | None], processes: Sequence[Process]) -> list[int | None]:
    """Return the cores that these processes, one on each, had for themselves.

    If none had, the one that was shared least.
    """
    shares = [process.cpu_share for process in processes]
    least = min(LEAST_CPU_SHARE, max(shares))
    return [core for core, share in zip(cores, shares, strict=True) if share >= least]
