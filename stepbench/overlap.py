"""``stepbench overlap``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from harness.arms.registry import ARMS, check_arms, split_arms
from harness.arms.sources import find_source
from harness.forward.specs import GPUS, MODELS
from harness.overlap.figures import figures
from harness.overlap.file import write_overlap
from harness.overlap.loop import sweep_size
from harness.overlap.run import CellRun, OverlapPlan, run_cell
from harness.speedup.file import check_writable
from harness.speedup.plan import MAX_COUNT, check_distinct
from harness.system.cores import available_memory, choose_cpu, lock_file
from harness.system.pool import FOREIGN_LIMIT
from harness.verify.runs import verify_briefly
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import check_feasible

from .cell_loop import measure_cells
from .cli import FOUND
from .foreign import find_sources, make_factories, runnable
from .forward import GPU, MODEL, check_cuda, forward_time, seconds
from .messages import say, unread_is_fine
from .metadata import described_run
from .options import (
    chosen_format,
    cpu_option,
    format_options,
    no_verify_option,
    provider_option,
    quiet_option,
    samples_options,
    seed_option,
    selected_scenarios,
    selection_options,
    unused_file,
)
from .progress import CountingProgress
from .surroundings import find_surroundings
from .verified import are_refused, verified_words


@click.command()
@selection_options
@click.option(
    "--arms",
    default="full-copy,incremental",
    show_default=True,
    metavar="LIST",
    help="Arms (stepbench list), or all: the ladder. The first is the base.",
)
@click.option("--forward-ms", type=float, help="What every forward takes, in ms.")
@click.option("--model", metavar="NAME", help=f"One of {', '.join(MODELS)}.  [default: {MODEL}]")
@click.option("--gpu", metavar="NAME", help=f"For a roofline: {', '.join(GPUS)}.  [default: {GPU}]")
@click.option("--gpus", type=click.IntRange(1, 64), help="GPUs that share a model.  [default: 1]")
@click.option(
    "--other-host-ms",
    type=float,
    default=0.0,
    show_default=True,
    help="Other host work before each launch, in ms.",
)
@click.option(
    "--device",
    type=click.Choice(["simulated", "cuda"]),
    default="simulated",
    show_default=True,
    help="What runs the forwards: a virtual GPU, or a real one, on which they are measured.",
)
@click.option(
    "--caches",
    type=click.Choice(["warm", "cold"]),
    default="warm",
    show_default=True,
    help="The host's caches before each path; cold: twice their size is read and written.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_COUNT),
    default=4,
    show_default=True,
    help="Processes of a cell.",
)
@click.option(
    "--iterations",
    type=click.IntRange(1, MAX_COUNT),
    help="Of each arm in either order.  [default: 20, of a trace 100]",
)
@seed_option
@cpu_option
@provider_option
@samples_options("overlap")
@no_verify_option
@quiet_option
@format_options(("terminal", "markdown", "json"))
def command(
    *,
    arms: str,
    forward_ms: float | None,
    model: str | None,
    gpu: str | None,
    gpus: int | None,
    other_host_ms: float,
    device: Literal["simulated", "cuda"],
    caches: str,
    processes: int,
    iterations: int | None,
    seed: int,
    cpu: str | None,
    provider: str,
    output: Path | None,
    force: bool,
    no_verify: bool,
    quiet: bool,
    style: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Show what of the host path the forward hides, or not.

    The executor's loop runs in the order of both schedulers with the real path in it, and is timed.
    The forward takes what --forward-ms says, or what the roofline of a --model on a --gpu gives,
    or, with --device cuda, what a synthetic forward of the model's shape takes on the GPU here.
    With overlap a path is exposed where the host's time is longer than the forward's. Step times
    are not the speed of a service.

    \b
    Exit codes: 0 done; 1 the outputs differ, or a worker dies or hangs; 2 no CUDA device here.

    \b
    Examples:
      stepbench overlap --cells 64x2048,64x8192
      stepbench overlap --requests 64 --tokens 2048,8192,32768 --model qwen2.5-7b --gpu b200
      stepbench overlap --arms full-copy,page-range --forward-ms 8 --other-host-ms 1.5
      stepbench overlap --trace azure_llm_2023_conv.csv --model llama-3.1-70b --gpu h200 --gpus 4
      stepbench overlap --device cuda --cells 64x2048
    """
    chosen = chosen_format(style, as_json)
    forward = forward_time(forward_ms, model, gpu, gpus, device)
    other_host = seconds("--other-host-ms", other_host_ms)
    if options["overlap"]:
        raise click.UsageError("--overlap says nothing here: both orders are always run")
    # Those of the catalogue that are in the overlap scheduler's order are run in both, too.
    found = [replace(scenario, overlap=False) for scenario in selected_scenarios(options)]
    check_distinct(found)
    if device == "cuda":
        check_cuda(found)
    names = tuple(ARMS) if arms.strip() == "all" else split_arms(arms)
    check_arms(names, floor=False)
    # What cannot be imported is found before anything is measured.
    sources = find_sources(names)
    factories = make_factories(names, sources)
    core = choose_cpu(cpu)
    plan = OverlapPlan(
        arms=tuple(sources.get(name) or find_source(name) for name in names),
        scenarios=runnable(found, factories),
        forward=forward,
        device=device,
        other_host=other_host,
        swept=sweep_size(core) if caches == "cold" else 0,
        processes=processes,
        iterations=iterations,
        seed=seed,
        cpu=core,
        provider=provider,
    )
    memory = available_memory()
    for scenario in plan.scenarios:
        check_feasible(scenario, plan.advances(scenario), plan.seed_of(0), memory)
    verification = None
    if not no_verify:
        # What comes from elsewhere may end its process, or never come back.
        limit = FOREIGN_LIMIT if sources else None
        verification = verify_briefly(factories, provider, limit=limit)
    surroundings = find_surroundings(names, sources, provider)
    named = surroundings.origins(sources)
    if are_refused(verification, chosen, named):
        return FOUND
    words = verified_words(verification, named)
    if len(plan.arms) == 1:
        words = words[1:]  # There is nothing to verify it against.
    cpus = () if plan.cpu is None else (plan.cpu,)
    metadata = described_run(cpus, plan.provider, surroundings, *words)
    file = output or unused_file("overlap")
    total = len(plan.scenarios) * plan.processes
    progress = CountingProgress(total, "processes", quiet=quiet)

    def measure(scenario: SteadyDecode | TraceReplay) -> CellRun:
        progress.describe(scenario.name)
        return run_cell(plan, scenario, lambda: progress.add(1))

    def write(runs: Sequence[CellRun]) -> None:
        write_overlap(file, plan, runs, metadata)

    with lock_file(file):
        check_writable(file, force=force)
        measured = measure_cells(
            plan.scenarios, measure, progress, cpus=cpus, file=file, write=write
        )
    runs = measured.results
    if not runs:
        return measured.code
    # pandas, which the reports import, takes a quarter of a second.
    from reports.kinds.overlap import write_overlap as write_report

    devices = [process["device"] for run in runs for process in run.processes]
    cells = [figures(plan, run) for run in runs]
    with unread_is_fine():
        write_report(plan, cells, devices, metadata, chosen, sys.stdout)
    if measured.is_kept and not quiet:
        say(f"samples kept in {file}")
    return measured.exit_code()
