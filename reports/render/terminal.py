"""Tables and texts for a terminal, at its width and in colour where it has any."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TextIO

import rich.table
from rich import box
from rich.console import Console
from rich.text import Text

from .parts import Part, Section, Verbatim
from .table import State, Table
from .words import visible

# Of a table: far more than any has.
_WIDEST = 10_000
# Of a section's verdict, and of a value, where what is good needs no colour.
_STATES = {State.NEUTRAL: "", State.GOOD: "green", State.OPEN: "yellow", State.BAD: "red"}
_COLOURS = _STATES | {State.GOOD: ""}


def print_parts(parts: Sequence[Part], file: TextIO) -> None:
    """Print parts of a report to ``file``.

    A pipe gets tables at their natural width, without colour.
    """
    with open_console(file) as console:
        for part in parts:
            _print_part(part, console)


def print_sections(
    sections: Sequence[Section], warning: str | None, missing: str, file: TextIO
) -> None:
    """Print the sections of a report to ``file``, in the same way.

    Args:
        sections: the sections.
        warning: what comes before them, if anything.
        missing: what comes after them, if anything.
        file: where to.
    """
    with open_console(file) as console:
        if warning:
            paragraph(console, plain(warning) + "\n", "bold yellow")
        for section in sections:
            paragraph(console, section.title, "bold")
            paragraph(console, plain(section.verdict), _STATES[section.state])
            for part in (*section.parts, *section.details):
                _print_part(part, console)
            paragraph(console, plain(section.provenance) + "\n", "dim")
        if missing:
            paragraph(console, plain(missing), "dim")


def _print_part(part: Part, console: Console) -> None:
    if isinstance(part, Verbatim):
        console.print(Text(visible(part.text)), soft_wrap=True)
    elif isinstance(part, str):
        paragraph(console, plain(part), "")
    else:
        for table in _fitting(part, console):
            # A number broken over two lines would be misread: rather let the lines run on.
            width = console.width
            console.width = max(width, _width(table, console))
            console.print(drawn(table), crop=False)
            console.width = width


def _fitting(table: Table, console: Console) -> list[Table]:
    """Return a table in as many as it takes to fit the width, each with what names its rows."""
    names = next(
        (place for place, column in enumerate(table.columns) if not column.names_row),
        len(table.columns),
    )
    tables: list[Table] = []
    shown = list(range(names))
    for column in range(names, len(table.columns)):
        wider = _of_columns(table, [*shown, column])
        if len(shown) > names and _width(wider, console) > console.width:
            tables.append(_of_columns(table, shown))
            shown = list(range(names))
        shown.append(column)
    return [*tables, _of_columns(table, shown)]


def plain(text: str) -> str:
    """Return a text in which code stands between quotation marks."""
    return visible(text).replace("`", "'")


def _width(table: Table, console: Console) -> int:
    """Return how wide a table is where nothing in it is broken, however wide the console is."""
    options = console.options.update(max_width=_WIDEST)
    return console.measure(drawn(table), options=options).maximum


def _of_columns(table: Table, columns: Sequence[int]) -> Table:
    return Table(
        tuple(table.columns[column] for column in columns),
        tuple(tuple(row[column] for column in columns) for row in table.rows),
        table.rows_per_cell,
    )


@contextlib.contextmanager
def open_console(file: TextIO) -> Iterator[Console]:
    """Yield a console whose output goes to ``file`` at the end."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = 1_000
    # Written at once by us: rich would turn a closed pipe into an exit code of its own.
    with console.capture() as capture:
        yield console
    file.write(capture.get())


def paragraph(console: Console, text: str, style: str) -> None:
    """Print a paragraph."""
    console.print(Text(text, style=style), soft_wrap=not console.is_terminal)


def drawn(table: Table) -> rich.table.Table:
    """Return what rich draws of a table."""
    # Narrow gaps: the columns have to fit 80 characters.
    drawn = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        # A heading may take two lines, where the figures below it should not.
        words = column.title.replace("Tokens per ", "Tokens per\n").replace(" (95 %", "\n(95 %")
        heading = Text(visible(words))  # No markup, whatever an arm is called.
        drawn.add_column(heading, justify="left" if column.is_words else "right", overflow="fold")
    for number, row in enumerate(table.rows, start=1):
        # A gap after the rows of a cell, unless each row is one.
        last = table.rows_per_cell > 1 and number % table.rows_per_cell == 0
        texts = (Text(visible(value.text), style=_COLOURS[value.state]) for value in row)
        drawn.add_row(*texts, end_section=last)
    return drawn
