"""Exact work: what an arm does in an iteration, counted in an untimed pass."""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import stubs
from connector.data import SchedulerOutput
from scenarios.errors import ArmError, described
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

from .arms import FLOOR, ArmFactory, SchedulerOutputManager, as_factories
from .bytecodes import counting_bytecodes
from .equivalence import output_error
from .outputs import field_names
from .processes import spread
from .retained import retained_bytes
from .traces import arm_traceback

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
    scenario: SteadyDecode | TraceReplay,
    arms: Sequence[str] | Mapping[str, ArmFactory],
    seed: int = 0,
) -> list[Work]:
    """Count what each arm does in a cell.

    The first iteration, in which everything is new to an arm, is not counted. Figures per
    iteration are means over one block of iterations. Equal arguments give equal figures to the last
    digit, whatever other arms there are.

    Args:
        scenario: the cell.
        arms: names of arms of this project, or arms by name; the floor may be among them.
        seed: the seed of the workload.

    Returns:
        The work of each arm, in their order.

    Raises:
        ArmError: an arm raised something.
    """
    iterations = iterations_of(scenario)
    workload = create_workload(scenario, iterations + 1, f"{seed}")
    makes = as_factories(arms)
    names = list(makes)
    built = {name: make(False) for name, make in makes.items()}
    works = [Work(scenario, name) for name in names]
    for iteration in range(iterations + 1):
        workload.advance()
        for work in works:
            try:
                crossings, bytecodes, output = _counted_call(built[work.arm], workload)
            except Exception as error:
                words = described(error)
                where = f"cell {scenario.name}, arm {work.arm}, iteration {iteration + 1}"
                raise ArmError(f"{where}: {words}", arm_traceback(error)) from error
            if iteration:
                _add(work, workload, crossings, bytecodes, output)
    fresh = {name: functools.partial(make, False) for name, make in makes.items() if name != FLOOR}
    for name, retained in retained_bytes(fresh, scenario, seed).items():
        work = works[names.index(name)]
        # A state and no flow: as much in each iteration.
        work.totals["retained_bytes"] = retained * work.iterations
    return works


def count_cells(
    scenarios: Sequence[SteadyDecode | TraceReplay],
    arms: Sequence[str] | Mapping[str, ArmFactory],
    seed: int = 0,
    *,
    jobs: int = 1,
    limit: float | None = None,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[Work]:
    """Return what ``count_work`` returns for each cell, one after the other.

    Args:
        scenarios: the cells.
        arms: as for ``count_work``.
        seed: as for ``count_work``.
        jobs: processes to use.
        limit: seconds that a cell may take. With it all is counted in other processes.
        progress: called with the number of cells done since the last call.

    Raises:
        WorkerError: a process died or hung, or an arm raised something.
    """
    works = []
    cells = [(scenario, arms, seed) for scenario in scenarios]
    for cell in spread(count_work, cells, jobs, limit=limit, describe=_cell):
        works += cell
        progress(1)
    return works


def _cell(scenario: SteadyDecode | TraceReplay, _arms: object, _seed: int) -> str:
    return f"cell {scenario.name}"


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
    wrong = output_error(output)
    if wrong is not None:
        raise wrong
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
        for values in (getattr(data, name) for name in field_names(data)):
            if isinstance(values, list):
                own.add(id(values))
                own.update(id(group) for group in values if isinstance(group, list))
    return len(own - known)
