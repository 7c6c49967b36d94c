"""``stepbench doctor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.affinity import allowed_cpus, can_pin
from harness.clock import measure_clock
from harness.doctor import look
from harness.gate import find_config, load_config
from harness.gate_noise import (
    Proposal,
    check_timed,
    comparisons_of,
    propose,
    run_arms_against_themselves,
)
from harness.machine import choose_cpus, keep_off, lock_cpu
from harness.noise_floor import CELL, SECONDS, against_itself, noise_of, run_against_itself
from scenarios.errors import LostWorkerError
from stubs.providers import DEFAULT_PROVIDER

from .cli import FOUND, INCONCLUSIVE, INTERRUPTED, USAGE
from .failures import no_result
from .messages import say, unread_is_fine
from .metadata import described_run
from .options import chosen_format, cpus_option, format_options, provider_option
from .progress import CountingProgress
from .surroundings import Surroundings

if TYPE_CHECKING:
    from harness.duet import CellResult


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
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
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

    With --gate each arm that the gate times runs against itself in each of its cells, and the
    report ends with the thresholds that this noise can carry, as lines for the configuration.

    \b
    Exit codes: 0 told; 1 a worker died or hung; 3 too noisy to tell that slowdown.

    \b
    Examples:
      stepbench doctor
      stepbench doctor --cpu 1 --no-run --json
      stepbench doctor --gate
    """
    chosen = chosen_format(style, as_json)
    if for_gate:
        if no_run:
            raise click.UsageError("--gate is a run: --no-run does not go with it")
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
    from reports.doctor import write_doctor

    where = described_run(cores, provider, Surroundings())
    words = f"{where['where']} Repeat with `{where['command']}`."
    with unread_is_fine():
        write_doctor(findings, noise, words, chosen, sys.stdout)
    if code == 0 and noise is not None and noise.is_too_much:
        return INCONCLUSIVE
    return code


def _propose(config: Path | None, cores: tuple[int, ...], style: str, *, quiet: bool) -> int:
    """Run the gate's arms against themselves, print what is proposed; return the exit code."""
    settings, file = load_config(config), find_config(config)
    check_timed(settings)
    count = comparisons_of(settings)
    proposals: list[Proposal] = []
    code = 0
    with CountingProgress(count, "runs", quiet=quiet) as progress:
        try:
            with lock_cpu(*cores), keep_off(*cores):
                for arm, results in run_arms_against_themselves(settings, cores, progress.describe):
                    failures = [each.failure for each in results if each.failure is not None]
                    for failure in failures:
                        say(failure)
                        code = FOUND
                    found = propose(settings, arm, results)
                    if found is not None and not failures:
                        proposals.append(found)
                    progress.add(1)
        except (LostWorkerError, OSError) as error:
            say(no_result("of the gate", error))
            return USAGE
        except KeyboardInterrupt:
            say(f"interrupted after {len(proposals)} of {count} runs")
            code = INTERRUPTED

    from reports.gate_noise import write_gate_noise

    where = described_run(cores, DEFAULT_PROVIDER, Surroundings())
    words = f"{where['where']} Repeat with `{where['command']}`."
    with unread_is_fine():
        write_gate_noise(settings, str(file), proposals, words, style, sys.stdout)
    return code


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
