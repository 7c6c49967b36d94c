"""``stepbench compare``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.arms.loading import ArmOfSource
from harness.arms.sources import find_source
from harness.compare.duet import CellResult, Duet, Scenario
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
from harness.verify.worlds import BRIEF_RUNS, BRIEF_STEPS, verify_worlds
from scenarios.scenario import SteadyDecode, TraceReplay
from subjects.base import Cell

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
from .own_function import OwnFunction, own_function, subject_option
from .progress import CountingProgress
from .surroundings import Surroundings, find_surroundings
from .verified import are_different, are_refused, verified_words

if TYPE_CHECKING:
    from reports.render.formats import Format


@click.command()
@click.argument("a")
@click.argument("b")
@subject_option
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
    subject: str | None,
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

    With --subject a function of your own is compared, with versions of your own packages as arms:
    git: (the work tree), git:REVISION or path:FOLDER, each with +FILE.patch behind it or not.

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
      stepbench compare git:main git: --subject bench_join.py
    """
    chosen = chosen_format(style, as_json)
    if math.isnan(seconds):
        raise click.UsageError("--seconds takes a number of seconds")
    valgrind = find_valgrind() if instructions else None
    if valgrind is not None:
        _refuse_options_of_timing()
    make = partial(
        Duet,
        threshold=share("--threshold", threshold),
        seconds=seconds,
        seed=seed,
        cpus=() if instructions else choose_cpus(cpu),
        provider=provider,
        gc=gc == "on",
        is_apart=apart,
    )
    keep = partial(_compare, style=chosen, output=output, force=force, quiet=quiet)
    if subject is not None:
        if valgrind is not None:
            raise click.UsageError("--instructions counts for the connector's arms alone")
        with own_function(subject, (a, b), options) as own:
            own_duet = _of_own_function(own, a, b, make, chosen, verifies=not no_verify)
            return FOUND if own_duet is None else keep(*own_duet)
    of_connector = _of_connector(a, b, make, chosen, options, verifies=not no_verify)
    if of_connector is None:
        return FOUND
    if valgrind is not None:
        return _count(*of_connector, valgrind, chosen, quiet=quiet)
    return keep(*of_connector)


_Prepared = tuple[Duet, dict[str, object]]


def _of_connector(
    a: str,
    b: str,
    make: Callable[..., Duet],
    style: str,
    options: Mapping[str, Any],
    *,
    verifies: bool,
) -> _Prepared | None:
    """Return the duet of two arms of the connector and its metadata; None where they differ."""
    scenarios = selected_scenarios(options)
    check_distinct(scenarios)
    # What cannot be imported is found before anything is measured.
    sources = find_sources(tuple(dict.fromkeys((a, b))))
    first, second = (ArmOfSource(sources.get(spec) or find_source(spec)) for spec in (a, b))
    scenarios = runnable(scenarios, {a: first, b: second})
    duet = make(first.source, second.source, scenarios)
    check_memory(scenarios, len(duet.cpus), duet.seed)
    verification = None
    if verifies:
        contest = Contest({b: second}, a, first, duet.provider)
        # What comes from elsewhere may end its process, or never come back.
        limit = FOREIGN_LIMIT if sources else None
        verification = play_briefly(contest, limit=limit)
    both = (first.source, second.source)
    surroundings = find_surroundings((a, b), {a: both[0], b: both[1]}, duet.provider)
    told = {source.spec: source for source in both if source.origin}
    told |= {spec: source for spec, source in sources.items() if surroundings.concern(source)}
    named = surroundings.origins(told)
    if are_refused(verification, style, named):
        return None
    words = verified_words(verification, named)
    metadata = described_run(duet.cpus, duet.provider, surroundings, *words)
    return replace(duet, environment=surroundings.names), metadata


def _of_own_function(
    own: OwnFunction, a: str, b: str, make: Callable[..., Duet], style: str, *, verifies: bool
) -> _Prepared | None:
    """Return the duet of two versions of a user's packages; None where their outputs differ."""
    duet = make(own.arms[a], own.arms[b], own.cells, subject=own.description)
    if own.is_native and not duet.is_apart:
        say("the packages have compiled modules: each copy gets a process of its own (--apart)")
        duet = replace(duet, is_apart=True)
    words = ["outputs not verified"]
    if verifies:
        found = verify_worlds(
            own.description,
            own.arms[a],
            [own.arms[b]],
            own.cells,
            runs=BRIEF_RUNS,
            steps=BRIEF_STEPS,
            seed=duet.seed,
        )
        if are_different(found, own, style):
            return None
        words = [f"outputs the same in {found.outcomes} steps first"]
    return duet, described_run(duet.cpus, None, Surroundings(), *own.words, *words)


def _compare(
    duet: Duet,
    metadata: dict[str, object],
    *,
    style: Format,
    output: Path | None,
    force: bool,
    quiet: bool,
) -> int:
    """Compare cell by cell, keep the samples and print the verdicts; return the exit code."""
    file = output or unused_file("compare")
    progress = CountingProgress(len(duet.scenarios), "cells", quiet=quiet)

    def compare(scenario: Scenario) -> CellResult:
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
        write_report(duet, results, metadata, style, sys.stdout)
    if measured.is_kept and not quiet:
        say(f"samples kept in {file}")
    kind = overall(result.verdict.kind for result in results)
    return measured.exit_code({Kind.SLOWER: FOUND, Kind.INCONCLUSIVE: INCONCLUSIVE}.get(kind, 0))


def _count(
    duet: Duet, metadata: dict[str, object], valgrind: Valgrind, style: str, *, quiet: bool
) -> int:
    """Count instructions cell by cell and print them; return the exit code."""
    progress = CountingProgress(len(duet.scenarios), "cells", quiet=quiet)

    def count(scenario: SteadyDecode | TraceReplay) -> CellCount:
        progress.describe(scenario.name)
        result = count_cell(duet, scenario, valgrind)
        progress.add(1)
        return result

    cells = [cell for cell in duet.scenarios if not isinstance(cell, Cell)]
    measured = measure_cells(cells, count, progress)
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
