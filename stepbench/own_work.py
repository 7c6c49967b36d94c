"""What commands do for a user's own function where nothing is timed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from harness.count.worlds import count_worlds
from harness.verify.worlds import inspect, verify_worlds
from reports.kinds import worlds

from .cli import FOUND
from .messages import unread_is_fine
from .metadata import described_run
from .own_function import own_function, package_arms
from .progress import CountingProgress
from .surroundings import Surroundings


def verify_own(
    subject: str,
    arms: Sequence[str],
    against: str,
    *,
    cells: str | None,
    runs: int,
    run: int | None,
    steps: int,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Hold arms of a user's function against another, print what was found; return the exit code.

    Args:
        subject: the function.
        arms: the arms.
        against: the one that is right.
        cells: names of cells or patterns of them; None for all.
        runs: worlds of each cell.
        run: the one run to be played; None for all.
        steps: of each run.
        seed: of the worlds.
        as_json: print one JSON document.
        quiet: show no progress.
    """
    with own_function(subject, (against, *arms), {"cells": cells}) as own:
        with CountingProgress(len(own.cells), "cells", quiet=quiet) as progress:
            found = verify_worlds(
                own.description,
                own.arms[against],
                [own.arms[arm] for arm in dict.fromkeys(arms)],
                own.cells,
                runs=runs,
                steps=steps,
                seed=seed,
                only=run,
                progress=progress.add,
            )
        render = worlds.render_json if as_json else worlds.render_text
        with unread_is_fine():
            click.echo(render(found, own.project.spec, own.origins), nl=False)
    return FOUND if found.difference is not None else 0


def list_subject(subject: str, *, as_json: bool) -> None:
    """Print what is in a user's file, as it is imported with the packages of the work tree."""
    with package_arms(subject, ("git:",)) as (_, arms, description):
        functions = inspect(description, arms["git:"])
        render = worlds.render_subject_json if as_json else worlds.render_subject
        click.echo(render(subject, functions, description["packages"]), nl=False)


def count_own(
    subject: str,
    arms: Sequence[str],
    options: Mapping[str, Any],
    *,
    seed: int,
    calls: bool,
    style: str,
    quiet: bool,
) -> int:
    """Count what arms of a user's function do in a step, and print it; return the exit code.

    Args:
        subject: the function.
        arms: the arms.
        options: those of ``selection_options``.
        seed: of the worlds.
        calls: print the calls of native functions by name as well.
        style: ``terminal``, ``markdown`` or ``json``.
        quiet: show no progress.
    """
    with own_function(subject, arms, options) as own:
        with CountingProgress(len(own.cells), "cells", quiet=quiet) as progress:
            works = count_worlds(
                own.description,
                list(own.arms.values()),
                own.cells,
                seed=seed,
                progress=progress.add,
            )
        metadata = described_run((), None, Surroundings(), *own.words)
        # rich, which the tables need, takes a while.
        from reports.kinds.world_counts import write_works

        with unread_is_fine():
            write_works(works, style, sys.stdout, calls=calls, metadata=metadata)
    return 0
