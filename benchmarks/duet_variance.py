"""Where the noise of a duet's process comes from: an arm against itself, its variance split up.

A process measures several segments, one after the other. Between them nothing is made anew, or the
four instances of the arm, or their modules as well, or the workload as well. What a segment says
varies by chance (its two halves differ), from segment to segment, and from process to process. If
making something anew moves variance from processes to segments, then that is what makes processes
differ: for instance where the instances happen to lie in memory.

    python benchmarks/duet_variance.py
    python benchmarks/duet_variance.py --cells v2-256x4096,v1-64x8192 --processes 40
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from harness.arms.loading import create, load_apart
from harness.arms.registry import SchedulerOutputManager
from harness.arms.sources import find_source
from harness.system.affinity import pin
from harness.system.cores import choose_cpus, keep_off, lock_cpu, pinned
from harness.system.fingerprint import identity
from harness.system.turns import balanced_orders
from harness.system.worker_process import Child, hash_seed, run_children, take_over_stdout
from reports.render.markdown import render_table
from reports.render.table import Table, figures, names
from scenarios.catalogue import find_scenarios
from scenarios.scenario import from_dict
from scenarios.workload import Workload, create_workload
from stepbench.options import check_provider

ARM = "incremental"
COPIES = 4
# What is made anew before each segment.
KINDS = ("nothing", "instances", "modules", "workload")
# Of a segment: what is measured, in whole squares of orders, and what goes before it.
ITERATIONS, WARMUPS = 32, 6
_TIMEOUT = 300.0


@dataclass(frozen=True)
class Variance:
    """Standard deviations of log ratios.

    Attributes:
        chance: of what a segment says, by chance alone.
        segments: of what segments of a process say, beyond that.
        processes: of what processes say, beyond both.
        process: of what a process says, all in all.
    """

    chance: float
    segments: float
    processes: float
    process: float


def split(effects: Sequence[Sequence[Sequence[float]]]) -> Variance:
    """Return the parts of the variance, by the method of moments.

    Args:
        effects: for each process and segment what the segment says, and what its halves say.
    """
    whole = np.array([[segment[0] for segment in process] for process in effects])
    halves = np.array([[segment[1] - segment[2] for segment in process] for process in effects])
    # The mean of two halves varies by a quarter of what their difference does.
    chance = float((halves**2).mean()) / 4
    within = float(whole.var(axis=1, ddof=1).mean())
    of_processes = float(whole.mean(axis=1).var(ddof=1))
    return Variance(
        math.sqrt(chance),
        math.sqrt(max(0.0, within - chance)),
        math.sqrt(max(0.0, of_processes - within / whole.shape[1])),
        math.sqrt(of_processes),
    )


def effect(logs: np.ndarray) -> float:
    """Return what iterations say of the second arm against the first, as a duet's process does.

    Args:
        logs: of each copy the logarithms of its times; copies of the second arm have odd numbers.
    """
    pairs = [np.median(logs[b] - logs[a]) for b in (1, 3) for a in (0, 2)]
    return float(statistics.fmean(pairs))


def measure(job: dict[str, Any]) -> list[list[float]]:
    """Return for each segment what it says, and what its two halves say."""
    source = find_source(ARM)
    names = (f"_variance_{number}" for number in range(1_000_000))
    modules: list[Any] = []
    arms: list[SchedulerOutputManager] = []
    workload: Workload | None = None
    rng = random.Random(job["seed"])
    found = []
    for segment in range(job["segments"]):
        kind = job["kind"] if segment else KINDS[-1]
        if workload is None or kind == "workload":
            total = (ITERATIONS + WARMUPS) * (1 if job["kind"] == "workload" else job["segments"])
            scenario, seed = from_dict(job["scenario"]), f"{job['seed']}-{segment}"
            workload = create_workload(scenario, total, seed, job["provider"])
        if not modules or kind == "modules":
            modules = [load_apart(source, next(names)) for _ in range(COPIES)]
        if kind != "nothing":
            arms = [create(module, source, attention_dp=False) for module in modules]
        gc.collect()
        gc.freeze()
        gc.disable()
        logs = np.log(_times(workload, arms, rng))
        first = (np.arange(ITERATIONS) // COPIES) % 2 == 0
        found.append([effect(logs), effect(logs[:, first]), effect(logs[:, ~first])])
    return found


def _times(
    workload: Workload, arms: Sequence[SchedulerOutputManager], rng: random.Random
) -> np.ndarray:
    """Return the seconds of each copy and measured iteration, as a duet's process takes them."""
    times = np.empty((COPIES, ITERATIONS))
    orders: list[list[int]] = []
    for iteration in range(-WARMUPS, ITERATIONS):
        if not orders or iteration == 0:
            orders = balanced_orders(COPIES, rng)
        workload.advance()
        read = workload.batch, workload.async_requests, workload.manager
        for index in orders.pop():
            began = time.perf_counter()
            output = arms[index].build_scheduler_output(*read)
            ended = time.perf_counter()
            del output
            if iteration >= 0:
                times[index, iteration] = ended - began
    return times


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option(
    "--cells",
    default="v2-64x2048,v2-256x2048,v2-256x4096,v1-64x8192",
    show_default=True,
    help="Of the scenario grid.",
)
@click.option("--processes", type=click.IntRange(2), default=24, show_default=True)
@click.option("--segments", type=click.IntRange(2), default=6, show_default=True)
@click.option("--worker", is_flag=True, hidden=True)
def main(cells: str, processes: int, segments: int, *, worker: bool) -> None:
    """Print a table."""
    if worker:
        result, job = take_over_stdout(), json.load(sys.stdin)
        if job["cpu"] is not None:
            pin(job["cpu"])
        result.write(json.dumps(measure(job)))
        result.flush()
        os._exit(0)
    cpus, provider = choose_cpus(None), check_provider("auto")
    known = {scenario.name: scenario for scenario in find_scenarios("grid")}
    rows = []
    with lock_cpu(*cpus), keep_off(*cpus):
        for name in cells.split(","):
            found: dict[str, list[list[list[float]]]] = {kind: [] for kind in KINDS}
            # All kinds in turn, so that what the machine does falls on all of them.
            while len(found[KINDS[0]]) < processes:
                for kind, own in found.items():
                    base = {"kind": kind, "segments": segments, "provider": provider}
                    base["scenario"] = known[name].to_dict()
                    children = [
                        _child({**base, "cpu": cpu, "seed": len(own) + place}, f"{name}, {kind}")
                        for place, cpu in enumerate(cpus or (None,))
                    ]
                    own.extend(map(json.loads, run_children(children, _TIMEOUT)))
            for kind, own in found.items():
                parts = split(own)
                shares = (parts.chance, parts.segments, parts.processes, parts.process)
                rows.append((name, kind, *(f"{share:.2%}" for share in shares)))
            click.echo(f"{name}: {processes} processes of each kind", err=True)
    head = (
        *names("Cell"),
        *figures("Made anew", "Chance", "Segments", "Processes", "What a process says"),
    )
    click.echo(render_table(Table.of(head, rows)))
    click.echo(
        f"\nStandard deviations of the ratio of `{ARM}` to itself: of what a segment of "
        f"{ITERATIONS} iterations says by chance, of what segments differ by beyond that, of what "
        f"processes of {segments} segments differ by beyond both, and of what a process says. "
        f"Provider {provider}; {pinned(*cpus)}; machine "
        f"{identity().get('stepbench_machine', 'unknown')}."
    )


def _child(job: dict[str, Any], what: str) -> Child:
    command = [sys.executable, "-P", __file__, "--worker"]
    return Child(what, command, hash_seed(0, job["seed"]), json.dumps(job))


if __name__ == "__main__":
    main()
