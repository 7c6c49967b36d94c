"""The processes of a duet: what each is told, and what it says."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from harness.stats.means import means_of
from harness.system.cores import available_memory
from harness.system.worker_process import (
    Child,
    hash_seed,
    module_command,
    read_answer,
    run_children,
)
from scenarios.scenario import SteadyDecode
from scenarios.workload import check_feasible
from stepbench_core.errors import LostWorkerError, NotRunnableError, WorkerError
from subjects.base import Cell

from .duet import COPIES, CellResult, Duet, Scenario
from .verdict import Process

# How the leader of a group calls an error that one of its workers met.
_LED = {"refused": NotRunnableError, "lost": LostWorkerError, "failed": WorkerError}
WARMUPS = 10
# Of whole turns of four orders. More where steps are cheap, so that an arm that is dear in every
# Nth step is found for a larger N, as long as sequences do not grow by much meanwhile.
_MOST_ITERATIONS = (152, 1_000)
_MOST_GROWTH = 0.15
_LEAST_ITERATIONS = 32
# How long a process measures after its warm-up, unless its fewest iterations take longer: starting
# it costs about as much.
_SECONDS_OF_PROCESS = 0.3
# Beyond it, in seconds, a clock was tampered with.
_LONGEST_SAMPLE = 1e6
# After which a worker counts as hanging: far more than its fewest iterations take.
_TIMEOUT = 120.0
_TIMEOUT_PER_TOKEN = 1e-4


def most_iterations(scenario: Scenario) -> int:
    """Return how many iterations a process measures at most, if they are cheap."""
    few, many = _MOST_ITERATIONS
    if isinstance(scenario, Cell):
        return many
    tokens = scenario.tokens if isinstance(scenario, SteadyDecode) else 0
    return COPIES * (min(many, max(few, int(_MOST_GROWTH * tokens))) // COPIES)


def check_memory(scenarios: Sequence[Scenario], cpus: int, seed: int) -> None:
    """Raise InputError unless the memory is there for all copies on so many cores at once."""
    # Their kept tokens are the most of it, and what copies of their own processes add is the world.
    memory, at_once = available_memory(), COPIES * max(1, cpus)
    for scenario in scenarios:
        if isinstance(scenario, Cell):
            continue  # What a user's own world takes is not known.
        iterations = WARMUPS + most_iterations(scenario)
        check_feasible(scenario, iterations, f"{seed}", memory, at_once)


def run_processes(
    duet: Duet,
    scenario: Scenario,
    cores: Sequence[int | None],
    result: CellResult,
) -> list[Process]:
    """Run the cell's next processes, one on each core, keep their samples; return what they say."""
    numbers = itertools.count(len(result.samples))
    children = [_child(duet, scenario, next(numbers), core) for core in cores]
    texts = run_children(children, (1 + COPIES * duet.is_apart) * _limit(scenario))
    read = [
        read_answer(child.what, text, _read) for child, text in zip(children, texts, strict=True)
    ]
    for core, (_, found) in zip(cores, read, strict=True):
        result.samples.append(found["seconds"])
        result.imports.append(found["imports"])
        result.orders.append(found["orders"])
        result.cores.append(core)
        result.background.append(found["background"])
        result.alive = [
            sorted({*known, *more})
            for known, more in zip(result.alive, found["alive"], strict=True)
        ]
    return [process for process, _ in read]


def _limit(scenario: Scenario) -> float:
    """Return the seconds after which a worker counts as hanging."""
    tokens = scenario.requests * scenario.tokens if isinstance(scenario, SteadyDecode) else 0
    return _TIMEOUT + _TIMEOUT_PER_TOKEN * tokens


def _child(duet: Duet, scenario: Scenario, number: int, core: int | None) -> Child:
    """Return the worker that is a cell's process of this number."""
    what, seed = f"cell {scenario.name}, process {number + 1}", hash_seed(duet.seed, number)
    job = {
        "subject": duet.subject,
        "sources": [asdict(source) for source in (duet.a, duet.b, duet.a, duet.b)],
        "scenario": scenario.to_dict(),
        "seed": f"{duet.seed}-{scenario.name}-{number}",
        "cpu": core,
        "provider": duet.provider,
        "warmups": WARMUPS,
        "least": _LEAST_ITERATIONS,
        "most": most_iterations(scenario),
        "seconds": _SECONDS_OF_PROCESS,
        "gc": duet.gc,
    }
    module = "harness.compare.worker"
    if duet.is_apart:
        module = "harness.compare.apart_leader"
        job |= {"what": what, "hash_seed": seed, "limit": _limit(scenario)}
    return Child(what, module_command(module), seed, json.dumps(job))


def _read(found: dict[str, Any]) -> tuple[Process, dict[str, Any]]:
    """Return what a process says, and all that it returned.

    Raises:
        ValueError: that is no result; or a KeyError or the like.
        WorkerError: it tells of a failure.
        NotRunnableError: a worker of the group met what is not here.
    """
    _check_led(found)
    process = summarise(found["seconds"], found["cpu_share"], found["background"])
    process = replace(process, is_restless=found["is_restless"] is True)
    _check_orders(found["imports"], found["orders"])
    _check_alive(found["alive"])
    return process, found


def _check_led(found: Mapping[str, str]) -> None:
    """Raise the error that the leader of a group met, if any."""
    for name, kind in _LED.items():
        if name in found:
            raise kind(found[name])


def _check_orders(imports: Sequence[int], orders: Sequence[Sequence[int]]) -> None:
    """Raise ValueError unless each is an order of all copies."""
    if any(sorted(order) != list(range(COPIES)) for order in (imports, *orders)):
        raise ValueError("the orders are none")


def _check_alive(alive: Sequence[Sequence[str]]) -> None:
    """Raise ValueError unless it is told of each copy what its calls left behind."""
    if len(alive) != COPIES:
        raise ValueError("not what calls of each copy left behind")


def summarise(
    seconds: list[list[float]], cpu_share: float, background: list[list[float]] | None = None
) -> Process:
    """Return what one process says.

    Args:
        seconds: of each iteration, of the first arm, the second, and the second copy of either.
        cpu_share: how much of its core the process had.
        background: CPU seconds that others spent for each of these calls; None for none.

    Raises:
        ValueError: the samples are no positive numbers, or not as many for each arm.
    """
    a, b, a_again, b_again = seconds
    if not all(0 < sample < _LONGEST_SAMPLE for copy in seconds for sample in copy):
        raise ValueError("a sample is no time")
    if not math.isfinite(cpu_share):
        raise ValueError("the share of the core is no number")
    if background is not None:
        if list(map(len, background)) != list(map(len, seconds)):
            raise ValueError("not as many CPU times as samples")
        if not all(0 <= spent < _LONGEST_SAMPLE for copy in background for spent in copy):
            raise ValueError("a CPU time is none")
    return Process(
        statistics.fmean(
            _log_ratio(*pair) for pair in itertools.product((b, b_again), (a, a_again))
        ),
        (_log_ratio(a_again, a), _log_ratio(b_again, b)),
        cpu_share,
        (statistics.median(a + a_again), statistics.median(b + b_again)),
        means_of(seconds, background),
    )


def _log_ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(math.log(x / y) for x, y in zip(above, below, strict=True))
