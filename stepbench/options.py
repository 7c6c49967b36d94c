"""Options that several commands share."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

if TYPE_CHECKING:
    from reports.formats import Format

F = TypeVar("F", bound=Callable[..., object])

FORMATS = ("terminal", "markdown", "csv", "json")


def format_options(function: F) -> F:
    """Add ``--format`` and ``--json``."""
    function = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")(
        function
    )
    return click.option(
        "--format",
        "style",
        type=click.Choice(FORMATS),
        help="How to print the result.  [default: terminal on a terminal, else markdown]",
    )(function)


def chosen_format(style: str | None, as_json: bool) -> "Format":
    """Return the format to print in.

    Raises:
        click.UsageError: ``--json`` and another ``--format`` were given.
    """
    if as_json:
        if style not in (None, "json"):
            raise click.UsageError(f"--json contradicts --format {style}")
        return "json"
    if style is None:
        return "terminal" if sys.stdout.isatty() else "markdown"
    return cast("Format", style)


def print_summaries(files: Sequence[Path], style: "Format") -> None:
    """Print the tables of results files to stdout. Raises InputError for a file that is none."""
    # pandas takes a quarter of a second to import, and no measuring process should hold it.
    from harness.results import load
    from reports.formats import write
    from reports.summary import summarise

    write([summarise(load(file)) for file in files], style, sys.stdout)
