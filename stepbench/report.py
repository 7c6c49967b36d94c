"""``stepbench report``."""

import sys
from pathlib import Path

import click

from .cli import NOTHING_TO_COMPARE
from .messages import say, unread_is_fine
from .options import chosen_format, format_options, print_summaries


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Earlier results of the same machine, to show the times of a single file beside.",
)
@format_options()
def command(
    files: tuple[Path, ...], baseline: Path | None, style: str | None, as_json: bool
) -> int:
    """Print the table of stored results.

    Results of several files become a table each; results of several machines are marked as such.
    With a baseline, which has to be of the same machine, the times of both stand side by side. That
    is no verdict, since the machine drifts between two runs: for one, use `stepbench compare`.

    \b
    Exit codes: 0 printed; 4 the baseline is of another machine, or has arms or cells that the file
    has not.

    \b
    Examples:
      stepbench report results/speedup.json
      stepbench report results/speedup.json --format markdown > table.md
      stepbench report laptop.json server.json --json
      stepbench report new.json --baseline old.json
    """
    chosen = chosen_format(style, as_json)
    if baseline is None:
        print_summaries(files, chosen)
        return 0
    if len(files) > 1:
        raise click.UsageError("--baseline goes with a single file")
    # pandas takes a quarter of a second to import.
    from harness.results import load
    from reports.baseline import compare_files, write_comparison

    comparison = compare_files(load(files[0]), load(baseline))
    with unread_is_fine():
        write_comparison(comparison, chosen, sys.stdout)
    if chosen == "csv":
        for note in comparison.notes:  # For which a table has no place.
            say(note)
    return NOTHING_TO_COMPARE if comparison.only_baseline else 0
