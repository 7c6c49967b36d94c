"""``stepbench verify --mutants``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.arms.loading import ArmOfSource
from harness.arms.registry import check_arms, is_foreign
from harness.arms.sources import ArmSource, find_source
from harness.system.pool import FOREIGN_LIMIT
from harness.verify.runs import Contest, play_briefly
from stepbench_core.errors import InputError

from .cli import FOUND, INTERRUPTED
from .extras import check_installed
from .foreign import find_sources
from .messages import say, unread_is_fine
from .metadata import described_code
from .progress import CountingProgress
from .surroundings import Surroundings

if TYPE_CHECKING:
    from harness.verify.mutants import Result


def show_mutants(
    arm: str,
    runs: Sequence[int],
    seed: int,
    *,
    number: int | None,
    jobs: int,
    provider: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Play the mutants of an arm, print what became of them, and return the exit code.

    Args:
        arm: the arm.
        runs: numbers of the runs that each is played at most.
        seed: the seed of the runs.
        number: the number of the only mutant to play; None for all.
        jobs: processes to use.
        provider: where the stand-ins come from.
        as_json: print one JSON document.
        quiet: show no progress.

    Raises:
        InputError: cosmic-ray is not installed, there is no such arm or mutant, or the arm is no
            measure of anything, since it does not do twice the same.
    """
    check_installed("mutants", "cosmic_ray")
    from harness.verify.mutants import Fate, Known, Play, play
    from harness.verify.mutation import mutants
    from reports.kinds.mutants import Teeth, render_json, render_one, render_text

    source = _source(arm, provider)
    made = mutants(source.text)
    chosen = made if number is None else [one for one in made if one.number == number]
    if not chosen:
        raise InputError(f"{arm} has mutants 1 to {len(made)}, no mutant {number}")
    known = Known(source)
    results: list[Result] = []
    is_whole = False
    with CountingProgress(len(chosen), "mutants", quiet=quiet) as progress:
        try:
            for result in play(Play(source, runs, seed, provider), chosen, jobs):
                results.append(known.judged(result))
                progress.add(1)
            is_whole = True
        except KeyboardInterrupt:
            say(f"interrupted after {len(results)} of {len(chosen)} mutants")
    stale = known.stale(results) if is_whole and number is None else []
    file = _shown(source.filename)
    teeth = Teeth(arm, file, runs, seed, len(chosen), tuple(results), tuple(stale))
    with unread_is_fine():
        if as_json:
            click.echo(render_json(teeth, described_code(provider, Surroundings())), nl=False)
        elif number is not None and results:
            click.echo(render_one(results[0]), nl=False)
        else:
            click.echo(render_text(teeth), nl=False)
    if not is_whole:
        return INTERRUPTED
    return FOUND if teeth.of(Fate.SURVIVED) else 0


def _source(arm: str, provider: str) -> ArmSource:
    check_arms([arm], floor=False)
    source = find_sources([arm])[arm] if is_foreign(arm) else find_source(arm)
    make = ArmOfSource(source)
    found = play_briefly(Contest({arm: make}, arm, make, provider), limit=FOREIGN_LIMIT)
    if found.failure is not None:
        difference = found.failure.difference
        raise InputError(
            f"{arm} has no mutants worth playing: it does not do twice the same itself "
            f"({difference.field}: {difference.actual}); 'stepbench verify' says more"
        )
    return source


def _shown(filename: str) -> str:
    """Return the name of a file, from here where it lies below here."""
    path = Path(filename)
    is_here = path.is_absolute() and path.is_relative_to(Path.cwd())
    return os.path.relpath(path) if is_here else filename
