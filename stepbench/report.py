"""``stepbench report``."""

from pathlib import Path

import click

from .options import chosen_format, format_options, print_summaries


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@format_options()
def command(files: tuple[Path, ...], style: str | None, as_json: bool) -> None:
    """Print the table of stored results.

    Results of several files become a table each; results of several machines are marked as such.

    \b
    Examples:
      stepbench report results/speedup.json
      stepbench report results/speedup.json --format markdown > table.md
      stepbench report laptop.json server.json --json
    """
    print_summaries(files, chosen_format(style, as_json))
