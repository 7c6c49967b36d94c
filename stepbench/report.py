"""``stepbench report``."""

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from harness.speedup.file import check_writable
from harness.system.files import write_atomically
from stepbench_core.errors import InputError

from .cli import NOTHING_TO_COMPARE
from .messages import say, unread_is_fine
from .options import FORMATS, chosen_format, format_options, quiet_option
from .progress import CountingProgress

if TYPE_CHECKING:
    from reports.document.report import Style
    from reports.evidence import Evidence


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Earlier results of the same machine, to show the times of a single file beside.",
)
@click.option(
    "--plots",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write the plots there as well: SVG and PNG, for light and for dark pages.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the report there instead."
)
@click.option("--force", is_flag=True, help="Overwrite that file.")
@quiet_option
@format_options((*FORMATS, "comment", "html"))
def command(
    *,
    files: tuple[Path, ...],
    baseline: Path | None,
    plots: Path | None,
    output: Path | None,
    force: bool,
    quiet: bool,
    style: str | None,
    as_json: bool,
) -> int:
    """Print what stored results say: tables, plots, a comment, a page.

    A FILE is what speedup, compare, overlap, gate or nox -s bench wrote, or what verify or count
    printed with --json. Results of several files become a table each; results of several machines
    are marked as such. With a baseline, which has to be of the same machine, the times of both
    stand side by side. That is no verdict, since the machine drifts between two runs: for one, use
    `stepbench compare`.

    The format comment is Markdown for a pull request, html a page of its own with the plots and all
    samples in it.

    \b
    Exit codes: 0 printed; 4 the baseline is of another machine, or has arms or cells that the file
    has not.

    \b
    Examples:
      stepbench report results/speedup.json
      stepbench report results/speedup.json --format markdown > table.md
      stepbench report laptop.json server.json --json
      stepbench report new.json --baseline old.json
      stepbench report results/speedup.json --plots plots
      stepbench report results/speedup.json gate.json counts.json --format comment
      stepbench report results/speedup.json --format html -o report.html
    """
    chosen = cast("Style", chosen_format(style, as_json))
    if chosen == "html" and output is None and sys.stdout.isatty():
        raise click.UsageError("a page is for a file: add -o report.html")
    if output is not None:
        if output.exists() and any(file.exists() and output.samefile(file) for file in files):
            raise InputError(f"{output}: is read by the report: it would be lost")
        check_writable(output, force=force)
    if baseline is not None:
        if len(files) > 1:
            raise click.UsageError("--baseline goes with a single file")
        if plots is not None or output is not None or chosen in ("comment", "html"):
            raise click.UsageError("--baseline goes with a table alone, printed")
        return _beside(files[0], baseline, chosen)
    # pandas takes a quarter of a second to import.
    from reports.document.report import has_more_than_tables, write_report
    from reports.evidence import read_evidence

    evidence = read_evidence(files)
    text = io.StringIO()
    write_report(evidence, chosen, text if output is not None else sys.stdout)
    if output is not None:
        write_atomically(output, lambda file: file.write(text.getvalue()))
    if chosen == "csv" and has_more_than_tables(evidence):
        say("CSV holds speedup tables alone: the other files are left out")
    if plots is not None:
        sys.stdout.flush()
        _draw(evidence, plots, quiet=quiet)
    return 0


def _beside(file: Path, baseline: Path, style: "Style") -> int:
    """Print the times of a file beside those of its baseline; return the exit code."""
    from harness.speedup.file import load
    from reports.speedup.baseline import compare_files, write_comparison

    comparison = compare_files(load(file), load(baseline))
    with unread_is_fine():
        write_comparison(comparison, style, sys.stdout)  # type: ignore[arg-type]
    if style == "csv":
        for note in comparison.notes:  # For which a table has no place.
            say(note)
    return NOTHING_TO_COMPARE if comparison.only_baseline else 0


def _draw(evidence: "Evidence", folder: Path, *, quiet: bool) -> None:
    """Write the plots. Raises InputError where there is nothing to draw."""
    # matplotlib takes half a second to import.
    from reports.plots.draw import plots, write_plots

    found = plots(evidence)
    if not found:
        raise InputError("--plots: nothing to draw: the files hold no samples")
    with CountingProgress(len(found), "plots", quiet=quiet) as progress:
        files = write_plots(found, folder, progress.add)
    if not quiet:
        say(f"{len(files)} files in {folder}")
