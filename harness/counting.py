"""Exact work: what an arm does in an iteration, counted in an untimed pass."""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import stubs
from connector.data import SchedulerOutput
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import (
    SteadyDecodeWorkload,
    TraceReplayWorkload,
    batch_shape,
    create_workload,
)
from stubs.counting import (
    ENGINE_PYTHON,
    MARSHALLED,
    CountingAsyncRequests,
    CountingBatch,
    Crossings,
    counting_manager,
)

from .arms import FLOOR, SchedulerOutputManager, create_arm
from .bytecodes import counting_bytecodes
from .processes import spread

Workload = SteadyDecodeWorkload | TraceReplayWorkload

# What is counted, in the order of the table.
FIGURES = (
    "native_calls",
    "arguments",
    *MARSHALLED,
    "objects",
    "bytecodes",
    "engine_bytecodes",
    "retained_bytes",
    "pickled_bytes",
)
# Those that depend on the Python version.
VERSION_FIGURES = frozenset({"bytecodes", "engine_bytecodes", "retained_bytes"})

# Iterations counted at most, where a block is longer.
_MAX_ITERATIONS = 64
_STUBS = str(Path(stubs.__file__ or "").parent)
_HERE = str(Path(__file__).parent / "counting.py")


@dataclass
class Work:
    """What one arm did in the counted iterations of one cell.

    Attributes:
        scenario: the cell.
        arm: the arm.
        iterations: number of iterations counted.
        requests: requests in the batch, summed over them.
        sequence_tokens: tokens of those requests' sequences, summed over them.
        calls: native calls and reads of native attributes, by name, summed over them.
        totals: the figures, summed over the iterations. Missing: ``retained_bytes`` of the floor,
            which finds out its values where nobody counts.
    """

    scenario: SteadyDecode | TraceReplay
    arm: str
    iterations: int = 0
    requests: int = 0
    sequence_tokens: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)

    def per_iteration(self, figure: str) -> float | None:
        """Return the mean of a figure over the iterations; None where it was not counted."""
        return self.totals[figure] / self.iterations if figure in self.totals else None

    def per_request(self, figure: str) -> float | None:
        """Return a figure per request and iteration; None where it was not counted."""
        return self.totals[figure] / self.requests if figure in self.totals else None


def iterations_of(scenario: SteadyDecode | TraceReplay) -> int:
    """Return how many iterations are counted: one block's, so that each request crosses a boundary.

    Of a block of more than 64 tokens, 64.
    """
    return min(scenario.tokens_per_block, _MAX_ITERATIONS)


def count_work(
    scenario: SteadyDecode | TraceReplay, arms: Sequence[str], seed: int = 0
) -> list[Work]:
    """Count what each arm does in a cell.

    The first iteration, in which everything is new to an arm, is not counted. Figures per
    iteration are means over one block of iterations. Equal arguments give equal figures to the last
    digit, whatever other arms there are.

    Args:
        scenario: the cell.
        arms: names of the arms; the floor may be among them.
        seed: the seed of the workload.

    Returns:
        The work of each arm, in their order.
    """
    iterations = iterations_of(scenario)
    workload = create_workload(scenario, iterations + 1, f"{seed}")
    built = {name: create_arm(name) for name in arms}
    works = [Work(scenario, name) for name in arms]
    for iteration in range(iterations + 1):
        workload.advance()
        for work in works:
            crossings, bytecodes, output = _counted_call(built[work.arm], workload)
            if iteration:
                _add(work, workload, crossings, bytecodes, output)
    for name, retained in _retained_bytes(scenario, arms, seed).items():
        work = works[arms.index(name)]
        # A state and no flow: as much in each iteration.
        work.totals["retained_bytes"] = retained * work.iterations
    return works


def count_cells(
    scenarios: Sequence[SteadyDecode | TraceReplay],
    arms: Sequence[str],
    seed: int = 0,
    *,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[Work]:
    """Return what ``count_work`` returns for each cell, one after the other.

    Args:
        scenarios: the cells.
        arms: as for ``count_work``.
        seed: as for ``count_work``.
        jobs: processes to use.
        progress: called with the number of cells done since the last call.
    """
    works = []
    for cell in spread(count_work, [(scenario, arms, seed) for scenario in scenarios], jobs):
        works += cell
        progress(1)
    return works


def _counted_call(
    arm: SchedulerOutputManager, workload: Workload
) -> tuple[Crossings, Counter[str], SchedulerOutput]:
    prepare = getattr(arm, "prepare", None)
    if prepare is not None:
        prepare(workload.batch, workload.async_requests, workload.manager)
    crossings = Crossings()
    arguments = (
        CountingBatch(workload.batch, crossings),
        CountingAsyncRequests(workload.async_requests, crossings),
        counting_manager(workload.manager, crossings),
    )
    with _no_collection(), counting_bytecodes(_kind_of) as bytecodes:
        output = arm.build_scheduler_output(*arguments)  # type: ignore[arg-type]
    return crossings, bytecodes, output


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector, which can call Python code, out of what is counted."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _kind_of(code: CodeType) -> str | None:
    """Return what an instruction of ``code`` counts as."""
    if code.co_filename == _HERE:
        return None
    if not code.co_filename.startswith(_STUBS):
        return "bytecodes"  # The arm's own, and what it has others do.
    name = code.co_qualname
    engine = any(name == own or name.startswith(f"{own}.<locals>") for own in ENGINE_PYTHON)
    return "engine_bytecodes" if engine else None


def _add(
    work: Work,
    workload: Workload,
    crossings: Crossings,
    bytecodes: Counter[str],
    output: SchedulerOutput,
) -> None:
    requests, tokens = batch_shape(workload.batch)
    work.iterations += 1
    work.requests += requests
    work.sequence_tokens += tokens
    work.calls += crossings.calls
    for name, value in {
        "native_calls": crossings.calls.total(),
        "arguments": crossings.arguments,
        **crossings.marshalled,
        "objects": crossings.objects + _own_objects(output, crossings),
        "bytecodes": bytecodes["bytecodes"],
        "engine_bytecodes": bytecodes["engine_bytecodes"],
        "pickled_bytes": len(pickle.dumps(output, protocol=5)),
    }.items():
        work.totals[name] += value


def _own_objects(output: SchedulerOutput, crossings: Crossings) -> int:
    """Return how many objects of the output no native call returned: its data and lists."""
    known = set(map(id, crossings.lists))
    own = {id(output), id(output.new_requests), id(output.cached_requests)}
    for data in output.new_requests + output.cached_requests:
        own.add(id(data))
        for values in (
            data.new_tokens,
            data.new_block_ids,
            data.block_hashes,
            data.priorities,
            data.new_block_ids_by_layer_group,
            *data.new_block_ids_by_layer_group,
        ):
            if values is not None:
                own.add(id(values))
    return len(own - known)


def _retained_bytes(
    scenario: SteadyDecode | TraceReplay, arms: Sequence[str], seed: int
) -> dict[str, int]:
    """Return the bytes of Python memory that each arm keeps after two reports.

    What an arm keeps is what is freed when it goes, so nothing that others keep is taken for its.
    """
    names = [name for name in arms if name != FLOOR]
    workload = create_workload(scenario, 2, f"{seed}")
    _settle(names, scenario)
    gc.collect()  # What waits in a free list would be kept by an arm unseen.
    tracemalloc.start()
    try:
        built = {name: create_arm(name) for name in names}
        for _ in range(2):
            workload.advance()
            gc.collect()  # An arm may not keep what waits in a free list, unseen.
            for name in names:
                built[name].build_scheduler_output(
                    workload.batch, workload.async_requests, workload.manager
                )
                gc.collect()  # Nor may the next one keep what this one left there.
        # The first reading is itself an object that the second one sees. Taken twice, since code
        # that runs for the first time leaves something behind.
        for _ in range(2):
            reading = _freed_by(_nothing)
        return {name: _freed_by(functools.partial(built.pop, name)) - reading for name in names}
    finally:
        tracemalloc.stop()


def _nothing() -> None:
    """Free nothing."""


def _settle(arms: Sequence[str], scenario: SteadyDecode | TraceReplay) -> None:
    """Bring the arms' classes to where one more instance is of the size that the last one was.

    CPython makes room for 30 attributes in the first instance of a class, and for one less in each
    that follows, down to what is used.
    """
    workload = create_workload(SteadyDecode(requests=1, tokens=1, manager=scenario.manager), 1, "")
    workload.advance()
    for name in arms:
        for _ in range(32):
            create_arm(name).build_scheduler_output(
                workload.batch, workload.async_requests, workload.manager
            )


def _freed_by(action: Callable[[], object]) -> int:
    """Return how many traced bytes ``action`` frees."""
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    action()
    gc.collect()
    return before - tracemalloc.get_traced_memory()[0]
