"""How a cell is called in a table: the columns that tell it, and their texts."""

import math
from collections.abc import Sequence

from scenarios.scenario import SteadyDecode, TraceReplay
from subjects.base import Cell

from .table import Column, ColumnKind, Value, names


def cell_columns(
    cells: Sequence[tuple[SteadyDecode | TraceReplay, float, float]],
) -> tuple[list[Column], list[list[Value | str]]]:
    """Return the columns that tell the cell, and what stands in them for each cell.

    Args:
        cells: for each the scenario, the mean number of requests and of tokens per request, which
            may be unknown (not a number) for a trace.
    """
    settings = [" ".join(scenario.settings()) for scenario, _, _ in cells]
    with_manager = {scenario.manager for scenario, _, _ in cells} != {"v2"}
    with_settings = any(settings)
    columns = [Column("Requests", ColumnKind.SIZE), Column("Tokens per request", ColumnKind.SIZE)]
    columns += names("Manager") if with_manager else []
    columns += names("Settings") if with_settings else []
    rows: list[list[Value | str]] = []
    for (scenario, requests, tokens), words in zip(cells, settings, strict=True):
        row: list[Value | str] = [Value(f"{requests:,.0f}", requests), _tokens(scenario, tokens)]
        row += [scenario.manager.upper()] if with_manager else []
        row += [words] if with_settings else []
        rows.append(row)
    return columns, rows


def pair_columns(
    a: str, b: str, scenarios: Sequence[SteadyDecode | TraceReplay | Cell]
) -> tuple[list[Column], list[list[Value | str]]]:
    """Return the columns for cells and the two arms measured in them, and what tells the cells.

    Args:
        a: the first arm.
        b: the second; the same arm again is named so.
        scenarios: the cells. A trace shows its largest batch, and no tokens.
    """
    own = [cell for cell in scenarios if isinstance(cell, Cell)]
    if own:
        columns, rows = own_columns(own)
    else:
        steady = [cell for cell in scenarios if not isinstance(cell, Cell)]
        columns, rows = cell_columns([(cell, *nominal_size(cell)) for cell in steady])
    return [*columns, Column(a), Column(b if b != a else f"{b} again")], rows


def own_columns(cells: Sequence[Cell]) -> tuple[list[Column], list[list[Value | str]]]:
    """Return the columns that tell the cells of a user's own function: its sizes and labels."""
    sizes, labels = cells[0].sizes, cells[0].labels
    columns = [*names("Cell"), *(Column(name.capitalize(), ColumnKind.SIZE) for name in sizes)]
    columns += names(*(name.capitalize() for name in labels))
    return columns, [
        [
            cell.name,
            *(Value(f"{cell.sizes[name]:,}", cell.sizes[name]) for name in sizes),
            *(cell.labels[name] for name in labels),
        ]
        for cell in cells
    ]


def nominal_size(scenario: SteadyDecode | TraceReplay) -> tuple[float, float]:
    """Return requests and tokens of a cell, for ``cell_columns``: of a trace its largest batch."""
    if isinstance(scenario, SteadyDecode):
        return float(scenario.requests), float(scenario.tokens)
    return float(scenario.max_batch), math.nan


def _tokens(scenario: SteadyDecode | TraceReplay, mean: float) -> Value:
    if isinstance(scenario, SteadyDecode):
        return Value(f"{scenario.tokens:,}", scenario.tokens)
    return Value("-") if math.isnan(mean) else Value(f"{mean:,.0f} (mean)", mean)
