"""Counted work of a user's own function as tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TextIO

from harness.count.bytecodes import METHOD
from harness.count.worlds import FIGURES, WorldWork, growths
from reports.render.cells import own_columns
from reports.render.formats import write_parts
from reports.render.parts import Part
from reports.render.table import Table, Value, figures, names
from reports.render.words import code

_HEADINGS = {
    "bytecodes": "Bytecodes",
    "native_calls": "Native calls",
    "allocated_bytes": "Allocated bytes",
    "retained_bytes": "Retained bytes",
}
LEGEND = (
    f"Per step, after a short warm-up. Bytecodes are the instructions executed ({METHOD}); native "
    "calls those of functions that are not in Python; allocated bytes what a step holds at most "
    "beyond what was there before, retained bytes what it leaves behind (tracemalloc)."
)


def write_works(
    works: Sequence[WorldWork],
    style: str,
    file: TextIO,
    *,
    calls: bool,
    metadata: Mapping[str, object],
) -> None:
    """Write counted work to ``file``.

    Args:
        works: the work, the arms of a cell one after the other.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
        calls: print the native calls by name as well; JSON always has them.
        metadata: what names the machine, the code and the command.
    """
    if style == "json":
        file.write(_json(works, metadata))
        return
    parts: list[Part] = [_table(works)]
    if calls:
        parts.append(_calls(works))
    parts += _notes(works)
    grown = growths(works)
    if grown:
        parts += ["Growth with each size, on log-log axes: 1 is linear, 0 does not grow."]
        parts.append(_growth(works))
    command = code(str(metadata["command"]))
    parts.append(f"{LEGEND} {metadata['where']} Repeat with {command}.")
    write_parts(parts, style, file)


def _table(works: Sequence[WorldWork]) -> Table:
    """Return the figures of each cell and arm, with what they come to of the first arm's."""
    columns, cells = own_columns([work.cell for work in works])
    arms = list(dict.fromkeys(work.arm for work in works))
    first = {work.cell.name: work for work in works if work.arm == arms[0]}
    rows: list[list[Value | str]] = []
    for work, cell in zip(works, cells, strict=True):
        row: list[Value | str] = [*cell, work.arm]
        for name in FIGURES:
            value, base = work.figures[name], first[work.cell.name].figures[name]
            change = f" ({value / base - 1:+.1%})" if base and value != base else ""
            row.append(Value(f"{value:,.0f}{change}", value))
        rows.append(row)
    headings = [_HEADINGS[name] for name in FIGURES]
    return Table.of([*columns, *names("Arm"), *figures(*headings)], rows, len(arms))


def _calls(works: Sequence[WorldWork]) -> Table:
    """Return the native calls of a step by name, the most frequent first."""
    columns, cells = own_columns([work.cell for work in works])
    rows: list[list[Value | str]] = [
        [*cell, work.arm, name, Value(f"{count / work.steps:,.2f}", count / work.steps)]
        for work, cell in zip(works, cells, strict=True)
        for name, count in sorted(work.calls.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return Table.of([*columns, *names("Arm", "Function"), *figures("Calls")], rows)


def _growth(works: Sequence[WorldWork]) -> Table:
    grown = growths(works)
    keys = list(dict.fromkeys((each.arm, each.size) for each in grown))
    slopes = {(each.arm, each.size, each.figure): each.slope for each in grown}
    rows: list[list[Value | str]] = [
        [arm, size, *(_slope(slopes.get((arm, size, name))) for name in FIGURES)]
        for arm, size in keys
    ]
    headings = [_HEADINGS[name] for name in FIGURES]
    return Table.of([*names("Arm", "Size"), *figures(*headings)], rows)


def _slope(value: float | None) -> Value:
    if value is None:
        return Value("-")
    return Value(f"{value:.2f}".replace("-0.00", "0.00"), value)


def _notes(works: Sequence[WorldWork]) -> list[Part]:
    """Return a line on each arm and cell whose work is not the same each time."""
    lines: list[Part] = []
    for work in works:
        where = f"Cell {work.cell.name}, arm {code(work.arm)}:"
        if work.unsteady:
            names_of = ", ".join(_HEADINGS[name].lower() for name in work.unsteady)
            lines.append(f"{where} {names_of} differ between two runs under one hash seed.")
        if work.hashed:
            names_of = ", ".join(_HEADINGS[name].lower() for name in work.hashed)
            lines.append(f"{where} {names_of} depend on the hash seed.")
    return lines


def _json(works: Sequence[WorldWork], metadata: Mapping[str, object]) -> str:
    document = {
        "metadata": dict(metadata),
        "works": [{**vars(work), "cell": work.cell.to_dict()} for work in works],
        "growth": [vars(each) for each in growths(works)],
    }
    return json.dumps(document, indent=2) + "\n"
