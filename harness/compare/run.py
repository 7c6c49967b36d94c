"""A cell of a duet, run until its verdict is clear or its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from stepbench_core.errors import LostWorkerError, WorkerError

from .duet import CellResult, Duet, Scenario
from .figure import Kind
from .processes import run_processes
from .verdict import LEAST_CPU_SHARE, Process, Verdict, judge, settle

# After how many processes a verdict is looked for. Each look is a chance to err; a difference has
# to show itself again in fresh processes, and no difference at a confidence of 99 %.
_FIRST_LOOK = 6
_MOST_PROCESSES = 240


def compare_cell(
    duet: Duet,
    scenario: Scenario,
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
