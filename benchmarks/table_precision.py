"""How precise the speedup table is on this machine, and whether its runs agree with each other.

Measures the default cells several times in two ways in turn: as `stepbench speedup` does, the arms
of a cell taking turns at rounds, and one process after the other, in the same time. With --hog a
process on another core is busy for a few seconds, rests for a few, and so on.

    python benchmarks/table_precision.py
    python benchmarks/table_precision.py --hog --times 3
    python benchmarks/table_precision.py --cells 64x2048 --seconds 10 --times 2
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click

from harness.speedup.isolated import default_timeout, measure, run_jobs
from harness.speedup.plan import PRECISION, SECONDS, Job, Plan
from harness.speedup.precision import log_ratio, ratio_of, reach, round_medians
from harness.speedup.schedule import Schedule
from harness.stats.estimates import Estimate
from harness.system.affinity import allowed_cpus
from harness.system.cores import choose_cpu, keep_off, lock_cpu
from harness.system.fingerprint import identity
from harness.system.worker_process import started
from reports.render.markdown import render_table
from reports.render.numbers import format_ratio, format_share
from reports.render.table import Table, figures, names
from scenarios.selection import Source, select

Ratios = dict[str, Estimate]
_ARMS = ("full-copy", "incremental")
# Busy and idle for a random time of so many seconds each.
_HOG = """
import os, random, sys, time
os.sched_setaffinity(0, map(int, sys.argv[1:]))
while True:
    end = time.perf_counter() + random.uniform(1, 5)
    while time.perf_counter() < end:
        pass
    time.sleep(random.uniform(1, 5))
"""


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option("--cells", help="As of `stepbench speedup`.  [default: the reference cells]")
@click.option(
    "--times", type=click.IntRange(2), default=3, show_default=True, help="Runs of either way."
)
@click.option(
    "--seconds", type=click.FloatRange(1), help="Of a run.  [default: 90 s for eight cells]"
)
@click.option("--hog", is_flag=True, help="Keep another core busy now and then.")
def main(cells: str | None, times: int, seconds: float | None, hog: bool) -> None:
    """Print the tables."""
    scenarios, _ = select(Source(cells=cells), {})
    plan = Plan(
        tuple(scenarios),
        _ARMS,
        cpu=choose_cpu(None),
        precision=PRECISION,
        seconds=seconds or SECONDS * len(scenarios),
    )
    ways: dict[str, Callable[[Plan], Ratios]] = {
        "taking turns": _in_turns,
        "one after the other": _one_by_one,
    }
    found: dict[str, list[Ratios]] = {way: [] for way in ways}
    took: dict[str, list[float]] = {way: [] for way in ways}
    with lock_cpu(plan.cpu), keep_off(plan.cpu), _hog(plan.cpu) if hog else _nothing():
        for number in range(times):
            for way, run in ways.items():
                click.echo(f"run {number + 1} of {times}, {way}", err=True)
                began = time.monotonic()
                found[way].append(run(replace(plan, seed=number)))
                took[way].append(time.monotonic() - began)
    for way, runs in found.items():
        click.echo(_report(way, plan, runs, took[way]))
    beside = "beside a process that was busy now and then on another core" if hog else "undisturbed"
    click.echo(f"Machine {identity().get('stepbench_machine', 'unknown')}, {beside}.")


def _in_turns(plan: Plan) -> Ratios:
    runs: dict[Job, Sequence[float]] = {}
    measure(
        plan,
        Schedule(plan),
        lambda event: runs.update({job: one.get_values() for job, one in event.results.items()}),
    )
    return _ratios(plan, runs, is_looked_at=True)


def _one_by_one(plan: Plan) -> Ratios:
    """Measure each process alone, the arms of a cell in turn, until the time is over."""
    runs: dict[Job, Sequence[float]] = {}
    end, took = time.monotonic() + plan.seconds, 0.0
    for process in itertools.count():
        began = time.monotonic()
        for scenario in plan.scenarios:
            for job in plan.group(scenario, process)[:: -1 if process % 2 else 1]:
                (outcome,) = run_jobs(plan, [job], default_timeout(plan, job)).values()
                if isinstance(outcome, Exception):
                    raise outcome
                runs[job] = outcome.get_values()
        took = max(took, time.monotonic() - began)
        if process and time.monotonic() + took > end:
            break
    return _ratios(plan, runs, is_looked_at=False)


def _ratios(plan: Plan, runs: dict[Job, Sequence[float]], *, is_looked_at: bool) -> Ratios:
    """Return the speedup in each cell.

    Where processes ran one after the other, rounds did not follow each other: the ratio is that of
    their medians.
    """
    found = {}
    for scenario in plan.scenarios:
        logs = []
        for process in sorted({job.process for job in runs if job.scenario == scenario}):
            above, below = (
                round_medians(runs[Job(scenario, arm, process)], plan.protocol.samples)
                for arm in plan.arms
            )
            if is_looked_at:
                logs.append(log_ratio(above, below))
            else:
                logs.append(math.log(statistics.median(above) / statistics.median(below)))
        found[scenario.name] = ratio_of(logs, is_looked_at=is_looked_at)
    return found


def _report(way: str, plan: Plan, runs: Sequence[Ratios], took: Sequence[float]) -> str:
    """Return the table of one way of measuring, and how its runs agree."""
    rows = [
        (
            name,
            *(format_ratio(run[name]) for run in runs),
            f"±{format_share(max(reach(run[name]) for run in runs))}",
        )
        for name in runs[0]
    ]
    titles = (*(f"Run {number + 1}" for number in range(len(runs))), "Widest")
    head = (*names("Cell"), *figures(*titles))
    ratios = [ratio for run in runs for ratio in run.values()]
    narrow = sum(reach(ratio) <= PRECISION for ratio in ratios)
    pairs = [
        first[name].low <= second[name].value <= first[name].high
        for first, second in itertools.permutations(runs, 2)
        for name in first
    ]
    times = f"{min(took):.0f} to {max(took):.0f} s"
    return (
        f"{way.capitalize()}, {times} a run of {plan.seconds:.0f} s:\n\n"
        f"{render_table(Table.of(head, rows))}\n\n"
        f"{narrow} of {len(ratios)} intervals are within ±{format_share(PRECISION)}. Of the values "
        f"of one run, {statistics.fmean(pairs):.0%} lie in the interval of another one. Both err: "
        "an interval that holds the truth in 95 % holds the value of another run in 83 %.\n"
    )


@contextlib.contextmanager
def _hog(cpu: int | None) -> Iterator[None]:
    """Keep the other cores busy now and then, or any where nothing is pinned."""
    others = [core for core in allowed_cpus() if core != cpu] or allowed_cpus()
    with started([sys.executable, "-S", "-c", _HOG, *map(str, others)], stdout=subprocess.DEVNULL):
        yield


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


if __name__ == "__main__":
    main()
