"""``stepbench compare``."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from harness.arms.loading import ArmOfSource
from harness.arms.sources import find_source
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.file import write_duet
from harness.compare.instructions import CellCount, Valgrind, count_cell, find_valgrind
from harness.compare.processes import check_memory
from harness.compare.run import compare_cell
from harness.compare.verdict import overall
from harness.speedup.file import check_writable
from harness.speedup.plan import check_distinct
from harness.system.cores import choose_cpus, lock_file
from harness.system.pool import FOREIGN_LIMIT
from harness.verify.runs import Contest, play_briefly
from scenarios.scenario import SteadyDecode, TraceReplay

from .cell_loop import measure_cells
from .cli import FOUND, INCONCLUSIVE
from .foreign import find_sources, runnable
from .messages import say, unread_is_fine
from .metadata import described_run
from .options import (
    chosen_format,
    cpus_option,
    format_options,
    gc_option,
    no_verify_option,
    provider_option,
    quiet_option,
    samples_options,
    seed_option,
    selected_scenarios,
    selection_options,
    share,
    unused_file,
)
from .progress import CountingProgress
from .surroundings import find_surroundings
from .verified import are_refused, verified_words


@click.command()
@click.argument("a")
@click.argument("b")
@selection_options
@click.option(
    "--threshold", default="0.5%", show_default=True, help="How much slower or faster matters."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Time budget of a cell.",
)
@seed_option
@cpus_option
@provider_option
@gc_option
@samples_options("compare")
@no_verify_option
@click.option("--apart", is_flag=True, help="Give each arm, and its copy, a process of its own.")
@click.option(
    "--instructions", is_flag=True, help="Count machine instructions instead; needs valgrind."
)
@quiet_option
@format_options(("terminal", "markdown", "json"))
def command(
    *,
    a: str,
    b: str,
    threshold: str,
    seconds: float,
    seed: int,
    cpu: str | None,
    provider: str,
    gc: str,
    output: Path | None,
    force: bool,
    no_verify: bool,
    apart: bool,
    instructions: bool,
    quiet: bool,
    style: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Compare two near-equal arms and give a verdict.

    Both arms, and a second copy of each as a control, run side by side on the same workload, in
    fresh processes until the verdict is clear or the time is over. B is slower or faster only if
    that is clear beyond the threshold and beyond what the copies of the same code differ by, and
    again when it is repeated. An arm is a name, trtllm:CHECKOUT[@REVISION] or another of those
    that stepbench list names.

    With --apart the copies run in four processes that take turns at single steps on one core: for
    arms that must not share an interpreter, such as those that patch what both import. It finds
    less in the same time.

    With --instructions nothing is timed: valgrind counts what each arm executes, three times over.
    That is exact and advisory: instructions are not time, and there is no verdict and no file.

    \b
    Exit codes: 0 no difference, or faster; 1 slower, the outputs differ, or a worker dies or hangs;
    3 inconclusive; 4 the revision has no such arm.
    With --instructions: 0 counted; 1 the outputs differ, or an arm fails; 3 the runs disagree.

    \b
    Examples:
      stepbench compare git:HEAD~1:incremental incremental
      stepbench compare trtllm:~/TensorRT-LLM@origin/main trtllm:~/TensorRT-LLM
      stepbench compare page-range batched --cells 64x2048,64x8192
      stepbench compare incremental incremental --cells 64x2048
      stepbench compare git:HEAD~1:batched batched --cells 64x2048 --apart --threshold 2%
      stepbench compare git:HEAD~1:batched batched --cells 64x2048 --instructions
    """
    chosen = chosen_format(style, as_json)
    if math.isnan(seconds):
        raise click.UsageError("--seconds takes a number of seconds")
    valgrind = find_valgrind() if instructions else None
    if valgrind is not None:
        _refuse_options_of_timing()
    scenarios = selected_scenarios(options)
    check_distinct(scenarios)
    # What cannot be imported is found before anything is measured.
    sources = find_sources(tuple(dict.fromkeys((a, b))))
    first, second = (ArmOfSource(sources.get(spec) or find_source(spec)) for spec in (a, b))
    scenarios = runnable(scenarios, {a: first, b: second})
    duet = Duet(
        first.source,
        second.source,
        scenarios,
        threshold=share("--threshold", threshold),
        seconds=seconds,
        seed=seed,
        cpus=() if instructions else choose_cpus(cpu),
        provider=provider,
        gc=gc == "on",
        is_apart=apart,
    )
    check_memory(scenarios, len(duet.cpus), seed)
    verification = None
    if not no_verify:
        contest = Contest({b: second}, a, first, provider)
        # What comes from elsewhere may end its process, or never come back.
        limit = FOREIGN_LIMIT if sources else None
        verification = play_briefly(contest, limit=limit)
    surroundings = find_surroundings((a, b), {a: duet.a, b: duet.b}, provider)
    told = {source.spec: source for source in (duet.a, duet.b) if source.origin}
    told |= {spec: source for spec, source in sources.items() if surroundings.concern(source)}
    named = surroundings.origins(told)
    if are_refused(verification, chosen, named):
        return FOUND
    words = verified_words(verification, named)
    metadata = described_run(duet.cpus, duet.provider, surroundings, *words)
    if valgrind is not None:
        duet = replace(duet, environment=surroundings.names)
        return _count(duet, valgrind, metadata, chosen, quiet=quiet)
    file = output or unused_file("compare")
    progress = CountingProgress(len(duet.scenarios), "cells", quiet=quiet)

    def compare(scenario: SteadyDecode | TraceReplay) -> CellResult:
        result = compare_cell(duet, scenario, progress.describe)
        progress.add(1)
        return result

    def write(results: Sequence[CellResult]) -> None:
        write_duet(file, duet, results, metadata)

    with lock_file(file):
        check_writable(file, force=force)
        measured = measure_cells(
            duet.scenarios, compare, progress, cpus=duet.cpus, file=file, write=write
        )
    results = measured.results
    if not results:
        return measured.code
    # pandas, which the reports import, takes a quarter of a second.
    from reports.kinds.duet import write_duet as write_report

    with unread_is_fine():
        write_report(duet, results, metadata, chosen, sys.stdout)
    if measured.is_kept and not quiet:
        say(f"samples kept in {file}")
    kind = overall(result.verdict.kind for result in results)
    return measured.exit_code({Kind.SLOWER: FOUND, Kind.INCONCLUSIVE: INCONCLUSIVE}.get(kind, 0))


def _count(
    duet: Duet, valgrind: Valgrind, metadata: dict[str, object], style: str, *, quiet: bool
) -> int:
    """Count instructions cell by cell and print them; return the exit code."""
    progress = CountingProgress(len(duet.scenarios), "cells", quiet=quiet)

    def count(scenario: SteadyDecode | TraceReplay) -> CellCount:
        progress.describe(scenario.name)
        result = count_cell(duet, scenario, valgrind)
        progress.add(1)
        return result

    measured = measure_cells(duet.scenarios, count, progress)
    results = measured.results
    is_exact = all(result.is_identical for result in results)
    if results:
        from reports.kinds.instructions import write_instructions

        with unread_is_fine():
            write_instructions(duet, valgrind, results, metadata, style, sys.stdout)
    return measured.exit_code(0 if is_exact else INCONCLUSIVE)


def _refuse_options_of_timing() -> None:
    """Raise click.UsageError if an option was given that says nothing where nothing is timed."""
    context = click.get_current_context()
    for name in ("threshold", "seconds", "cpu", "gc", "apart", "output", "force"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--instructions times nothing: --{name} does not go with it")
