"""What the calls of the stand-ins cost, beside what is published of the real ones."""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import TextIO

from harness.calibrate.calibration import Cost
from reports.render.cells import cell_columns
from reports.render.formats import write_parts
from reports.render.numbers import ratio_value, time_value
from reports.render.table import Table, Value, figure, figures, names

from .records import render_json
from .summary import Summary

# Published costs of the real calls, in the table's units.
_PUBLISHED = {
    "get_tokens(0)": "about 19.5; through nanobind 11.4 to 12.6, at 131,072 tokens 23",
    "get_num_tokens(0)": "63 through nanobind",
    "get_tokens_range(0, n - 1, n)": "135 through nanobind",
}

# Costs by call, unit and size, then by provider, one for each process.
Costs = Mapping[str, Sequence[Sequence[Cost]]]


def write_calibration(
    costs: Costs, summaries: Sequence[Summary], where: str, style: str, file: TextIO
) -> None:
    """Write a calibration to ``file``.

    Args:
        costs: by provider, the costs that each of its processes found.
        summaries: what was measured of the same cells and arms on each of the providers; empty
            where that was left out.
        where: what names the machine and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        records = [
            {"provider": provider, "call": call, "unit": unit, "size": size, "nanoseconds": values}
            for (call, unit, size), row in _rows(costs).items()
            for provider, values in row.items()
        ]
        document = {
            "where": where,
            "costs": records,
            "speedups": json.loads(render_json(summaries))["results"],
        }
        file.write(json.dumps(document, indent=2) + "\n")
        return
    parts: list[Table | str] = [
        "What a call of the stand-ins costs, in ns; median over processes (least to most):",
        _table(costs),
        "Freeing what a call returns is part of its cost; the loop around it is not. Where the "
        "cost of a token or an index rises with the size, the list has left the cache. Published "
        "are figures of the real calls, or of a list built through nanobind, on other machines.",
        where,
    ]
    if summaries:
        parts += ["The speedup table on each of them:", side_by_side(summaries)]
        parts += [note for summary in summaries for note in summary.notes]
        parts.append(summaries[-1].provenance)
    write_parts(parts, style, file)


def side_by_side(summaries: Sequence[Summary]) -> Table:
    """Return one row a cell with the times and the speedup on each provider."""
    cells = summaries[0].cells if summaries else ()
    head, rows = cell_columns([(cell.scenario, cell.requests, cell.tokens) for cell in cells])
    columns = list(head)
    for summary in summaries:
        base, arm = summary.arms
        columns += figures(f"{summary.provider}: {base}", arm, "Speedup (95 % interval)")
        for cell, row in zip(summary.cells, rows, strict=True):
            row += [time_value(cell.seconds[name].value) for name in (base, arm)]
            row.append(ratio_value(cell.speedups[arm]))
    return Table.of(columns, rows)


def _rows(costs: Costs) -> dict[tuple[str, str, int | None], dict[str, list[float]]]:
    rows: dict[tuple[str, str, int | None], dict[str, list[float]]] = {}
    for provider, processes in costs.items():
        for process in processes:
            for cost in process:
                row = rows.setdefault((cost.call, cost.unit, cost.size), {})
                row.setdefault(provider, []).append(cost.nanoseconds)
    return rows


def _table(costs: Costs) -> Table:
    texts: list[tuple[Value | str, ...]] = []
    before = None
    # The sizes of a call one after the other.
    rows = sorted(_rows(costs).items(), key=lambda item: list(_calls(costs)).index(item[0][0]))
    for (call, unit, size), row in rows:
        first = call != before
        before = call
        texts.append(
            (
                call if first else "",
                unit,
                figure("" if size is None else f"{size:,}", size),
                *(_cost(row.get(provider, [])) for provider in costs),
                _PUBLISHED.get(call, "") if first else "",
            )
        )
    return Table.of((*names("Call"), *figures("Per", "Size", *costs, "Published")), texts)


def _calls(costs: Costs) -> dict[str, None]:
    return dict.fromkeys(call for call, _, _ in _rows(costs))


def _cost(values: Sequence[float]) -> Value:
    if not values:
        return Value("-")
    middle = statistics.median(values)
    digits = 1 if middle < 99.95 else 0
    text = f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
    return Value(text, middle, "ns")
