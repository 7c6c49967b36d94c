"""The measurement of ``stepbench overlap``: processes that run the executor's loop, cell by cell.

Each process runs all arms in both orders, in random turn, each on a workload of its own made from
the same seed; inference is over processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from harness.arms.sources import ArmSource
from harness.forward.forward_time import ForwardTime
from harness.forward.roofline import steady_work
from harness.stats.estimates import is_finite
from harness.system.worker_process import hash_seed, module_command, read_answer, run_child
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import LostWorkerError, WorkerError
from stubs.providers import DEFAULT_PROVIDER

from .loop import Iteration
from .model import Sample, summarise
from .worker import FIELDS

WARMUPS = 5
# A trace needs more of them, since its batches differ. In a cheap cell more of them cost little,
# and find an arm that is dear in every Nth step.
ITERATIONS, ITERATIONS_OF_CHEAP, ITERATIONS_OF_TRACE = 20, 100, 100
# Tokens in the batch up to which a cell is cheap.
_CHEAP = 2**18
# After which a worker counts as hanging: what it may take to start, and for each token.
_TIMEOUT = 120.0
_TIMEOUT_PER_TOKEN = 1e-4
_SECONDS_OF_ITERATION = 0.5
# Beyond it, in seconds, a clock was tampered with.
_LONGEST = 1e6

DeviceKind = Literal["simulated", "cuda"]


@dataclass(frozen=True)
class OverlapPlan:
    """What is measured.

    Attributes:
        arms: the arms; the first is what the others are compared with.
        scenarios: the cells; each is run in both orders, whatever its ``overlap``.
        forward: where the time of a forward comes from.
        device: what runs it.
        other_host: seconds of other host work before each launch.
        swept: bytes that are read and written before each path; 0 for warm caches.
        processes: worker processes of a cell.
        iterations: measured iterations of an arm in an order; None for the defaults.
        seed: from which hash seeds, input seeds and orders are derived.
        cpu: the core that workers are pinned to; None for no pinning.
        provider: where the stand-ins come from.
    """

    arms: tuple[ArmSource, ...]
    scenarios: tuple[SteadyDecode | TraceReplay, ...]
    forward: ForwardTime
    device: DeviceKind = "simulated"
    other_host: float = 0.0
    swept: int = 0
    processes: int = 4
    iterations: int | None = None
    seed: int = 0
    cpu: int | None = None
    provider: str = DEFAULT_PROVIDER

    def iterations_of(self, scenario: SteadyDecode | TraceReplay) -> int:
        """Return the measured iterations of an arm in an order."""
        if self.iterations:
            return self.iterations
        if isinstance(scenario, TraceReplay):
            return ITERATIONS_OF_TRACE
        is_cheap = scenario.requests * scenario.tokens <= _CHEAP
        return ITERATIONS_OF_CHEAP if is_cheap else ITERATIONS

    def advances(self, scenario: SteadyDecode | TraceReplay) -> int:
        """Return how often a workload is advanced."""
        return WARMUPS + self.iterations_of(scenario) + 1

    def seed_of(self, process: int) -> str:
        """Return the input seed of a process."""
        return f"{self.seed}-{process}"


@dataclass
class CellRun:
    """What was measured of one cell.

    Attributes:
        scenario: the cell.
        processes: what each process returned, as ``harness.overlap.worker.measure`` does.
        failure: why a worker gave no result; None if all did.
    """

    scenario: SteadyDecode | TraceReplay
    processes: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None


def run_cell(
    plan: OverlapPlan,
    scenario: SteadyDecode | TraceReplay,
    progress: Callable[[], None] = lambda: None,
) -> CellRun:
    """Run the processes of one cell.

    Args:
        plan: what is measured.
        scenario: the cell.
        progress: called after each process that gave a result.
    """
    run = CellRun(scenario)
    for process in range(plan.processes):
        try:
            run.processes.append(_run_process(plan, scenario, process))
        except LostWorkerError:
            raise
        except WorkerError as error:
            run.failure = str(error)
            return run
        progress()
    return run


def samples_of(plan: OverlapPlan, run: CellRun) -> dict[tuple[int, bool], list[Sample]]:
    """Return what each process says, by arm and order.

    Raises:
        ValueError: what a process returned is not what it should.
    """
    found: dict[tuple[int, bool], list[Sample]] = {
        (arm, overlap): [] for arm in range(len(plan.arms)) for overlap in (False, True)
    }
    is_steady = isinstance(run.scenario, SteadyDecode)
    for process in run.processes:
        for (arm, overlap), iterations in read_segments(process["segments"]).items():
            found[arm, overlap].append(summarise(iterations, overlap=overlap, is_steady=is_steady))
    return found


def read_segments(
    segments: Sequence[dict[str, Any]],
) -> dict[tuple[int, bool], list[Iteration]]:
    """Return the iterations of a process by arm and order.

    Raises:
        ValueError: a time is none, or there are not as many of each kind.
    """
    found = {}
    for segment in segments:
        columns = [segment[name] for name in FIELDS]
        iterations = [Iteration(*values) for values in zip(*columns, strict=True)]
        times = [time for column in columns for time in column]
        if len(iterations) < 2 or not all(map(_is_time, times)):
            raise ValueError("a sample is no time")
        key = segment["arm"], segment["overlap"]
        if not all(isinstance(name, str) for name in segment["alive"]):
            raise ValueError("what a path left behind has no name")
        if type(key[0]) is not int or type(key[1]) is not bool or key in found:
            raise ValueError("a segment is none of the arms' in one of the orders")
        found[key] = iterations
    return found


def alive_of(run: CellRun, arm: int) -> tuple[str, ...]:
    """Return the names of the threads and child processes that the path of an arm left behind."""
    segments = [segment for process in run.processes for segment in process["segments"]]
    names = {name for segment in segments if segment["arm"] == arm for name in segment["alive"]}
    return tuple(sorted(names))


def check_process(plan: OverlapPlan, found: dict[str, Any]) -> dict[str, Any]:
    """Return what a process found: of all arms in both orders, and what it says of itself.

    Raises:
        ValueError: it did not; a KeyError or a TypeError where something is missing altogether.
    """
    wanted = {(arm, overlap) for arm in range(len(plan.arms)) for overlap in (False, True)}
    if read_segments(found["segments"]).keys() != wanted:
        raise ValueError("segments are missing")
    if not _is_time(found["cpu_share"]):
        raise ValueError("the share of the core is no number")
    about = found["device"]
    states = [about[when] for when in ("state_before", "state_after")] if about else []
    counts = [about[name] for name in ("layers", "layers_held")] if about else []
    if not all(isinstance(state, dict) for state in (about, *states)):
        raise ValueError("what the device says of itself is none")
    if any(type(count) is not int for count in counts):
        raise ValueError("the number of layers is none")
    return found


def cpu_share(run: CellRun) -> float:
    """Return the smallest share of its core that a process got; 1 where there is none."""
    return min((process["cpu_share"] for process in run.processes), default=1.0)


def _is_time(value: Any) -> bool:  # noqa: ANN401
    # A difference of two readings of a clock may be nothing, and by rounding a little less.
    return type(value) in (int, float) and is_finite(value) and -1e-6 < value < _LONGEST


def _run_process(
    plan: OverlapPlan, scenario: SteadyDecode | TraceReplay, process: int
) -> dict[str, Any]:
    job = {
        "sources": [asdict(source) for source in plan.arms],
        "scenario": scenario.to_dict(),
        "seed": plan.seed_of(process),
        "cpu": plan.cpu,
        "provider": plan.provider,
        "forward": plan.forward.to_dict(),
        "device": plan.device,
        "other_host": plan.other_host,
        "swept": plan.swept,
        "warmups": WARMUPS,
        "iterations": plan.iterations_of(scenario),
    }
    what = f"cell {scenario.name}, process {process + 1}"
    command, seed = module_command("harness.overlap.worker"), hash_seed(plan.seed, process)
    text = run_child(what, command, seed, json.dumps(job), _timeout(plan, scenario))
    return read_answer(what, text, partial(check_process, plan))


def _timeout(plan: OverlapPlan, scenario: SteadyDecode | TraceReplay) -> float:
    """Return the seconds after which a worker counts as hanging: generously more than it takes."""
    forward = plan.forward.seconds or 0.0
    tokens = 0
    if isinstance(scenario, SteadyDecode):
        tokens = steady_work(scenario).cached
    segments = 2 * len(plan.arms)
    of_iteration = _SECONDS_OF_ITERATION + forward + plan.other_host
    return (
        _TIMEOUT
        + segments * plan.advances(scenario) * of_iteration
        + segments * tokens * _TIMEOUT_PER_TOKEN
    )
