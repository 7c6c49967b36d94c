"""``stepbench count``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from harness.arms.registry import is_foreign, split_arms
from harness.arms.variables import split_list
from harness.count.budget import check, check_seed, departures, load_budget, update, write_budget
from harness.count.exactness import notes
from harness.count.passes import count_cells
from harness.count.work import iterations_of
from harness.speedup.plan import check_distinct
from harness.system.cores import available_memory
from harness.system.pool import FOREIGN_LIMIT
from scenarios.workload import check_feasible
from stubs.providers import DEFAULT_PROVIDER

from .cli import FOUND, NOTHING_TO_COMPARE
from .foreign import find_sources, make_factories, runnable
from .messages import say, unread_is_fine
from .metadata import described_code
from .options import (
    chosen_format,
    format_options,
    jobs_option,
    quiet_option,
    seed_option,
    selected_scenarios,
    selection_options,
)
from .own_function import subject_option
from .own_work import count_own
from .progress import CountingProgress
from .surroundings import find_surroundings


@click.command()
@subject_option
@selection_options
@click.option("--arms", default="all", show_default=True, metavar="LIST", help="Arms to count.")
@seed_option
@jobs_option
@click.option("--per-request", is_flag=True, help="Figures per request, not per iteration.")
@click.option("--calls", is_flag=True, help="Print the native calls by name as well.")
@click.option("--check", "checks", is_flag=True, help="Compare with the budget file.")
@click.option("--update", "updates", is_flag=True, help="Write what was counted as the budget.")
@click.option(
    "--budget",
    "file",
    type=click.Path(path_type=Path),
    default=Path("budgets.toml"),
    show_default=True,
    help="The budget file.",
)
@quiet_option
@format_options(("terminal", "markdown", "json"))
def command(
    *,
    subject: str | None,
    arms: str,
    seed: int,
    jobs: int,
    per_request: bool,
    calls: bool,
    checks: bool,
    updates: bool,
    file: Path,
    quiet: bool,
    style: str | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> int:
    """Count exactly what each arm does in an iteration.

    Native calls, what they hand to Python, bytecodes, memory kept and the size of the output, in an
    untimed pass over one block of iterations. The same seed gives the same figures to the last
    digit, whatever the environment: each cell is counted in a process of its own, under a fixed
    hash seed and without the variables that change how Python runs. What other threads do for an
    arm is its work.

    Passes under other hash seeds tell whether the work depends on them, and repeated ones whether
    it differs between two runs. Both are told, and are no finding.

    A budget file holds what each arm may do; bytecodes and memory stand in it for each Python
    version. With --check, the exit code is 1 if a figure is beyond its budget, and 4 if a cell or
    an arm has no budget or has gone missing. Cells or arms that are named are checked or updated
    alone.

    With --subject it is a function of your own, by default at git:HEAD and in the work tree, git:.

    \b
    Examples:
      stepbench count
      stepbench count --subject bench_join.py --arms git:v1.4,git:
      stepbench count --cells 64x2048,64x8192 --arms full-copy,batched --per-request
      stepbench count --calls --json
      stepbench count --check
      stepbench count --update
    """
    chosen = chosen_format(style, as_json)
    if subject is not None:
        if checks or updates or per_request:
            raise click.UsageError("--check, --update and --per-request are the connector's")
        specs = ("git:HEAD", "git:") if arms == "all" else tuple(split_list(arms))
        return count_own(subject, specs, options, seed=seed, calls=calls, style=chosen, quiet=quiet)
    if checks and updates:
        raise click.UsageError("--check and --update exclude each other")
    names = split_arms(arms)
    if (checks or updates) and any(map(is_foreign, names)):
        raise click.UsageError("a budget holds arms of this project alone")
    sources = find_sources(names)
    factories = make_factories(names, sources)
    surroundings = find_surroundings(names, sources, DEFAULT_PROVIDER)
    scenarios = selected_scenarios(options)
    check_distinct(scenarios)
    scenarios = runnable(scenarios, factories)
    budget = None
    if checks or (updates and file.exists()):
        budget = load_budget(file)
    whole = arms == "all" and all(value is None for value in options.values())
    if budget is not None and not (updates and whole):
        check_seed(budget, seed)
    # Each cell is counted in two passes, which may run at once.
    memory, at_once = available_memory(), min(jobs, 2 * len(scenarios))
    for scenario in scenarios:
        check_feasible(scenario, iterations_of(scenario) + 1, f"{seed}", memory, at_once)

    with CountingProgress(len(scenarios), "cells", quiet=quiet) as progress:
        # What comes from elsewhere may end its process, or never come back.
        limit = FOREIGN_LIMIT if any(map(is_foreign, names)) else None
        works = count_cells(
            scenarios,
            factories,
            seed,
            jobs=jobs,
            limit=limit,
            progress=progress.add,
            doubt=partial(departures, budget),
        )

    # pandas, which the reports import, takes a quarter of a second.
    from reports.kinds.counts import render_finding, render_finding_json, write_work

    if checks and budget is not None:
        finding = check(budget, works, whole=whole)
        json_wanted = chosen == "json"
        told = notes(works)
        if json_wanted:
            text = render_finding_json(finding, told)
        else:
            text = render_finding(finding, str(file), told)
        with unread_is_fine():
            click.echo(text, nl=False)
        return FOUND if finding.excesses else NOTHING_TO_COMPARE if finding.missing else 0
    if updates:
        write_budget(file, update(budget, works, seed, whole=whole))
        say(f"{file}: budgets of {len(works)} arms and cells written")
    write_work(
        works,
        chosen,
        sys.stdout,
        per_request=per_request,
        calls=calls,
        command=surroundings.command,
        origins=surroundings.origins(sources),
        metadata=described_code(DEFAULT_PROVIDER, surroundings) if chosen == "json" else {},
    )
    return 0
