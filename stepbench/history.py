"""``stepbench history``."""

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from harness.speedup.file import check_writable, load
from harness.system.files import write_atomically
from stepbench_core.errors import InputError, NoBaselineError

from .cli import USAGE
from .extras import check_installed
from .messages import say, unread_is_fine
from .options import chosen_format, format_options

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.history.history import Folder
    from reports.history.trends import Trend

F = TypeVar("F", bound=Callable[..., object])

_PLOTS = (".svg", ".png")
_EXPORTS = ("csv", "json", "parquet")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Keep results over time, and find when times changed.

    The history is a folder of Parquet files, one a run, to which files are only ever added; several
    machines and jobs may do so at the same time. It is `history` here, or any folder or address
    that fsspec knows, such as s3://bucket/stepbench.

    \b
    Exit codes: 0 done; 2 bad input; 4 no history there, or nothing in it that was asked for.

    \b
    Examples:
      stepbench history add results/speedup.json
      stepbench history show
      stepbench history trend --cell 'v2-64*' --arm incremental --plot trend.svg
      stepbench history export --samples -o samples.parquet
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _from_option(function: F) -> F:
    """Add ``--from``, whose value is where the history is."""
    return click.option(
        "--from",
        "address",
        default="history",
        show_default=True,
        metavar="FOLDER",
        help="The history: a folder, or an address that fsspec knows.",
    )(function)


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--to",
    "address",
    default="history",
    show_default=True,
    metavar="FOLDER",
    help="The history: a folder, or an address that fsspec knows.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def add(files: tuple[Path, ...], address: str, as_json: bool) -> int:
    """Add results files to the history.

    Of each file the figures and every sample are kept. A file that was added before is recognised
    by its content and left alone. A file that cannot be used is named, and the others are added.

    \b
    Exit codes: 0 all of them are in the history; 2 one of them is not.

    \b
    Examples:
      stepbench history add results/speedup.json
      stepbench history add results/*.json --to s3://bucket/stepbench
    """
    check_installed("history", "pyarrow", "fsspec")
    from harness.history.history import find_folder, list_names

    from .progress import CountingProgress

    folder = find_folder(address)
    names = list_names(folder)
    added: list[dict[str, str | bool]] = []
    failed = False
    with CountingProgress(len(files), "files", quiet=False) as progress:
        for file in files:
            try:
                name, is_new = _add(file, folder, names)
                added.append({"results": str(file), "file": folder.place(name), "new": is_new})
            except InputError as error:
                say(f"error: {error}")
                failed = True
            progress.add(1)
    with unread_is_fine():
        if as_json:
            click.echo(json.dumps(added, indent=2))
        else:
            for told in added:
                words = "added as" if told["new"] else "was there already:"
                click.echo(f"{told['results']}: {words} {told['file']}")
    return USAGE if failed else 0


def _add(file: Path, folder: "Folder", names: list[str]) -> tuple[str, bool]:
    """Add a file to the history, whose names are ``names``; return its own, and if it is new."""
    from harness.history.history import file_name, write_run
    from reports.history.history import run_of

    run, digest = run_of(load(file)), _digest(file)
    name = file_name(run, digest)
    if name in names:
        return name, False
    began = name.partition("-")[0]
    for other in names:
        if other.startswith(f"{began}-"):
            say(
                f"{file}: {folder.place(other)} began in the same second: if that is the same run "
                "before it was carried on with, it counts twice"
            )
    if run.machine is None:
        say(f"{file}: has no machine fingerprint, so it will be in no trend")
    write_run(folder, name, run)
    names.append(name)
    return name, True


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@command.command()
@_from_option
@format_options()
def show(address: str, style: str | None, as_json: bool) -> None:
    """List the runs of the history, oldest first.

    A file that is damaged or foreign is named on stderr and left out.

    \b
    Examples:
      stepbench history show
      stepbench history show --from s3://bucket/stepbench --json
    """
    chosen = chosen_format(style, as_json)
    check_installed("history", "pyarrow", "fsspec")
    from reports.history.history import COLUMNS, write_runs

    table, skipped = _read(address, COLUMNS)
    with unread_is_fine():
        write_runs(table, skipped, chosen, sys.stdout)


@command.command()
@_from_option
@click.option(
    "--cell", default="*", metavar="GLOB", help="Cells, such as 'v2-64*'.  [default: all]"
)
@click.option("--arm", default="*", metavar="GLOB", help="Arms, such as 'page-*'.  [default: all]")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the trends into a .svg or .png file as well.",
)
@format_options()
def trend(
    address: str, cell: str, arm: str, plot: Path | None, style: str | None, as_json: bool
) -> None:
    """Show how times went, and where they changed.

    Times of different machines, Pythons, providers or tools are never put into one trend. A change
    point comes with its revision, the ratio of the times after and before, and a p-value.

    \b
    Exit codes: 0 printed; 2 bad input; 4 no history, or none of these cells and arms in it.

    \b
    Examples:
      stepbench history trend
      stepbench history trend --cell 'v2-64*' --arm incremental --plot trend.svg
      stepbench history trend --from s3://bucket/stepbench --json
    """
    chosen = chosen_format(style, as_json)
    check_installed("history", "pyarrow", "fsspec", "ruptures")
    if plot is not None:
        _check_plot(plot)
    from harness.history.change_points import find_changes
    from harness.system.pool import aside

    # SciPy takes most of a second to import, and what is imported and read here takes another.
    with aside(find_changes, ([],)) as find:
        from reports.history.tables import write_trends
        from reports.history.trends import COLUMNS, find_trends, other_hosts

        table, _ = _read(address, COLUMNS)
        if plot is not None:
            importlib.import_module("reports.history.plot")
        trends, unknown = find_trends(table, cell, arm, find)
    notes = []
    if unknown:
        notes = [f"Without a machine fingerprint, and so in no trend: {', '.join(unknown)}."]
    if not trends:
        more = f" ({notes[0]})" if notes else ""
        raise NoBaselineError(f"{address}: no run of an arm {arm!r} in a cell {cell!r}{more}")
    notes += other_hosts(table)
    if plot is not None:
        _write_plot(trends, plot)
    with unread_is_fine():
        write_trends(trends, notes, address, chosen, sys.stdout)
    if chosen == "csv":
        for note in notes:  # For which a table has no place.
            say(note)


@command.command()
@_from_option
@click.option("--samples", is_flag=True, help="Every sample, instead of a figure an arm.")
@click.option(
    "--format",
    "style",
    type=click.Choice(_EXPORTS),
    help="The format.  [default: as the output file is named, else csv]",
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file.  [default: stdout]"
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def export(
    address: str,
    samples: bool,
    style: str | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Write the history as one table for other tools.

    A row is one arm of one cell of one run, with its time and interval in seconds, or one sample.

    \b
    Examples:
      stepbench history export > figures.csv
      stepbench history export --samples -o samples.parquet
      stepbench history export --json
    """
    chosen = _export_format(style, as_json, output)
    if chosen == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: -o FILE")
    if output is not None:
        check_writable(output, force=force)
    check_installed("history", "pyarrow", "fsspec")
    from reports.history.export import export_columns, figures_table, samples_table, write_export

    from .progress import CountingProgress

    table, _ = _read(address, export_columns(samples=samples))
    rows = samples_table(table) if samples else figures_table(table)
    if output is None:
        is_seen = sys.stdout.isatty()
        with (
            unread_is_fine(),
            CountingProgress(len(rows), "rows", quiet=is_seen) as progress,
        ):
            write_export(rows, chosen, sys.stdout.buffer, progress.add)
        return
    with CountingProgress(len(rows), "rows", quiet=False) as progress:
        write_atomically(output, lambda file: write_export(rows, chosen, file, progress.add), "wb")
    say(f"{len(rows):,} rows written to {output}")


def _export_format(style: str | None, as_json: bool, output: Path | None) -> str:
    if as_json and style not in (None, "json"):
        raise click.UsageError(f"--json contradicts --format {style}")
    named = output.suffix[1:] if output is not None else ""
    return "json" if as_json else style or (named if named in _EXPORTS else "csv")


def _read(address: str, columns: Sequence[str]) -> tuple["pa.Table", list[str]]:
    """Read columns of the history, and name what had to be skipped.

    Raises:
        InputError: the folder cannot be read.
        NoBaselineError: there is none, or no file in it that can be read.
    """
    from harness.history.history import find_folder, read_runs

    table, skipped = read_runs(find_folder(address), columns)
    for problem in skipped:
        say(problem)
    if not len(table):
        raise NoBaselineError(f"{address}: no file in it can be read")
    return table, skipped


def _check_plot(plot: Path) -> None:
    if plot.suffix not in _PLOTS:
        raise click.UsageError(f"--plot {plot}: a plot is a {' or '.join(_PLOTS)} file")
    check_writable(plot, force=True)


def _write_plot(trends: Sequence["Trend"], file: Path) -> None:
    from reports.history.plot import plot
    from reports.plots.style import LIGHT, render

    drawn = render(plot(trends), LIGHT, file.suffix[1:])
    write_atomically(file, lambda opened: opened.write(drawn), "wb")
