"""The summary for a terminal, at its width and in colour where it has any."""

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .summary import Summary, machines_note
from .table import speedup_table


def print_summaries(summaries: Sequence[Summary], file: TextIO) -> None:
    """Print the tables with their notes and provenance to ``file``.

    A pipe gets the table at its natural width, without colour.
    """
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = 1_000
    note = machines_note(summaries)
    if note:
        console.print(Text(note, style="bold yellow"), soft_wrap=True)
    for summary in summaries:
        if len(summaries) > 1:
            console.print(Text(summary.file, style="bold"))
        rows = speedup_table(summary)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in rows.columns:
            left = column in ("Manager", "Settings")
            table.add_column(column, justify="left" if left else "right", overflow="fold")
        for row in rows.rows:
            table.add_row(*(Text(text, style=_style(text)) for text in row))
        console.print(table)
        for text in summary.notes:
            console.print(
                Text(text.replace("`", ""), style="yellow"), soft_wrap=not console.is_terminal
            )
        console.print(
            Text(summary.provenance.replace("`", "'"), style="dim"),
            soft_wrap=not console.is_terminal,
        )


def _style(text: str) -> str:
    if text.endswith("slower"):
        return "red"
    return "yellow" if text.endswith(("no clear difference", "not measured")) else ""
