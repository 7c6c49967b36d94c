"""The speedup table as rows of text, before any markup."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.arms import FLOOR
from scenarios.scenario import SteadyDecode, TraceReplay

from .numbers import format_ratio, format_speedup, format_time
from .summary import Cell, Summary, proper_arms

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
_SPEEDUP = "Speedup (95 % interval)"
_TIMES_FLOOR = "x floor (95 % interval)"
# What the arm that others are compared with is to itself.
_ITSELF = "1"
_UNKNOWN = "not measured"


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


def speedup_table(summary: Summary) -> Table:
    """Return the table of a summary.

    Up to two arms have one row a cell: the cell, a time for each arm, the speedup of the second.
    More of them, or the floor among them, have a row for each cell and arm.

    Manager and settings have columns of their own where the cells differ in them.
    """
    if len(summary.arms) > 2 or FLOOR in summary.arms:
        return _by_arm(summary)
    return _by_cell(summary)


def is_words(column: str) -> bool:
    """Return whether a column with this heading holds words, and no figures."""
    return column in _WORDS


def _by_cell(summary: Summary) -> Table:
    head, cells = _cells(summary)
    columns = (*head, *summary.arms, *([_SPEEDUP] if len(summary.arms) > 1 else []))
    rows = [
        (
            *texts,
            *(_time(cell, arm) for arm in summary.arms),
            *(_speedup(cell, arm) for arm in summary.arms[1:]),
        )
        for cell, texts in zip(summary.cells, cells, strict=True)
    ]
    return Table(columns, tuple(rows))


def _by_arm(summary: Summary) -> Table:
    """Return one row per cell and arm; what tells the cell stands in the first row of it alone.

    A column of ratios is left out where there is nothing to compare: no second arm beside the
    floor, or no arm beside it at all.
    """
    head, cells = _cells(summary)
    arms, proper = summary.arms, proper_arms(summary.arms)
    with_speedup = len(proper) > 1
    with_floor = FLOOR in arms and len(arms) > 1
    columns = [*head, "Arm", "Time"]
    columns += [_SPEEDUP] if with_speedup else []
    columns += [_TIMES_FLOOR] if with_floor else []
    rows = []
    for cell, texts in zip(summary.cells, cells, strict=True):
        for arm in arms:
            row = [*(texts if arm == arms[0] else [""] * len(texts)), arm, _time(cell, arm)]
            row += [_speedup_over(proper[0], cell, arm)] if with_speedup else []
            row += [_times_floor(cell, arm)] if with_floor else []
            rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows), rows_per_cell=len(arms))


def _cells(summary: Summary) -> tuple[list[str], list[list[str]]]:
    return cell_columns([(cell.scenario, cell.requests, cell.tokens) for cell in summary.cells])


def cell_columns(
    cells: Sequence[tuple[SteadyDecode | TraceReplay, float, float]],
) -> tuple[list[str], list[list[str]]]:
    """Return the headings of the columns that tell the cell, and their texts for each cell.

    Args:
        cells: for each the scenario, the mean number of requests and of tokens per request, which
            may be unknown (not a number) for a trace.
    """
    settings = [" ".join(scenario.settings()) for scenario, _, _ in cells]
    with_manager = {scenario.manager for scenario, _, _ in cells} != {"v2"}
    with_settings = any(settings)
    columns = ["Requests", "Tokens per request"]
    columns += ["Manager"] if with_manager else []
    columns += ["Settings"] if with_settings else []
    rows = []
    for (scenario, requests, tokens), words in zip(cells, settings, strict=True):
        row = [f"{requests:,.0f}", _tokens(scenario, tokens)]
        row += [scenario.manager.upper()] if with_manager else []
        row += [words] if with_settings else []
        rows.append(row)
    return columns, rows


def pair_columns(
    a: str, b: str, scenarios: Sequence[SteadyDecode | TraceReplay]
) -> tuple[list[str], list[list[str]]]:
    """Return the headings for cells and the two arms measured in them, and the cells' texts.

    Args:
        a: the first arm.
        b: the second; the same arm again is named so.
        scenarios: the cells. A trace shows its largest batch, and no tokens.
    """
    columns, rows = cell_columns([(scenario, *nominal_size(scenario)) for scenario in scenarios])
    return [*columns, a, b if b != a else f"{b} again"], rows


def nominal_size(scenario: SteadyDecode | TraceReplay) -> tuple[float, float]:
    """Return requests and tokens of a cell, for ``cell_columns``: of a trace its largest batch."""
    if isinstance(scenario, SteadyDecode):
        return float(scenario.requests), float(scenario.tokens)
    return float(scenario.max_batch), math.nan


def _tokens(scenario: SteadyDecode | TraceReplay, mean: float) -> str:
    if isinstance(scenario, SteadyDecode):
        return f"{scenario.tokens:,}"
    return "-" if math.isnan(mean) else f"{mean:,.0f} (mean)"


def _time(cell: Cell, arm: str) -> str:
    return format_time(cell.seconds[arm].value) if arm in cell.seconds else _UNKNOWN


def _speedup(cell: Cell, arm: str) -> str:
    if arm not in cell.speedups:
        return _UNKNOWN
    ratio = cell.speedups[arm]
    return format_speedup(
        ratio, typical_only=cell.is_typical_only, missed=cell.missed_precision(ratio)
    )


def _speedup_over(base: str, cell: Cell, arm: str) -> str:
    if arm == FLOOR:
        return ""  # It is no arm that could be put in the place of another.
    if arm == base and arm in cell.seconds:
        return _ITSELF
    return _speedup(cell, arm)


def _times_floor(cell: Cell, arm: str) -> str:
    if arm == FLOOR and arm in cell.seconds:
        return _ITSELF
    if arm not in cell.times_floor:
        return _UNKNOWN
    ratio = cell.times_floor[arm]
    return format_ratio(ratio, cell.missed_precision(ratio))
