"""What the sections of the power study's report share: figures as words, and cells by name."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from power_file import Record, cells_of

from harness.compare.figure import Kind
from harness.stats.estimates import Estimate, proportion, student_t
from reports.render.markdown import render_table
from reports.render.table import Column, ColumnKind, Table

# What a row of the report is called.
_NAMES = ("Cell", "Tool", "Slowdown", "A/A", "Position")


def count(found: int, trials: int) -> str:
    """Return a count with the exact 95 % interval of its share."""
    share = proportion(found, trials)
    return f"{found} of {trials} ({share.low:.1%} to {share.high:.1%})"


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean of log ratios as a ratio, with its 95 % t interval."""
    middle = statistics.fmean(values)
    half = math.inf
    if len(values) > 1:
        error = statistics.stdev(values) / math.sqrt(len(values))
        half = student_t(len(values) - 1) * error
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def by_cell(trials: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the cells of trials by their name."""
    cells: dict[str, list[Record]] = defaultdict(list)
    for cell in cells_of(trials):
        cells[cell["cell"]].append(cell)
    return cells


def is_alarm(cell: Record) -> bool:
    """Return whether a cell is said to differ."""
    return cell["kind"] in (Kind.SLOWER, Kind.FASTER)


def grids_with_alarm(grids: Iterable[Record]) -> int:
    """Return in how many grids a cell is said to differ."""
    return sum(any(is_alarm(cell) for cell in grid["cells"]) for grid in grids)


def slower(cells: Iterable[Record]) -> int:
    """Return how many of these cells are said to be slower."""
    return sum(cell["kind"] == Kind.SLOWER for cell in cells)


def seconds(values: Sequence[float]) -> str:
    """Return the median and the largest of times in seconds."""
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} s (at most {max(values):.1f})"


def ratio(found: Estimate) -> str:
    """Return a ratio near 1 with its interval."""
    return f"{found.value:.5f} ({found.low:.5f} to {found.high:.5f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    columns = [
        Column(each, ColumnKind.NAME if each in _NAMES else ColumnKind.FIGURE) for each in head
    ]
    return render_table(Table.of(columns, rows))
