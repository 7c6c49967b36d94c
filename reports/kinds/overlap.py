"""What a change of the host path is worth to a step, as a table with its assumptions, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.overlap.exposure import Exposure, exposures, largest_departure
from harness.overlap.figures import CellFigures, OrderFigures
from harness.overlap.run import OverlapPlan
from harness.stats.estimates import Estimate
from reports.render.cells import cell_columns, nominal_size
from reports.render.formats import write_parts
from reports.render.numbers import short_ratio
from reports.render.table import UNKNOWN, Column, ColumnKind, State, Table, Value, figures, names
from reports.render.words import counted
from scenarios.scenario import SteadyDecode, TraceReplay

from .overlap_words import assumptions, notes, whereabouts

# Less than a hundredth of a microsecond is what rounding leaves.
_NOTHING = 5e-9


def write_overlap(
    plan: OverlapPlan,
    cells: Sequence[CellFigures],
    devices: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, object],
    style: str,
    file: TextIO,
) -> None:
    """Write the figures of all cells to ``file``.

    Args:
        plan: what was measured.
        cells: the figures of the cells that are finished.
        devices: what the device said of itself in each process.
        metadata: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(plan, cells, devices, metadata))
        return
    write_parts(overlap_parts(plan, cells, devices, metadata), style, file)


def overlap_parts(
    plan: OverlapPlan,
    cells: Sequence[CellFigures],
    devices: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, object],
) -> list[Table | str]:
    """Return the table and the paragraphs around it; arguments as for ``write_overlap``."""
    missing = len(plan.scenarios) - len(cells)
    incomplete = f"Incomplete: {counted(missing, 'cell')} of {len(plan.scenarios)} missing."
    return [
        *([incomplete] if missing else []),
        overlap_table(plan, cells),
        *notes(plan, cells, devices),
        assumptions(plan),
        whereabouts(plan, devices, metadata),
    ]


def overlap_table(plan: OverlapPlan, cells: Sequence[CellFigures]) -> Table:
    """Return one row per cell and arm; what tells the cell stands in the first row of it alone."""
    head, texts = cell_columns([(cell.scenario, *nominal_size(cell.scenario)) for cell in cells])
    with_memory = any(plan.forward.share_of_memory(cell.scenario) is not None for cell in cells)
    several = len(plan.arms) > 1
    columns = [
        *head,
        *([Column("Memory", ColumnKind.SIZE)] if with_memory else []),
        *names("Arm"),
        *figures("Path", "Host", "Forward", "Step, no overlap"),
        *(figures("Saved") if several else []),
        *figures("Step, overlap", "Exposed"),
        *(figures("Exposed, engine") if plan.device == "cuda" else []),
        *figures("Hidden"),
        *(figures("Saved, overlap") if several else []),
    ]
    rows: list[tuple[Value | str, ...]] = []
    for cell, words in zip(cells, texts, strict=True):
        first = [*words, *([_memory(plan, cell.scenario)] if with_memory else [])]
        blank, width = [""] * len(first), len(columns) - len(first) - 1
        for index, source in enumerate(plan.arms):
            own = _row(plan, cell, index) if cell.arms else [UNKNOWN] * width
            rows.append((*(blank if index else first), source.spec, *own))
    return Table.of(columns, rows, rows_per_cell=len(plan.arms))


def _row(plan: OverlapPlan, cell: CellFigures, index: int) -> list[Value]:
    arm, several, typical_only = cell.arms[index], len(plan.arms) > 1, bool(cell.dear)
    without, within = arm.without_overlap, arm.with_overlap
    return [
        _part(within.path),
        _part(within.host),
        _part(arm.forward),
        _part(without.step),
        *([_saved(without.saved, typical_only=typical_only)] if several else []),
        _part(within.step),
        _interval_value(within.exposed),
        *([_interval_value(within.engine_exposed)] if plan.device == "cuda" else []),
        _part(within.hidden),
        *([_saved(within.saved, typical_only=typical_only)] if several else []),
    ]


def _part(time: Estimate) -> Value:
    return Value(format_part(time), time.value, "s")


def _interval_value(time: Estimate) -> Value:
    return Value(format_interval(time), time.value, "s")


def _saved(saved: Estimate | None, *, typical_only: bool) -> Value:
    if saved is None:
        return Value("")
    text = format_saved(saved, typical_only=typical_only)
    state = State.NEUTRAL if _is_clear(saved) or typical_only or text == "0" else State.OPEN
    return Value(text, saved.value, "s", state)


def format_part(time: Estimate) -> str:
    """Return a time without its interval, with three digits."""
    write, unit = _scale(time.value)
    return f"{write(time.value)} {unit}" if abs(time.value) >= _NOTHING else "0"


def format_interval(time: Estimate) -> str:
    """Return a time or a difference of times with its interval, if it has one."""
    if math.isinf(time.high):
        return format_part(time)
    values = (time.value, time.low, time.high)
    if all(abs(value) < _NOTHING for value in values):
        return "0"
    write, unit = _scale(max(map(abs, values)))
    return f"{write(time.value)} {unit} ({write(time.low)} to {write(time.high)})"


def format_saved(saved: Estimate | None, *, typical_only: bool = False) -> str:
    """Return what is saved, and say where that may be nothing; of the first arm, nothing.

    Args:
        saved: what is saved in a typical step.
        typical_only: whether the mean step says something else.
    """
    if saved is None:
        return ""
    text = format_interval(saved)
    if _is_clear(saved) or text == "0":
        return text
    return f"{text} {'in a typical step' if typical_only else 'no clear difference'}"


def _is_clear(saved: Estimate) -> bool:
    return math.isinf(saved.high) or saved.low > 0 or saved.high < 0


def _scale(value: float) -> tuple[Callable[[float], str], str]:
    """Return what writes seconds in the unit that suits a value, and the unit."""
    factor, unit = (1e6, "us") if abs(value) < 1e-4 else (1e3, "ms")

    def write(seconds: float) -> str:
        return f"{'-' if seconds < 0 else ''}{short_ratio(abs(seconds) * factor)}"

    return write, unit


def _memory(plan: OverlapPlan, scenario: SteadyDecode | TraceReplay) -> Value:
    share = plan.forward.share_of_memory(scenario)
    if share is None:
        return Value("-")
    is_realistic = plan.forward.unrealistic(scenario) is None
    return Value(f"{share:.0%}{'' if is_realistic else ', not realistic'}", share)


def _json(
    plan: OverlapPlan,
    cells: Sequence[CellFigures],
    devices: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, object],
) -> str:
    departure = largest_departure(cells)
    document: dict[str, Any] = {
        "arms": [source.spec for source in plan.arms],
        "forward": {**plan.forward.to_dict(), "words": plan.forward.describe()},
        "device": plan.device,
        "devices": list(devices),
        "other_host_s": plan.other_host,
        "caches": "cold" if plan.swept else "warm",
        "swept_bytes": plan.swept,
        "provider": plan.provider,
        "cells_missing": len(plan.scenarios) - len(cells),
        "cells": [_cell(plan, cell) for cell in cells],
        "exposures": list(map(_exposure, exposures(plan, cells))),
        "largest_departure": None if departure is None else departure[0],
        "notes": notes(plan, cells, devices),
        "assumptions": assumptions(plan),
        "metadata": dict(metadata),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _cell(plan: OverlapPlan, cell: CellFigures) -> dict[str, Any]:
    return {
        "cell": cell.scenario.name,
        "scenario": cell.scenario.to_dict(),
        "unrealistic": plan.forward.unrealistic(cell.scenario),
        "share_of_memory": plan.forward.share_of_memory(cell.scenario),
        "bound_by": plan.forward.bound_by(cell.scenario),
        "processes": cell.processes,
        "cpu_share": cell.cpu_share,
        "failure": cell.failure,
        "arms": [
            {
                "arm": arm.arm,
                "spread": arm.spread,
                "without_overlap": _order(arm.without_overlap),
                "with_overlap": _order(arm.with_overlap),
            }
            for arm in cell.arms
        ],
    }


def _order(order: OrderFigures) -> dict[str, Any]:
    times = {
        f"{name}_s": None if estimate is None else _interval(estimate)
        for name, estimate in vars(order).items()
    }
    return {**times, "saved_as_predicted": order.verdict}


def _exposure(found: Exposure) -> dict[str, Any]:
    names = [scenario.name for scenario in found.cells]
    return {**asdict(found), "cells": names}


def _interval(estimate: Estimate) -> dict[str, float | None]:
    is_open = math.isinf(estimate.high)
    low, high = (None, None) if is_open else (estimate.low, estimate.high)
    return {"value": estimate.value, "low": low, "high": high}
