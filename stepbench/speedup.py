"""``stepbench speedup``."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.arms.registry import check_arms, split_arms
from harness.arms.sources import ArmSource
from harness.speedup.file import (
    Results,
    ResultsWriter,
    changed_conditions,
    check_same_machine,
    check_writable,
    load,
)
from harness.speedup.isolated import Event, measure
from harness.speedup.plan import (
    DEFAULT,
    MAX_COUNT,
    PRECISION,
    QUICK,
    QUICK_PRECISION,
    QUICK_SECONDS,
    SECONDS,
    Plan,
    check_distinct,
    worker_seed,
)
from harness.speedup.schedule import Schedule
from harness.system.cores import available_memory, choose_cpu, keep_off, lock_cpu, lock_file
from harness.system.pool import FOREIGN_LIMIT
from harness.verify.runs import verify_briefly
from reports.kinds.equivalence import partial
from reports.render.words import counted
from scenarios.workload import check_feasible

from .cli import FOUND, INTERRUPTED, code_of
from .foreign import check_unchanged, find_sources, make_factories, runnable
from .messages import program, say, unread_is_fine
from .metadata import run_metadata
from .options import (
    check_provider,
    chosen_format,
    cpu_option,
    format_options,
    gc_option,
    no_verify_option,
    print_summaries,
    provider_option,
    quiet_option,
    seed_option,
    selected_scenarios,
    selection_options,
    share,
    unused_file,
)
from .progress import MeasuringProgress
from .surroundings import find_surroundings
from .verified import are_refused

# A worker that takes a day hangs, and nobody waits longer for a table.
_LONGEST = 86_400

# Options that say how to show, not what to measure: all that may stand beside --resume.
_WITH_RESUME = {"resume", "style", "as_json", "quiet", "timeout", "no_verify"}


@click.command()
@selection_options
@click.option(
    "--arms",
    default="full-copy,incremental",
    show_default=True,
    metavar="LIST",
    help="Arms (stepbench list), or all: the ladder and the floor. The first is the base.",
)
@click.option("--quick", is_flag=True, help="One round in a process, wide intervals: a first look.")
@click.option(
    "--precision",
    metavar="SHARE",
    help="Add processes until each ratio's interval is within it.  [default: 5%, quick 15%]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    help="Add none after so long.  [default: 11 s a cell and pair of arms, quick 2 s]",
)
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_COUNT),
    help="So many per cell and arm, whatever the precision.  [default: at least 4, quick 3]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, MAX_COUNT),
    help="Rounds of 15 samples.  [default: 9, quick 1]",
)
@seed_option
@cpu_option
@provider_option
@gc_option
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    help="Seconds that a worker may take to start, and for a round.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Results file.  [default: results/speedup-DATE-TIME.json]",
)
@click.option("--force", is_flag=True, help="Overwrite the results file.")
@click.option(
    "--resume", type=click.Path(path_type=Path), help="Carry on with an interrupted results file."
)
@no_verify_option
@quiet_option
@format_options()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    output: Path | None,
    force: bool,
    resume: Path | None,
    timeout: float | None,
    no_verify: bool,
    quiet: bool,
    style: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Measure the arms and print the speedup table.

    A few random runs first show that the arms give the same outputs; arms that differ are not
    timed. Each arm of each cell runs in pinned processes of its own; those of a cell take turns,
    round by round. Processes are added, where an interval is widest, until all ratios are precise
    or the time is over. Every sample is kept in the results file, which pyperf's commands read as
    well.

    \b
    Examples:
      stepbench speedup
      stepbench speedup --cells 16x8192,64x2048 --quick
      stepbench speedup --precision 2% --seconds 300
      stepbench speedup --requests 1,8,64 --tokens 64,512,4096 --manager v1
      stepbench speedup --layer-groups full,window=4096 --page-backend generator
      stepbench speedup --trace azure_llm_2023_conv.csv --max-batch 128
      stepbench speedup --arms trtllm:~/TensorRT-LLM@v1.2.0,trtllm:~/TensorRT-LLM,page-range
      stepbench speedup --resume results/speedup.json
    """
    chosen = chosen_format(style, as_json)
    if timeout is not None and not timeout <= _LONGEST:  # Nor not a number.
        raise click.UsageError(f"--timeout must be at most {_LONGEST:,} seconds")
    if resume is not None:
        _check_alone(ctx)
    plan = None if resume is not None else _plan(**options)
    file = resume or output or unused_file("speedup")
    # Held from before the file is looked at until it is complete, so that two runs cannot both
    # find it free, or carry on with the same half.
    with lock_file(file):
        resumed = None
        if plan is None:
            resumed = load(file)
            check_same_machine(resumed)
            plan = resumed.plan
        _check_plan(plan)
        sources = find_sources(plan.arms)
        factories = make_factories(plan.arms, sources)
        surroundings = find_surroundings(plan.arms, sources, plan.provider)
        if resumed is not None:
            check_unchanged(sources, plan.sources, str(file))
        else:
            digests = {arm: source.digest for arm, source in sources.items()}
            cells = runnable(plan.scenarios, factories)
            command = surroundings.command
            plan = replace(plan, sources=digests, scenarios=cells, command=command)
        check_writable(file, force=force or resume is not None)
        # What comes from elsewhere may end its process, or never come back.
        limit = FOREIGN_LIMIT if sources else None
        verification = None if no_verify else verify_briefly(factories, plan.provider, limit=limit)
        named = surroundings.origins(sources)
        if are_refused(verification, chosen, named):
            return FOUND
        verified = 0 if verification is None else verification.runs
        metadata = run_metadata(plan.cpu) | surroundings.as_metadata()
        metadata["stepbench_verified_runs"] = verified
        if resumed is not None:
            for line in changed_conditions(resumed, metadata):
                say(line)
        if named:
            metadata["stepbench_arms"] = json.dumps(named)
        if sources and verification is not None and partial(verification):
            metadata["stepbench_not_compared"] = " ".join(partial(verification))
        code, kept = _measure(plan, file, resumed, metadata, sources, timeout=timeout, quiet=quiet)
    if code == INTERRUPTED or not kept:
        return code  # There is no table to print.
    with unread_is_fine():
        print_summaries([file], chosen)
    if not quiet:
        say(
            f"samples kept in {file}; as Markdown: "
            f"{program()} report {shlex.quote(str(file))} --format markdown"
        )
    return code


def _plan(
    *,
    arms: str,
    quick: bool,
    precision: str | None,
    seconds: float | None,
    processes: int | None,
    rounds: int | None,
    seed: int,
    cpu: str | None,
    gc: str,
    provider: str,
    **options: Any,  # noqa: ANN401
) -> Plan:
    """Return what the options ask for. Raises InputError."""
    scenarios = selected_scenarios(options)
    names = split_arms(arms)
    protocol = QUICK if quick else DEFAULT
    reach: float | None = QUICK_PRECISION if quick else PRECISION
    if precision is not None:
        reach = share("--precision", precision)
    given = seconds
    if seconds is None:
        each = QUICK_SECONDS if quick else SECONDS
        seconds = each * len(scenarios) * max(1, len(names) - 1)
    elif not seconds <= _LONGEST:  # Nor not a number.
        raise click.UsageError(f"--seconds must be at most {_LONGEST:,}")
    if processes is not None:
        _refuse("--processes is a fixed number", precision=precision, seconds=given)
        protocol, reach = replace(protocol, processes=processes), None
    if rounds is not None:
        protocol = replace(protocol, rounds=rounds)
    return Plan(
        scenarios=scenarios,
        arms=names,
        precision=reach,
        seconds=0.0 if reach is None else seconds,
        protocol=protocol,
        seed=seed,
        cpu=choose_cpu(cpu),
        gc=gc == "on",
        provider=provider,
    )


def _refuse(why: str, **options: object) -> None:
    """Raise click.UsageError if one of these options was given."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"{why}: --{name} does not go with it")


def _check_plan(plan: Plan) -> None:
    """Find out before anything is measured what would stop it. Raises InputError."""
    check_arms(plan.arms)
    check_provider(plan.provider)
    check_distinct(plan.scenarios)
    choose_cpu("none" if plan.cpu is None else str(plan.cpu))
    seed, memory = worker_seed(plan, 0), available_memory()
    for scenario in plan.scenarios:
        # One process of each arm is there at once.
        check_feasible(scenario, plan.protocol.iterations, seed, memory, len(plan.arms))


def _measure(
    plan: Plan,
    file: Path,
    resumed: Results | None,
    metadata: Mapping[str, str | int | float],
    sources: Mapping[str, ArmSource],
    *,
    timeout: float | None,
    quiet: bool,
) -> tuple[int, int]:
    """Run what is left of ``plan``; return the exit code and how many processes are kept."""
    schedule = Schedule(plan)
    before = resumed.runs() if resumed else []
    for job, run in before:
        schedule.add(job, run.values)
    writer = ResultsWriter(file, plan, metadata, resumed)
    kept = len(before)

    def report(event: Event) -> None:
        nonlocal kept
        writer.add(*event.results.values())
        kept += len(event.results)
        progress.show(event)

    with (
        lock_cpu(plan.cpu),
        keep_off(plan.cpu),
        MeasuringProgress(plan, schedule, quiet=quiet) as progress,
    ):
        try:
            failures = measure(plan, schedule, report, timeout, sources)
        except KeyboardInterrupt:
            failures = None
    if failures is None:
        say(f"interrupted; {_kept(kept, file)}")
        return INTERRUPTED, kept
    if not kept:
        say("no process finished, so there is nothing to keep")
    # A finding about one arm counts for more than that nothing is known of another.
    return min(map(code_of, failures), default=0), kept


def _kept(kept: int, file: Path) -> str:
    if not kept:
        return "no process had finished, so there is nothing to keep"
    return (
        f"{counted(kept, 'process')} {'is' if kept == 1 else 'are'} kept in {file}; carry on with: "
        f"{program()} speedup --resume {shlex.quote(str(file))}"
    )


def _check_alone(ctx: click.Context) -> None:
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if name not in _WITH_RESUME and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[-1]} does not go with --resume, which takes all from its file"
            )
