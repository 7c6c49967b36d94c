"""The summary for a terminal, at its width and in colour where it has any."""

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .summary import Summary, machines_note
from .table import is_words, speedup_table


def print_summaries(summaries: Sequence[Summary], file: TextIO) -> None:
    """Print the tables with their notes and provenance to ``file``.

    A pipe gets the table at its natural width, without colour.
    """
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = 1_000
    # Written at once by us: rich would turn a closed pipe into an exit code of its own.
    with console.capture() as capture:
        _print_all(summaries, console)
    file.write(capture.get())


def _print_all(summaries: Sequence[Summary], console: Console) -> None:
    def paragraph(text: str, style: str) -> None:
        console.print(Text(text, style=style), soft_wrap=not console.is_terminal)

    note = machines_note(summaries)
    if note:
        paragraph(note, "bold yellow")
    for summary in summaries:
        if len(summaries) > 1:
            paragraph(summary.file, "bold")
        rows = speedup_table(summary)
        # Narrow gaps: the columns have to fit 80 characters.
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for column in rows.columns:
            # A heading may take two lines, where the figures below it should not.
            heading = column.replace("Tokens per ", "Tokens per\n").replace(" (95 %", "\n(95 %")
            table.add_column(
                heading, justify="left" if is_words(column) else "right", overflow="fold"
            )
        for number, row in enumerate(rows.rows, start=1):
            # A gap after the rows of a cell, unless each row is one.
            last = rows.rows_per_cell > 1 and number % rows.rows_per_cell == 0
            table.add_row(*(Text(text, style=_style(text)) for text in row), end_section=last)
        console.print(table)
        for text in summary.notes:
            paragraph(text.replace("`", "") + "\n", "yellow")
        paragraph(summary.provenance.replace("`", "'"), "dim")


def _style(text: str) -> str:
    if text.endswith("slower"):
        return "red"
    return "yellow" if text.endswith(("no clear difference", "not measured")) else ""
