"""Exact work: what an arm does in an iteration, counted in an untimed pass."""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import stubs
from connector.data import SchedulerOutput
from harness.arms.loading import file_of
from harness.arms.missing import not_runnable, refusing, watching
from harness.arms.outputs import REQUESTS, field_names, field_of, output_error, requests_of
from harness.arms.registry import FLOOR, ArmFactory, SchedulerOutputManager, as_factories
from harness.system.tracebacks import arm_traceback
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import (
    SteadyDecodeWorkload,
    TraceReplayWorkload,
    batch_shape,
    create_workload,
)
from stepbench_core.errors import ArmError, described
from stubs.counting import (
    ENGINE_PYTHON,
    MARSHALLED,
    CountingAsyncRequests,
    CountingBatch,
    Crossings,
    counting_manager,
)

from .bytecodes import BytecodeCounter, Bytecodes
from .delegated import Delegated, Watch
from .retained import retained_bytes

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
_STUBS_MODULES = f"{stubs.__name__}."


@dataclass(frozen=True)
class Variation:
    """A figure that is not the same each time.

    Attributes:
        figure: the figure.
        low: the lowest that was seen, per iteration.
        high: the highest.
        by_hash: whether the seed of Python's hashes decides, and nothing else that changed; else it
            differs between two runs under one.
    """

    figure: str
    low: float
    high: float
    by_hash: bool


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
        steps: of each iteration those figures that are no state; none where a file holds no such.
        delegated: what the arm had others do.
        variations: the figures that are not the same each time.
    """

    scenario: SteadyDecode | TraceReplay
    arm: str
    iterations: int = 0
    requests: int = 0
    sequence_tokens: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    steps: list[dict[str, int]] = field(default_factory=list)
    delegated: Delegated = field(default_factory=Delegated)
    variations: list[Variation] = field(default_factory=list)

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
    *,
    few: int | None = None,
) -> list[Work]:
    """Count what each arm does in a cell.

    The first iteration, in which everything is new to an arm, is not counted. Figures per
    iteration are means over one block of iterations. Equal arguments give equal figures to the last
    digit, whatever other arms there are, unless an arm looks at more than its arguments.

    Args:
        scenario: the cell.
        arms: names of arms of this project, or arms by name; the floor may be among them.
        seed: the seed of the workload, and of the module ``random`` for each arm.
        few: count no more than so many iterations, and not what is retained.

    Returns:
        The work of each arm, in their order.

    Raises:
        ArmError: an arm raised something.
        NotRunnableError: an arm uses what is not here.
    """
    makes = as_factories(arms)
    with watching() as watch:
        works = _works(scenario, makes, seed, few)
        watch.wait()
        for name, make in makes.items():
            watch.check(name, file_of(make))
    return works


def _works(
    scenario: SteadyDecode | TraceReplay,
    makes: Mapping[str, ArmFactory],
    seed: int,
    few: int | None,
) -> list[Work]:
    iterations = iterations_of(scenario)
    workload = create_workload(scenario, iterations + 1, f"{seed}")
    files = {name: file_of(make) for name, make in makes.items()}
    with BytecodeCounter(functools.partial(_kind_of, _generated_code())) as counter:
        tallies = [_Tally(scenario, name, make, seed) for name, make in makes.items()]
        watch = Watch()
        for tally in tallies:
            tally.make(watch)
        for iteration in range(1 + min(few or iterations, iterations)):
            workload.advance()
            for tally in tallies:
                tally.call(workload, iteration, counter, watch)
    works = [tally.work for tally in tallies]
    if few is None:
        fresh = {name: functools.partial(make, False) for name, make in makes.items()}
        fresh.pop(FLOOR, None)
        with refusing(files):
            retained = retained_bytes(fresh, scenario, seed)
        for work in works:
            if work.arm in retained:
                # A state and no flow: as much in each iteration.
                work.totals["retained_bytes"] = retained[work.arm] * work.iterations
    return works


class _Tally:
    """One arm, while it is counted.

    Args:
        scenario: the cell.
        name: the arm.
        make: makes it.
        seed: of its random numbers.
    """

    def __init__(
        self, scenario: SteadyDecode | TraceReplay, name: str, make: ArmFactory, seed: int
    ) -> None:
        self.work = Work(scenario, name)
        self._make = make
        self._random = random.Random(f"{seed}").getstate()

    def make(self, watch: Watch) -> None:
        """Make the arm."""
        with self._own_random(), watch.over(self.work.arm, self.work.delegated):
            self._arm = self._make(False)

    def call(
        self, workload: Workload, iteration: int, counter: BytecodeCounter, watch: Watch
    ) -> None:
        """Call the arm, and count that unless it is the first iteration.

        Raises:
            ArmError: the arm raised something.
            NotRunnableError: it uses what is not here.
        """
        work = self.work
        others = watch.others(work.arm)
        try:
            with self._own_random(), watch.over(work.arm, work.delegated):
                crossings, bytecodes, output = _counted_call(
                    self._arm, workload, counter, functools.partial(watch.settle, work.arm)
                )
        except Exception as error:
            refused = not_runnable(error, {work.arm: file_of(self._make)})
            if refused is not None:
                raise refused from error
            words = described(error)
            where = f"cell {work.scenario.name}, arm {work.arm}, iteration {iteration + 1}"
            raise ArmError(f"{where}: {words}", arm_traceback(error)) from error
        if iteration:
            own = {ident: one for ident, one in bytecodes.threads.items() if ident not in others}
            elsewhere = sum(own.values(), start=Counter())
            work.delegated.bytecodes += elsewhere["bytecodes"]
            _add(work, workload, crossings, bytecodes.here + elsewhere, output)

    @contextlib.contextmanager
    def _own_random(self) -> Iterator[None]:
        """Have the module ``random`` draw for the arm what it draws whatever others draw."""
        before = random.getstate()
        random.setstate(self._random)
        try:
            yield
        finally:
            self._random = random.getstate()
            random.setstate(before)


def _counted_call(
    arm: SchedulerOutputManager,
    workload: Workload,
    counter: BytecodeCounter,
    settle: Callable[[Bytecodes], None],
) -> tuple[Crossings, Bytecodes, SchedulerOutput]:
    prepare = getattr(arm, "prepare", None)
    if prepare is not None:
        prepare(workload.batch, workload.async_requests, workload.manager)
    crossings = Crossings()
    arguments = (
        CountingBatch(workload.batch, crossings),
        CountingAsyncRequests(workload.async_requests, crossings),
        counting_manager(workload.manager, crossings),
    )
    with _no_collection(), counter.counting(settle) as bytecodes:
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


def _generated_code() -> set[int]:
    """Return by identity the code that dataclasses wrote for classes of the stand-ins.

    It names no file, and is work of the stand-ins like all their other code.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith(_STUBS_MODULES)]
    classes = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__.startswith(_STUBS_MODULES)
    }
    members = [member for kind in classes for member in vars(kind).values()]
    codes = [member.__code__ for member in members if isinstance(member, FunctionType)]
    # By identity, since code is equal to its like in another class.
    return {id(code) for code in codes if not code.co_filename.startswith(_STUBS)}


def _kind_of(generated: set[int], code: CodeType) -> str | None:
    """Return what an instruction of ``code`` counts as."""
    if code.co_filename == __file__ or id(code) in generated:
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
    step = {
        "native_calls": crossings.calls.total(),
        "arguments": crossings.arguments,
        **crossings.marshalled,
        "objects": crossings.objects + _own_objects(output, crossings),
        "bytecodes": bytecodes["bytecodes"],
        "engine_bytecodes": bytecodes["engine_bytecodes"],
        "pickled_bytes": len(pickle.dumps(output, protocol=5)),
    }
    work.steps.append(step)
    for name, value in step.items():
        work.totals[name] += value


def _own_objects(output: SchedulerOutput, crossings: Crossings) -> int:
    """Return how many objects of the output no native call returned: its data and lists."""
    known = set(map(id, crossings.kept))
    own = {id(output), *(id(field_of(output, name)) for name in REQUESTS)}
    for data in requests_of(output):
        own.add(id(data))
        for values in (field_of(data, name) for name in field_names(data)):
            if isinstance(values, list | dict):
                own.add(id(values))
                groups = values.values() if isinstance(values, dict) else values
                own.update(id(group) for group in groups if isinstance(group, list))
    return len(own - known)
