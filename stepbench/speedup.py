"""``stepbench speedup``."""

import shlex
import sys
from dataclasses import replace
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from harness.arms import check_arms, split_arms
from harness.isolated import Event, measure
from harness.machine import available_memory, choose_cpu, describe, keep_off, lock_cpu, lock_file
from harness.plan import DEFAULT, MAX_COUNT, QUICK, Plan, check_distinct, worker_seed
from harness.results import Results, ResultsWriter, check_same_machine, check_writable, load
from harness.revision import own_revision
from scenarios.scenario import parse_layer_group
from scenarios.selection import Source, select, split
from scenarios.workload import check_feasible

from . import __version__
from .cli import FOUND, INTERRUPTED
from .messages import program, say
from .options import chosen_format, format_options, print_summaries
from .progress import MeasuringProgress

# A worker that takes a day hangs.
_LONGEST_TIMEOUT = 86_400

# Options that say how to show, not what to measure: all that may stand beside --resume.
_WITH_RESUME = {"resume", "style", "as_json", "quiet", "timeout"}

# Options that are fields of a scenario.
_SETTINGS = (
    "manager",
    "tokens_per_block",
    "page_backend",
    "boundaries",
    "draft_tokens",
    "overlap",
    "max_batch",
    "max_num_tokens",
)


@click.command()
@click.option(
    "--scenario", metavar="NAME", help="Named cells (stepbench list).  [default: reference]"
)
@click.option("--cells", metavar="LIST", help="Cells as REQUESTSxTOKENS, such as 16x8192,64x2048.")
@click.option("--requests", metavar="LIST", help="With --tokens: a grid of cells.")
@click.option("--tokens", metavar="LIST", help="With --requests: tokens per request of the grid.")
@click.option("--trace", metavar="FILE", help="Replay a trace: Azure .csv or Mooncake .jsonl.")
@click.option("--max-batch", type=int, help="Requests in the batch of a trace.  [default: 64]")
@click.option("--max-num-tokens", type=int, help="Token budget of an iteration.  [default: 8192]")
@click.option("--manager", type=click.Choice(["v1", "v2"]), help="KV cache manager.  [default: v2]")
@click.option("--tokens-per-block", type=int, help="Block size in tokens.  [default: 32]")
@click.option(
    "--layer-groups",
    metavar="LIST",
    help="V2 layer groups, such as full,window=4096 or window=4096:sink=64.  [default: full]",
)
@click.option(
    "--page-backend",
    type=click.Choice(["list", "generator"]),
    help="V2 page indices from the native or the Python backend.  [default: list]",
)
@click.option(
    "--boundaries",
    type=click.Choice(["aligned", "staggered"]),
    help="Whether all requests cross a block boundary in the same iteration.  [default: aligned]",
)
@click.option("--draft-tokens", type=int, help="Draft tokens per request.  [default: 0]")
@click.option("--overlap", is_flag=True, default=None, help="The overlap scheduler's order.")
@click.option(
    "--arms",
    default="full-copy,incremental",
    show_default=True,
    metavar="LIST",
    help="Arms, or all: the ladder and the floor. The others are compared with the first.",
)
@click.option("--quick", is_flag=True, help="Fewer processes, one round in each: a first look.")
@click.option(
    "--processes",
    type=click.IntRange(1, MAX_COUNT),
    help="Processes per cell and arm.  [default: 4, quick 3]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, MAX_COUNT),
    help="Rounds of 15 samples.  [default: 9, quick 1]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Input seed.")
@click.option("--cpu", metavar="N", help="Core to pin to, or none.  [default: the last allowed]")
@click.option(
    "--gc",
    type=click.Choice(["on", "off"]),
    default="off",
    show_default=True,
    help="Whether the garbage collector runs while it is measured.",
)
@click.option(
    "--timeout", type=click.FloatRange(0.1), help="Seconds until a worker counts as hanging."
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
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@format_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    output: Path | None,
    force: bool,
    resume: Path | None,
    timeout: float | None,
    quiet: bool,
    style: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Measure the arms and print the speedup table.

    Each arm of each cell runs in pinned processes of its own, the arms taking turns. Every sample
    is kept in the results file, which pyperf's commands read as well.

    \b
    Examples:
      stepbench speedup
      stepbench speedup --cells 16x8192,64x2048 --quick
      stepbench speedup --requests 1,8,64 --tokens 64,512,4096 --manager v1
      stepbench speedup --layer-groups full,window=4096 --page-backend generator
      stepbench speedup --trace azure_llm_2023_conv.csv --max-batch 128
      stepbench speedup --resume results/speedup.json
    """
    chosen = chosen_format(style, as_json)
    if timeout is not None and not timeout <= _LONGEST_TIMEOUT:  # Nor not a number.
        raise click.UsageError(f"--timeout must be at most {_LONGEST_TIMEOUT:,} seconds")
    if resume is not None:
        _check_alone(ctx)
    plan = None if resume is not None else _plan(**options)
    file = resume or output or _unused_file()
    # Held from before the file is looked at until it is complete, so that two runs cannot both
    # find it free, or carry on with the same half.
    with lock_file(file):
        resumed = None
        if plan is None:
            resumed = load(file)
            check_same_machine(resumed)
            plan = resumed.plan
        _check_plan(plan)
        check_writable(file, force=force or resume is not None)
        code, kept = _measure(plan, file, resumed, timeout=timeout, quiet=quiet)
    if code == INTERRUPTED or not kept:
        return code  # There is no table to print.
    print_summaries([file], chosen)
    if not quiet:
        say(
            f"samples kept in {file}; as Markdown: "
            f"{program()} report {shlex.quote(str(file))} --format markdown"
        )
    return code


def _unused_file() -> Path:
    """Return a dated file that does not exist, even if a second is too short for two runs."""
    stem = f"speedup-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := Path("results") / f"{name}.json").exists())


def _plan(
    *,
    arms: str,
    quick: bool,
    processes: int | None,
    rounds: int | None,
    seed: int,
    cpu: str | None,
    gc: str,
    layer_groups: str | None,
    **options: Any,  # noqa: ANN401
) -> Plan:
    """Return what the options ask for. Raises InputError."""
    settings = {name: options[name] for name in _SETTINGS if options[name] is not None}
    if layer_groups is not None:
        groups = split("layer groups", layer_groups)
        settings["layer_groups"] = tuple(map(parse_layer_group, groups))
    source = Source(**{name: options[name] for name in Source.__dataclass_fields__})
    scenarios, left_out = select(source, settings)
    if left_out:
        say(f"left out {', '.join(left_out)}: layer groups and page backends are V2's")
    protocol = QUICK if quick else DEFAULT
    if processes is not None:
        protocol = replace(protocol, processes=processes)
    if rounds is not None:
        protocol = replace(protocol, rounds=rounds)
    return Plan(
        scenarios=tuple(scenarios),
        arms=split_arms(arms),
        protocol=protocol,
        seed=seed,
        cpu=choose_cpu(cpu),
        gc=gc == "on",
        command=shlex.join(["stepbench", *sys.argv[1:]]),
    )


def _check_plan(plan: Plan) -> None:
    """Find out before anything is measured what would stop it. Raises InputError."""
    check_arms(plan.arms)
    check_distinct(plan.scenarios)
    choose_cpu("none" if plan.cpu is None else str(plan.cpu))
    seed, memory = worker_seed(plan, 0), available_memory()
    for scenario in plan.scenarios:
        check_feasible(scenario, plan.protocol.iterations, seed, memory)


def _measure(
    plan: Plan, file: Path, resumed: Results | None, *, timeout: float | None, quiet: bool
) -> tuple[int, int]:
    """Run what is left of ``plan``; return the exit code and how many processes are kept."""
    done = {job for job, _ in resumed.runs()} if resumed else set()
    todo = [job for job in plan.jobs() if job not in done]
    writer = ResultsWriter(file, plan, _metadata(plan), resumed)
    kept = len(done)

    def report(event: Event) -> None:
        nonlocal kept
        if event.benchmark is not None:
            writer.add(event.benchmark)
            kept += 1
        progress.show(event)

    with (
        lock_cpu(plan.cpu),
        keep_off(plan.cpu),
        MeasuringProgress(todo, quiet=quiet) as progress,
    ):
        try:
            failures = measure(plan, done, report, timeout)
        except KeyboardInterrupt:
            failures = None
    if failures is None:
        say(f"interrupted; {_kept(kept, plan, file)}")
        return INTERRUPTED, kept
    if not kept:
        say("no process finished, so there is nothing to keep")
    return FOUND if failures else 0, kept


def _kept(kept: int, plan: Plan, file: Path) -> str:
    if not kept:
        return "no process had finished, so there is nothing to keep"
    return (
        f"{kept} of {len(plan.jobs())} processes are kept in {file}; carry on with: "
        f"{program()} speedup --resume {shlex.quote(str(file))}"
    )


def _metadata(plan: Plan) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {"stepbench_version": __version__, **describe(plan.cpu)}
    revision = own_revision()
    if revision is not None:
        found["stepbench_revision"] = revision[0]
        found["stepbench_dirty"] = int(revision[1])
    return found


def _check_alone(ctx: click.Context) -> None:
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = ctx.get_parameter_source(name)
        if name not in _WITH_RESUME and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"{parameter.opts[-1]} does not go with --resume, which takes all from its file"
            )
