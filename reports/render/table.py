"""A table of values under headings, before any markup.

What a format needs follows from them: on which side a column stands, which columns name a row, what
is coloured, and what a page sorts by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum


class State(IntEnum):
    """What something says for a change, the worst last."""

    NEUTRAL = 0
    GOOD = 1
    OPEN = 2
    BAD = 3


class ColumnKind(Enum):
    """What a column holds.

    Words read from the left; figures stand on the right. Names and sizes tell a row from others.
    """

    NAME = "words that name a row"
    SIZE = "figures that name a row"
    WORDS = "words"
    FIGURE = "figures"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        kind: what it holds.
    """

    title: str
    kind: ColumnKind = ColumnKind.FIGURE

    @property
    def is_words(self) -> bool:
        """Whether it holds words, and no figures."""
        return self.kind in (ColumnKind.NAME, ColumnKind.WORDS)

    @property
    def names_row(self) -> bool:
        """Whether it tells a row from others, where it is one of the first columns."""
        return self.kind in (ColumnKind.NAME, ColumnKind.SIZE)


@dataclass(frozen=True)
class Value:
    """What stands in a table, in one place.

    Attributes:
        text: what is shown.
        number: what it is sorted by; None where it is no figure, or a figure that is not known.
        unit: what the number is of: ``s`` for seconds; empty for a count or a ratio.
        state: what it says for a change.
    """

    text: str
    number: float | None = None
    unit: str = ""
    state: State = State.NEUTRAL

    def __str__(self) -> str:
        """Return what is shown."""
        return self.text


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        columns: the columns.
        rows: the values, as many in each row as there are columns.
        rows_per_cell: how many rows in succession belong to one cell.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    rows_per_cell: int = 1

    @classmethod
    def of(
        cls,
        columns: Iterable[Column],
        rows: Iterable[Iterable[Value | str]],
        rows_per_cell: int = 1,
    ) -> Table:
        """Return a table; a text alone is a value as well."""
        return cls(
            tuple(columns),
            tuple(
                tuple(Value(each) if isinstance(each, str) else each for each in row)
                for row in rows
            ),
            rows_per_cell,
        )

    @property
    def titles(self) -> tuple[str, ...]:
        """The headings."""
        return tuple(column.title for column in self.columns)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """What is shown in each row."""
        return tuple(tuple(value.text for value in row) for row in self.rows)


# What was to be measured and was not.
UNKNOWN = Value("not measured", state=State.OPEN)


def names(*titles: str) -> Sequence[Column]:
    """Return columns of words that name a row."""
    return [Column(title, ColumnKind.NAME) for title in titles]


def words(*titles: str) -> Sequence[Column]:
    """Return columns of words."""
    return [Column(title, ColumnKind.WORDS) for title in titles]


def figures(*titles: str) -> Sequence[Column]:
    """Return columns of figures."""
    return [Column(title) for title in titles]


def figure(text: str, number: float | None) -> Value:
    """Return a figure in these words; one that is None or no number is not known."""
    return Value(text, None if number is None or math.isnan(number) else number)
