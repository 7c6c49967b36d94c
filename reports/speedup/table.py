"""The speedup table as rows of text, before any markup."""

from harness.arms.registry import FLOOR
from reports.render.cells import cell_columns
from reports.render.numbers import ratio_value, speedup_value, time_value
from reports.render.table import UNKNOWN, Column, Table, Value, figures, names

from .summary import Cell, Summary, proper_arms

_SPEEDUP = "Speedup (95 % interval)"
_TIMES_FLOOR = "x floor (95 % interval)"
# What the arm that others are compared with is to itself.
_ITSELF = Value("1", 1)
_NOTHING = Value("")


def speedup_table(summary: Summary) -> Table:
    """Return the table of a summary.

    Up to two arms have one row a cell: the cell, a time for each arm, the speedup of the second.
    More of them, or the floor among them, have a row for each cell and arm.

    Manager and settings have columns of their own where the cells differ in them.
    """
    if len(summary.arms) > 2 or FLOOR in summary.arms:
        return _by_arm(summary)
    return _by_cell(summary)


def _by_cell(summary: Summary) -> Table:
    head, cells = _cells(summary)
    titles = (*summary.arms, *([_SPEEDUP] if len(summary.arms) > 1 else []))
    rows: list[tuple[Value | str, ...]] = [
        (
            *texts,
            *(_time(cell, arm) for arm in summary.arms),
            *(_speedup(cell, arm) for arm in summary.arms[1:]),
        )
        for cell, texts in zip(summary.cells, cells, strict=True)
    ]
    return Table.of([*head, *figures(*titles)], rows)


def _by_arm(summary: Summary) -> Table:
    """Return one row per cell and arm; what tells the cell stands in the first row of it alone.

    A column of ratios is left out where there is nothing to compare: no second arm beside the
    floor, or no arm beside it at all.
    """
    head, cells = _cells(summary)
    arms, proper = summary.arms, proper_arms(summary.arms)
    with_speedup = len(proper) > 1
    with_floor = FLOOR in arms and len(arms) > 1
    titles = [
        "Time",
        *([_SPEEDUP] if with_speedup else []),
        *([_TIMES_FLOOR] if with_floor else []),
    ]
    columns = [*head, *names("Arm"), *figures(*titles)]
    rows: list[list[Value | str]] = []
    for cell, texts in zip(summary.cells, cells, strict=True):
        for arm in arms:
            row: list[Value | str] = [
                *(texts if arm == arms[0] else [""] * len(texts)),
                arm,
                _time(cell, arm),
            ]
            row += [_speedup_over(proper[0], cell, arm)] if with_speedup else []
            row += [_times_floor(cell, arm)] if with_floor else []
            rows.append(row)
    return Table.of(columns, rows, rows_per_cell=len(arms))


def _cells(summary: Summary) -> tuple[list[Column], list[list[Value | str]]]:
    return cell_columns([(cell.scenario, cell.requests, cell.tokens) for cell in summary.cells])


def _time(cell: Cell, arm: str) -> Value:
    return time_value(cell.seconds[arm].value) if arm in cell.seconds else UNKNOWN


def _speedup(cell: Cell, arm: str) -> Value:
    if arm not in cell.speedups:
        return UNKNOWN
    ratio = cell.speedups[arm]
    return speedup_value(
        ratio, typical_only=cell.is_typical_only, missed=cell.missed_precision(ratio)
    )


def _speedup_over(base: str, cell: Cell, arm: str) -> Value:
    if arm == FLOOR:
        return _NOTHING  # It is no arm that could be put in the place of another.
    if arm == base and arm in cell.seconds:
        return _ITSELF
    return _speedup(cell, arm)


def _times_floor(cell: Cell, arm: str) -> Value:
    if arm == FLOOR and arm in cell.seconds:
        return _ITSELF
    if arm not in cell.times_floor:
        return UNKNOWN
    ratio = cell.times_floor[arm]
    return ratio_value(ratio, cell.missed_precision(ratio))
