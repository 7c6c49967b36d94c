"""``stepbench doctor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from harness.compare.noise_floor import CELL, SECONDS, against_itself, noise_of, run_against_itself
from harness.gate.config import find_config, load_config
from harness.gate.noise import Proposal, duets_of, propose
from harness.system.affinity import allowed_cpus, can_pin
from harness.system.clock import measure_clock
from harness.system.cores import choose_cpus, keep_off, lock_cpu
from harness.system.doctor import look
from reports.render.words import counted
from stepbench_core.errors import LostWorkerError, NotRunnableError
from stubs.providers import DEFAULT_PROVIDER

from .cli import FOUND, INCONCLUSIVE, INTERRUPTED, USAGE
from .failures import no_result
from .messages import say, unread_is_fine
from .metadata import described_run
from .options import chosen_format, cpus_option, format_options, provider_option, quiet_option
from .progress import CountingProgress
from .surroundings import Surroundings

if TYPE_CHECKING:
    from harness.compare.duet import CellResult


@click.command()
@cpus_option
@click.option("--no-run", is_flag=True, help="Look only: leave out the run against itself.")
@click.option(
    "--gate",
    "for_gate",
    is_flag=True,
    help="Propose thresholds for the cells that `stepbench gate` times.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The gate's TOML file.  [default: stepbench.toml, else pyproject.toml]",
)
@provider_option
@quiet_option
@format_options(("terminal", "markdown", "json"))
def command(
    *,
    cpu: str | None,
    no_run: bool,
    for_gate: bool,
    config: Path | None,
    provider: str,
    quiet: bool,
    style: str | None,
    as_json: bool,
) -> int:
    """Say what this machine is like for measuring, and how noisy.

    Looks at what makes times unsteady, with what to do about it, and changes nothing. Then an arm
    runs against itself for about ten seconds, which tells the smallest slowdown that `stepbench
    compare` can find here.

    With --gate each arm that the gate times runs against itself in each of its cells, for as long
    as the gate would time it, on the Python stand-ins as there. The report says which threshold
    that noise can carry, and ends with the line for the configuration if one has to be raised.

    \b
    Exit codes: 0 told; 1 a worker died or hung; 3 too noisy to tell that slowdown, or to propose a
    threshold; 4 a cell of the gate is gone.

    \b
    Examples:
      stepbench doctor
      stepbench doctor --cpu 1 --no-run --json
      stepbench doctor --gate
    """
    chosen = chosen_format(style, as_json)
    if for_gate:
        _refuse_options_beside_gate()
        return _propose(config, choose_cpus(cpu), chosen, quiet=quiet)
    if config is not None:
        raise click.UsageError("--config is the gate's: it goes with --gate")
    if no_run and cpu is None and not can_pin():
        cpu = "none"  # Who only looks needs no core.
    cores = choose_cpus(cpu)
    # Before this process keeps off the cores that are measured on.
    findings = look(cores, allowed_cpus(), measure_clock())
    results: list[CellResult] = []
    code = 0 if no_run else _run(cores, provider, results, quiet=quiet)
    noise = noise_of(results)

    # pandas, which the reports import, takes a quarter of a second.
    from reports.kinds.doctor import write_doctor

    where = described_run(cores, provider, Surroundings())
    words = f"{where['where']} Repeat with `{where['command']}`."
    with unread_is_fine():
        write_doctor(findings, noise, words, chosen, sys.stdout)
    if code == 0 and noise is not None and noise.is_too_much:
        return INCONCLUSIVE
    return code


def _propose(config: Path | None, cores: tuple[int, ...], style: str, *, quiet: bool) -> int:
    """Run the gate's arms against themselves, print what is proposed; return the exit code."""
    settings = load_config(config)
    duets = duets_of(settings, cores)
    proposals: list[Proposal] = []
    code = 0
    if not quiet:
        words = f"{counted(len(duets), 'run')} of an arm against itself"
        say(f"{words}, about {len(duets) * settings.seconds:.0f} s")
    with CountingProgress(len(duets), "runs", quiet=quiet) as progress:
        cell = duets[0].scenarios[0].name
        try:
            with lock_cpu(*cores), keep_off(*cores):
                for duet in duets:
                    cell, arm = duet.scenarios[0].name, duet.b.spec
                    progress.describe(f"{arm} against itself in {cell}")
                    results = list(run_against_itself(duet))
                    failures = [each.failure for each in results if each.failure is not None]
                    for failure in failures:
                        say(f"{arm}: {failure}")
                        code = FOUND
                    found = propose(settings, arm, results)
                    if found is not None and not failures:
                        proposals.append(found)
                    progress.add(1)
        except (LostWorkerError, NotRunnableError, OSError) as error:
            say(no_result(cell, error))
            code = USAGE
        except KeyboardInterrupt:
            say(f"interrupted after {counted(len(proposals), 'run')} of {len(duets)}")
            code = INTERRUPTED

    from reports.kinds.gate_noise import write_gate_noise

    where = described_run(cores, DEFAULT_PROVIDER, Surroundings())
    words = f"{where['where']} Repeat with `{where['command']}`."
    file, missing = find_config(config), len(duets) - len(proposals)
    with unread_is_fine():
        write_gate_noise(settings, file, proposals, missing, words, style, sys.stdout)
    if code == 0 and (missing or any(each.proposed is None for each in proposals)):
        return INCONCLUSIVE
    return code


def _refuse_options_beside_gate() -> None:
    """Raise click.UsageError if an option was given that says nothing beside --gate."""
    context = click.get_current_context()
    for option, why in (("--no-run", "is a run"), ("--provider", "takes the Python stand-ins")):
        name = option.removeprefix("--").replace("-", "_")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--gate {why}: {option} does not go with it")


def _run(cores: tuple[int, ...], provider: str, results: list[CellResult], *, quiet: bool) -> int:
    """Run an arm against itself into ``results``; return the exit code."""
    if not quiet:
        say(f"running an arm against itself, about {SECONDS:.0f} s")
    try:
        with lock_cpu(*cores), keep_off(*cores):
            for result in run_against_itself(against_itself(cores, provider)):
                results.append(result)
                if result.failure is not None:
                    say(result.failure)
                    return FOUND
    except (LostWorkerError, OSError) as error:
        say(no_result(CELL.name, error))
        return USAGE
    except KeyboardInterrupt:
        say("interrupted; what was found follows")
        return INTERRUPTED
    return 0
