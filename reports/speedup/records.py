"""The summary as plain records: CSV and JSON, unrounded."""

import json
import math
from collections.abc import Sequence
from typing import Any

from harness.speedup.file import MACHINE_FIELDS
from harness.stats.estimates import Estimate
from harness.stats.means import TAIL

from .summary import Cell, Summary, machines_note


def render_json(summaries: Sequence[Summary]) -> str:
    """Return one JSON document: per file its machine, cells, notes and provenance.

    Times are in seconds. Per cell, ``speedup`` says by arm how many times as fast as the base it
    is, the first arm that is not the floor; ``times_floor`` how many times the floor's time it
    takes, and nothing where the floor was not measured. An interval that one process cannot give
    is null. ``precision`` is how far an interval was to reach from its ratio at most, as a
    fraction, and ``is_precise`` whether all of the cell do.
    """
    document = {
        "warning": machines_note(summaries),
        "results": [
            {
                "file": summary.file,
                "machine": dict(zip(MACHINE_FIELDS, summary.machine, strict=True)),
                "provider": summary.provider,
                "arms": summary.arms,
                "cells": [_cell(cell) for cell in summary.cells],
                "notes": summary.notes,
                "provenance": summary.provenance,
            }
            for summary in summaries
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def render_csv(summaries: Sequence[Summary]) -> str:
    """Return one row per file, cell and arm.

    Columns: ``seconds`` is the time, ``speedup`` how many times as fast as the first arm that is
    not the floor, ``times_floor`` how many times the floor's time; with ``_low`` and ``_high``
    for the interval. Then mean and 99th percentile of all steps, and the CPU seconds a step that
    calls leave to others. What there is not, such as a speedup of the floor, is blank.
    """
    rows = [
        {
            "file": summary.file,
            "hostname": summary.machine[0],
            "cpu": summary.machine[1],
            "cell": cell.scenario.name,
            "manager": cell.scenario.manager,
            "requests": cell.requests,
            "tokens": cell.tokens,
            "arm": arm,
            "processes": cell.processes[arm],
            **_columns("seconds", cell.seconds.get(arm)),
            **_columns("speedup", cell.speedups.get(arm)),
            **_columns("times_floor", cell.times_floor.get(arm)),
            **_steps(cell, arm),
        }
        for summary in summaries
        for cell in summary.cells
        for arm in summary.arms
    ]
    # A quarter of a second, for this format alone.
    import pandas as pd

    return pd.DataFrame(rows).to_csv(index=False)


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.scenario.name,
        "scenario": cell.scenario.to_dict(),
        "requests": cell.requests,
        "tokens_mean": cell.tokens,
        "processes": cell.processes,
        "seconds": {arm: _interval(value) for arm, value in cell.seconds.items()},
        "speedup": {arm: _interval(value) for arm, value in cell.speedups.items()},
        "speedup_of_means": {arm: _interval(value) for arm, value in cell.mean_speedups.items()},
        "steps": {arm: _steps(cell, arm) for arm in cell.steps},
        "dear_now_and_then": cell.dear,
        "times_floor": {arm: _interval(value) for arm, value in cell.times_floor.items()},
        "precision": cell.precision,
        "is_precise": not any(
            map(cell.missed_precision, (*cell.speedups.values(), *cell.times_floor.values()))
        ),
    }


def _steps(cell: Cell, arm: str) -> dict[str, float | None]:
    """Return what all steps of an arm cost together, in seconds."""
    own = cell.steps.get(arm)
    return {
        "mean_seconds": None if own is None else own.typical_mean,
        f"p{TAIL}_seconds": None if own is None else own.tail,
        "background_cpu_seconds": None if own is None else own.background,
    }


def _interval(estimate: Estimate) -> dict[str, float | None]:
    low, high = (estimate.low, estimate.high) if math.isfinite(estimate.high) else (None, None)
    return {"value": estimate.value, "low": low, "high": high}


def _columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    values = _interval(estimate) if estimate else dict.fromkeys(("value", "low", "high"))
    return {name: values["value"], f"{name}_low": values["low"], f"{name}_high": values["high"]}
