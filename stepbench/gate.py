"""``stepbench gate``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from harness.arms.revision import ROOT
from harness.compare.processes import check_memory
from harness.count.work import iterations_of
from harness.gate.config import Outcome, Step, find_config, load_config, outcome_of
from harness.gate.own import run_own_gate
from harness.gate.own_config import OwnGateConfig, load_own_config
from harness.gate.steps import run_gate
from harness.speedup.file import check_writable
from harness.system import git
from harness.system.cores import available_memory, choose_cpus, lock_cpu
from harness.system.files import write_atomically
from harness.verify.worlds import WorldsVerification
from reports.kinds import worlds
from reports.kinds.equivalence import render_text
from reports.render.words import sentences
from scenarios.catalogue import find_scenarios
from scenarios.workload import check_feasible
from stepbench_core.errors import InputError
from stubs.providers import DEFAULT_PROVIDER

from .cli import INTERRUPTED
from .messages import say, unread_is_fine
from .metadata import described_run
from .options import cpus_option, jobs_option, quiet_option
from .surroundings import Surroundings, find_surroundings

# Seconds without any result after which a process of arms counts as hanging: far more than the
# largest cell takes.
_LIMIT = 120.0
# What an interruption left undone.
_REST = "the rest"


@click.command()
@click.option(
    "--base",
    metavar="REVISION",
    help="What to hold the arms against.  [default: as configured, else HEAD~1]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file.  [default: stepbench.toml, else pyproject.toml]",
)
@cpus_option
@jobs_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the JSON there as well."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@quiet_option
def command(
    *,
    base: str | None,
    config: Path | None,
    cpu: str | None,
    jobs: int,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check a change for CI: same outputs, no more work, no slower.

    Cheapest first: random runs against the reference; exact work against the budget file; its
    growth with the context; then each arm whose source changed since the base, timed in a duet
    against itself as it was. An arm that ends its process or never comes back is a regression, as
    one that is wrong. The summary also goes to the file that GITHUB_STEP_SUMMARY names.

    All on the Python stand-ins, so that nothing depends on a compiler.

    A project with functions of its own names them as subjects in its configuration
    (docs/subjects.md):
    then each is held against itself at the base, outputs, work, growth and time.

    \b
    Exit codes: 0 passed; 1 a regression; 2 an arm uses what nothing stands in for; 3 inconclusive;
    4 something has nothing to be compared with: a cell, an arm or a budget is missing, or the base.

    \b
    Examples:
      stepbench gate
      stepbench gate --base origin/main --json
    """
    own = load_own_config(find_config(config))
    if own is not None:
        return _own_gate(own, config, base, cpu, output, as_json=as_json, quiet=quiet)
    settings = load_config(config)
    if base is not None:
        settings = replace(settings, base=base)
    cores = choose_cpus(cpu)
    if output is not None:
        check_writable(output, force=True)
    memory = available_memory()
    scenarios = find_scenarios(settings.scenario)
    for scenario in scenarios:
        check_feasible(scenario, iterations_of(scenario) + 1, "0", memory, jobs)
    # Of all that may be timed: better known now than after minutes of what is not timed.
    timed = [scenario for scenario in scenarios if scenario.name in settings.cells]
    check_memory(timed, len(cores), 0)
    steps: list[Step] = []

    def progress(what: str) -> None:
        if not quiet:
            say(what)

    def describe(found: object) -> str:
        return f"```\n{render_text(found)}```"  # type: ignore[arg-type]

    with _collecting(steps, cores, progress) as ended:
        for step in run_gate(
            settings,
            file=find_config(config),
            cpus=cores,
            jobs=jobs,
            limit=_LIMIT,
            describe=describe,
            progress=progress,
        ):
            ended(step)
    surroundings = find_surroundings(settings.arms, {}, DEFAULT_PROVIDER)
    reads = (line.rstrip(".") for line in sentences(surroundings.origins({})))
    words = [*_base_words(settings.base), *reads]
    metadata = described_run(cores, DEFAULT_PROVIDER, surroundings, *words)
    return _told(steps, settings.base, metadata, output, as_json=as_json)


def _own_gate(
    settings: OwnGateConfig,
    config: Path | None,
    base: str | None,
    cpu: str | None,
    output: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check a change of a project with functions of its own; return the exit code."""
    if base is not None:
        settings = replace(settings, base=base)
    cores = choose_cpus(cpu)
    if output is not None:
        check_writable(output, force=True)
    steps: list[Step] = []

    def progress(what: str) -> None:
        if not quiet:
            say(what)

    def describe(found: WorldsVerification, subject: str) -> str:
        return f"```\n{worlds.render_text(found, subject)}```"

    folder = find_config(config).resolve().parent
    with _collecting(steps, cores, progress) as ended:
        for step in run_own_gate(
            settings, folder, cpus=cores, describe=describe, progress=progress
        ):
            ended(step)
    words = [f"subjects {', '.join(settings.subjects)}"]
    metadata = described_run(cores, None, Surroundings(), *words)
    return _told(steps, settings.base, metadata, output, as_json=as_json)


@contextlib.contextmanager
def _collecting(
    steps: list[Step], cores: Sequence[int], progress: Callable[[str], None]
) -> Iterator[Callable[[Step], None]]:
    """Yield what takes a step that has ended. An interruption is a step as well."""

    def ended(step: Step) -> None:
        steps.append(step)
        progress(f"{step.name}: {step.summary}")

    try:
        with lock_cpu(*cores):
            yield ended
    except KeyboardInterrupt:
        say(f"interrupted after {len(steps)} steps, which follow")
        steps.append(Step(_REST, Outcome.INCONCLUSIVE, "interrupted"))


def _told(
    steps: Sequence[Step],
    base: str,
    metadata: Mapping[str, object],
    output: Path | None,
    *,
    as_json: bool,
) -> int:
    """Print what was found, and write it where that is asked for; return the exit code."""
    # pandas, which the reports import, takes a quarter of a second.
    from reports.kinds.gate import render_json, render_markdown

    is_whole = not steps or steps[-1].name != _REST
    code = int(outcome_of(steps)) if is_whole else INTERRUPTED
    document = render_json(steps, base, metadata, code)
    summary = render_markdown(steps, base, metadata)
    # The files first: a reader of stdout that has gone must not cost them.
    if output is not None:
        try:
            write_atomically(output, lambda file: file.write(document))
        except InputError as error:
            say(str(error))  # What was found counts for more than where it should be kept.
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        _append(Path(target), summary)
    with unread_is_fine():
        click.echo(document if as_json else summary, nl=False)
    if code == Outcome.CANNOT_RUN:
        say(f"error: {next(step.summary for step in steps if step.outcome == code)}")
    return code


def _base_words(base: str) -> list[str]:
    """Return which commit the base is: a branch, or HEAD~1, is another one tomorrow."""
    try:
        commit = git.find_commit(base, ROOT)
    except git.GitError as error:
        return [f"base {base}: commit unknown ({error})"]
    return [] if commit is None else [f"base {base}: commit {commit[:12]}"]


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        # What was found counts for more than where it should have been noted.
        say(f"{path}: cannot be written: {error.strerror}")
