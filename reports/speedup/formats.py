"""The formats that the speedup table can be printed in."""

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console

from reports.render import terminal
from reports.render.formats import Format
from reports.render.markdown import render_table
from reports.render.words import plain, visible

from . import records
from .summary import Summary, machines_note
from .table import speedup_table


def write(summaries: Sequence[Summary], style: Format, file: TextIO) -> None:
    """Write ``summaries`` to ``file`` in the format ``style``."""
    if style == "terminal":
        print_summaries(summaries, file)
        return
    render = {
        "markdown": render_markdown,
        "csv": records.render_csv,
        "json": records.render_json,
    }[style]
    file.write(render(summaries))


def render_markdown(summaries: Sequence[Summary]) -> str:
    """Return the tables with their notes and provenance, one after the other."""
    note = machines_note(summaries)
    parts = [f"**{plain(note)}**"] if note else []
    for summary in summaries:
        if len(summaries) > 1:
            parts.append(f"### {plain(summary.file)}")
        parts.append(render_table(speedup_table(summary)))
        parts += map(plain, (*summary.notes, summary.provenance))
    return "\n\n".join(parts) + "\n"


def print_summaries(summaries: Sequence[Summary], file: TextIO) -> None:
    """Print the tables with their notes and provenance to ``file``.

    A pipe gets the table at its natural width, without colour.
    """
    with terminal.open_console(file) as console:
        _print_all(summaries, console)


def _print_all(summaries: Sequence[Summary], console: Console) -> None:
    note = machines_note(summaries)
    if note:
        terminal.paragraph(console, note, "bold yellow")
    for summary in summaries:
        if len(summaries) > 1:
            terminal.paragraph(console, summary.file, "bold")
        console.print(terminal.drawn(speedup_table(summary)))
        for text in summary.notes:
            terminal.paragraph(console, visible(text).replace("`", "") + "\n", "yellow")
        terminal.paragraph(console, terminal.plain(summary.provenance), "dim")
