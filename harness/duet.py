"""The duet: two near-equal arms on the same workload state, and a control that says how noisy.

The unit of inference is the process. Each has its own hash seed, input seed, import order and order
of the arms in each iteration. It loads either arm twice, as modules of their own, and runs all four
in every iteration. Its effect is the mean of the median log ratios of each copy of the second arm
to each of the first: where a copy happens to lie in memory, and what disturbs a single call, weighs
half. Its control is what the second copies differ by from the first ones, of the same samples: that
is as noisy as the effect, and the code is the same.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from scenarios.errors import WorkerError
from scenarios.scenario import SteadyDecode, TraceReplay
from stubs.providers import DEFAULT_PROVIDER

from .child import hash_seed, run_child
from .sources import ArmSource
from .verdict import NOT_MEASURED, Kind, Process, Rule, Verdict, judge, settle

# Of both arms together, in each process.
COPIES = 4
WARMUPS = 10
MOST_ITERATIONS = 150
_LEAST_ITERATIONS = 30
# How long a process measures unless its fewest iterations take longer: starting it costs about as
# much.
_SECONDS_OF_PROCESS = 0.25
# Beyond it, in seconds, a clock was tampered with.
_LONGEST_SAMPLE = 1e6
# After which a worker counts as hanging: far more than its fewest iterations take.
_TIMEOUT = 120.0
_TIMEOUT_PER_TOKEN = 1e-4

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
        cpu: the core that workers are pinned to; None for no pinning.
        provider: where the stand-ins come from.
        comparisons: how many comparisons are made together, where they are more than the cells.
        gc: whether the garbage collector runs during the measurement.
    """

    a: ArmSource
    b: ArmSource
    scenarios: tuple[SteadyDecode | TraceReplay, ...]
    threshold: float = 0.005
    seconds: float = 10.0
    seed: int = 0
    cpu: int | None = None
    provider: str = DEFAULT_PROVIDER
    comparisons: int = 1
    gc: bool = False

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


def compare_cell(
    duet: Duet,
    scenario: SteadyDecode | TraceReplay,
    progress: Callable[[str], None] = lambda _what: None,
    draw: Callable[[], Process] | None = None,
    clock: Callable[[], float] | None = None,
) -> CellResult:
    """Compare the arms in one cell.

    Looks now and then, goes on while there is no verdict, and repeats a difference in fresh
    processes before it is said.

    Args:
        duet: what is compared.
        scenario: the cell.
        progress: called before each process with what it is for.
        draw: returns what the next process says, instead of running one.
        clock: the time in seconds; by default the real one.
    """
    result = CellResult(scenario)
    now = clock or time.monotonic
    began = now()

    def collect(processes: list[Process], rule: Rule, wanted: Kind | None = None) -> Verdict:
        # After the first run there has to be time for the shortest second one.
        reserve = _FIRST_LOOK if wanted is None else 0
        look = _FIRST_LOOK
        while True:
            progress(f"{scenario.name}, {'first' if wanted is None else 'second'} run")
            processes.append(draw() if draw else _run_process(duet, scenario, result))
            if len(processes) < look:
                continue
            verdict = judge(processes, rule)
            is_clear = (
                verdict.kind != Kind.INCONCLUSIVE if wanted is None else verdict.kind == wanted
            )
            look = _next_look(look)
            done = len(result.first) + len(result.second)
            needed = done + look - len(processes) + reserve
            is_over = (now() - began) / done * needed > duet.seconds
            if is_clear or is_over or look > _MOST_PROCESSES:
                return verdict

    try:
        result.verdict = collect(result.first, duet.rule)
        if result.verdict.is_difference:
            # One cell is asked once more: there are no others to make up for.
            once_more = Rule(duet.threshold)
            again = collect(result.second, once_more, result.verdict.kind)
            result.verdict = settle(result.verdict, again)
    except WorkerError as error:
        result.failure = str(error)
        result.verdict = Verdict(Kind.INCONCLUSIVE, result.failure)
    result.took = now() - began
    return result


def processes_within(seconds: float, each: float) -> int:
    """Return how many processes the first run of a cell has that stays without a verdict.

    Args:
        seconds: the cell's time.
        each: what a process takes, in seconds.
    """
    count = _FIRST_LOOK
    while (look := _next_look(count)) <= _MOST_PROCESSES:
        if (look + _FIRST_LOOK) * each > seconds:
            break
        count = look
    return count


def _next_look(look: int) -> int:
    """Return after how many processes a verdict is looked for again: ever more seldom."""
    return look + max(2, look // 8)


def _run_process(duet: Duet, scenario: SteadyDecode | TraceReplay, result: CellResult) -> Process:
    """Run the cell's next process, keep its samples, and return what it says."""
    number = len(result.samples)
    job = {
        "sources": [asdict(source) for source in (duet.a, duet.b, duet.a, duet.b)],
        "scenario": scenario.to_dict(),
        "seed": f"{duet.seed}-{scenario.name}-{number}",
        "cpu": duet.cpu,
        "provider": duet.provider,
        "warmups": WARMUPS,
        "least": _LEAST_ITERATIONS,
        "most": MOST_ITERATIONS,
        "seconds": _SECONDS_OF_PROCESS,
        "gc": duet.gc,
    }
    what = f"cell {scenario.name}, process {number + 1}"
    tokens = scenario.requests * scenario.tokens if isinstance(scenario, SteadyDecode) else 0
    timeout = _TIMEOUT + _TIMEOUT_PER_TOKEN * tokens
    command = [sys.executable, "-P", "-m", "harness.duet_worker"]
    text = run_child(what, command, hash_seed(duet.seed, number), json.dumps(job), timeout)
    try:
        found = json.loads(text)
        process = summarise(found["seconds"], found["cpu_share"])
        imports, orders = found["imports"], found["orders"]
        _check_orders(imports, orders)
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise WorkerError(f"{what}: the worker returned no result: {error}") from None
    result.samples.append(found["seconds"])
    result.imports.append(imports)
    result.orders.append(orders)
    return process


def _check_orders(imports: Sequence[int], orders: Sequence[Sequence[int]]) -> None:
    """Raise ValueError unless each is an order of all copies."""
    if any(sorted(order) != list(range(COPIES)) for order in (imports, *orders)):
        raise ValueError("the orders are none")


def summarise(seconds: list[list[float]], cpu_share: float) -> Process:
    """Return what one process says.

    Args:
        seconds: of each iteration, of the first arm, the second, and the second copy of either.
        cpu_share: CPU time over wall time.

    Raises:
        ValueError: the samples are no positive numbers, or not as many for each arm.
    """
    a, b, a_again, b_again = seconds
    if not all(0 < sample < _LONGEST_SAMPLE for copy in seconds for sample in copy):
        raise ValueError("a sample is no time")
    if not math.isfinite(cpu_share):
        raise ValueError("the share of the core is no number")
    return Process(
        statistics.fmean(
            _log_ratio(*pair) for pair in itertools.product((b, b_again), (a, a_again))
        ),
        statistics.fmean((_log_ratio(a_again, a), _log_ratio(b_again, b))),
        cpu_share,
        (statistics.median(a + a_again), statistics.median(b + b_again)),
    )


def _log_ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(math.log(x / y) for x, y in zip(above, below, strict=True))
