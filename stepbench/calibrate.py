"""``stepbench calibrate``."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from typing import TYPE_CHECKING

import click

from harness.calibrate.calibration import LENGTHS, Cost
from harness.speedup.file import ResultsWriter, check_writable, load
from harness.speedup.isolated import Event, measure
from harness.speedup.plan import MAX_COUNT, QUICK, Plan
from harness.speedup.schedule import Schedule
from harness.system.cores import choose_cpu, keep_off, lock_cpu, pinned
from harness.system.worker_process import hash_seed, module_command, read_answer, run_child
from harness.verify.runs import verify_briefly
from scenarios.catalogue import find_scenarios
from scenarios.selection import split
from stepbench_core.errors import InputError, WorkerError
from stubs.providers import PROVIDERS, absent

from .cli import code_of
from .messages import say
from .metadata import run_metadata
from .options import (
    check_provider,
    chosen_format,
    cpu_option,
    format_options,
    quiet_option,
    unused_file,
)
from .progress import CountingProgress, MeasuringProgress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TIMEOUT = 300.0
_ARMS = ("full-copy", "incremental")


@click.command()
@click.option("--providers", metavar="LIST", help="Providers.  [default: those that are there]")
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_COUNT),
    default=3,
    show_default=True,
    help="Processes of each provider.",
)
@cpu_option
@click.option("--no-table", is_flag=True, help="Leave out the speedup table on each provider.")
@quiet_option
@format_options(("terminal", "markdown", "json"))
def command(
    *,
    providers: str | None,
    processes: int,
    cpu: str | None,
    no_table: bool,
    quiet: bool,
    style: str | None,
    as_json: bool,
) -> int:
    """Show what the stand-ins' calls cost.

    Nanoseconds per token, page index, hash, request or call, for each provider, beside what is
    published of the real calls. The providers take turns in pinned processes of their own. Then the
    reference cells are measured on each of them, as by `stepbench speedup --quick`.

    \b
    Examples:
      stepbench calibrate
      stepbench calibrate --providers nanobind --processes 5 --json
    """
    chosen = chosen_format(style, as_json)
    names = split("providers", providers) if providers is not None else _present()
    names = [check_provider(name) for name in names]
    if len(set(names)) < len(names):
        raise InputError(f"providers {providers!r}: one is named twice")
    core = choose_cpu(cpu)
    costs: dict[str, list[Sequence[Cost]]] = {name: [] for name in names}
    try:
        with (
            lock_cpu(core),
            keep_off(core),
            CountingProgress(processes * len(names), "processes", quiet=quiet) as progress,
        ):
            for process in range(processes):
                for name in names if process % 2 == 0 else names[::-1]:
                    costs[name].append(_run(name, process, core))
                    progress.add(1)
        files = [] if no_table else [_speedup(name, core, quiet=quiet) for name in names]
    except WorkerError as error:
        say(str(error))
        return code_of(error)

    # pandas, which the reports import, takes a quarter of a second.
    from reports.speedup.calibration import write_calibration
    from reports.speedup.summary import summarise

    where = (
        f"Python {platform.python_version()}, host {platform.node()}, "
        f"{pinned(core)}, processes of each "
        f"provider: {processes}. Repeat with `{shlex.join(['stepbench', *sys.argv[1:]])}`."
    )
    summaries = [summarise(load(file)) for file in files]
    write_calibration(costs, summaries, where, chosen, sys.stdout)
    return 0


def _present() -> list[str]:
    return [name for name in PROVIDERS if absent(name) is None]


def _speedup(provider: str, cpu: int | None, *, quiet: bool) -> Path:
    """Measure the reference cells on a provider; return the results file."""
    plan = Plan(
        find_scenarios("reference"),
        _ARMS,
        QUICK,
        cpu=cpu,
        command=shlex.join(["stepbench", *sys.argv[1:]]),
        provider=provider,
    )
    file = unused_file(f"calibrate-{provider}")
    check_writable(file, force=False)
    found = verify_briefly(_ARMS, provider)
    verified = {"stepbench_verified_runs": 0 if found is None or found.failure else found.runs}
    writer = ResultsWriter(file, plan, run_metadata(cpu) | verified)

    schedule = Schedule(plan)

    def report(event: Event) -> None:
        writer.add(*event.results.values())
        progress.show(event)

    with (
        lock_cpu(cpu),
        keep_off(cpu),
        MeasuringProgress(plan, schedule, quiet=quiet) as progress,
    ):
        failures = measure(plan, schedule, report)
    if failures:
        raise failures[0]
    return file


def _run(provider: str, process: int, cpu: int | None) -> list[Cost]:
    what = f"provider {provider}, process {process + 1}"
    job = json.dumps({"provider": provider, "cpu": cpu, "lengths": LENGTHS})
    command = module_command("harness.calibrate.worker")
    text = run_child(what, command, hash_seed(0, process), job, _TIMEOUT)
    return read_answer(what, text, lambda costs: [Cost(**cost) for cost in costs])
