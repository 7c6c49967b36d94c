"""The memory that an arm keeps from one iteration to the next."""

from __future__ import annotations

import functools
import gc
import tracemalloc
from collections.abc import Callable, Mapping

from harness.arms.registry import SchedulerOutputManager
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import SteadyDecodeWorkload, TraceReplayWorkload, create_workload

Makes = Callable[[], SchedulerOutputManager]


def retained_bytes(
    makes: Mapping[str, Makes], scenario: SteadyDecode | TraceReplay, seed: int
) -> dict[str, int]:
    """Return the bytes of Python memory that each arm keeps after two reports.

    What an arm keeps is what is freed when it goes, so nothing that others keep is taken for its.
    What stays even then, as in a global variable, is shown by one more instance: what its module
    and the stand-ins keep once for all is there by now.

    Args:
        makes: what makes an instance of each arm.
        scenario: the cell.
        seed: the seed of the workload.
    """
    workload = create_workload(scenario, 2, f"{seed}")
    _settle(makes, scenario)
    gc.collect()  # What waits in a free list would be kept by an arm unseen.
    tracemalloc.start()
    try:
        built = {name: make() for name, make in makes.items()}
        for _ in range(2):
            workload.advance()
            gc.collect()  # An arm may not keep what waits in a free list, unseen.
            for name in makes:
                _report(built[name], workload)
                gc.collect()  # Nor may the next one keep what this one left there.
        # The first reading is itself an object that the second one sees. Taken twice, since code
        # that runs for the first time leaves something behind.
        for _ in range(2):
            reading = _freed_by(_nothing)
        kept = {name: _freed_by(functools.partial(built.pop, name)) - reading for name in makes}
        left = {
            name: reading - _freed_by(functools.partial(_live, make, workload))
            for name, make in makes.items()
        }
        return {name: kept[name] + max(left[name], 0) for name in makes}
    finally:
        tracemalloc.stop()


def _nothing() -> None:
    """Free nothing."""


def _report(
    arm: SchedulerOutputManager, workload: SteadyDecodeWorkload | TraceReplayWorkload
) -> None:
    arm.build_scheduler_output(workload.batch, workload.async_requests, workload.manager)


def _live(make: Makes, workload: SteadyDecodeWorkload | TraceReplayWorkload) -> None:
    """Let an instance of an arm come, report once, and go."""
    _report(make(), workload)


def _settle(makes: Mapping[str, Makes], scenario: SteadyDecode | TraceReplay) -> None:
    """Bring the arms' classes to where one more instance is of the size that the last one was.

    CPython makes room for 30 attributes in the first instance of a class, and for one less in each
    that follows, down to what is used.
    """
    workload = create_workload(SteadyDecode(requests=1, tokens=1, manager=scenario.manager), 1, "")
    workload.advance()
    for make in makes.values():
        for _ in range(32):
            _live(make, workload)


def _freed_by(action: Callable[[], object]) -> int:
    """Return how many traced bytes ``action`` frees."""
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    action()
    gc.collect()
    return before - tracemalloc.get_traced_memory()[0]
