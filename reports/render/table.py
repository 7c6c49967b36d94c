"""A table of texts, before any markup."""

from dataclasses import dataclass

# Columns of words, which read from the left; figures stand on the right.
_WORDS = (
    "Manager",
    "Settings",
    "Arm",
    "Cells",
    "Call",
    "Step",
    "Finding",
    "Cell",
    "Tool",
    "Slowdown",
    "A/A",
    "Position",
    "Outcome",
    "Shortest operation list",
    "What was found",
    "Verdict",
    "Date",
    "File",
    "Machine",
    "Python",
    "Provider",
    "Collector",
    "Arms",
    "From",
    "To",
    "Revision",
    "Revision before",
    "Where",
    "Operator",
    "Before",
    "After",
)


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        columns: the headings.
        rows: the texts, as many in each row as there are columns.
        rows_per_cell: how many rows in succession belong to one cell.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rows_per_cell: int = 1


def is_words(column: str) -> bool:
    """Return whether a column with this heading holds words, and no figures."""
    return column in _WORDS
