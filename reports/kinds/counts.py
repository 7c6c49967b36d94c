"""Counted work as tables, as text, Markdown and JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

from harness.count.budget import PYTHON, Excess, Finding
from harness.count.bytecodes import METHOD
from harness.count.exactness import notes, unsteady_figures
from harness.count.file import WORK
from harness.count.growth import Growth, growth
from harness.count.work import FIGURES, Work
from harness.system.documents import FORMAT
from reports.render.cells import cell_columns
from reports.render.formats import write_parts
from reports.render.table import Table, Value, figures, names
from reports.render.words import code, counted, sentences

_HEADINGS = {
    "native_calls": "Native calls",
    "arguments": "Arguments",
    "tokens": "Tokens",
    "page_indices": "Page indices",
    "hashes": "Hashes",
    "priorities": "Priorities",
    "objects": "Objects",
    "bytecodes": "Bytecodes",
    "engine_bytecodes": "Engine bytecodes",
    "retained_bytes": "Retained bytes",
    "pickled_bytes": "Pickled bytes",
}

LEGEND = (
    "Native calls are calls and reads of native attributes, arguments the numbers handed to them; "
    "tokens, page indices, hashes and priorities are those handed to Python. Objects are the "
    "containers and numbers handed to Python and what the output has beyond them. Bytecodes are "
    f"the instructions that the arm and what it has others do executed (Python {PYTHON}, by "
    f"{METHOD}); engine bytecodes those of the engine's own Python around native calls. Retained "
    "bytes are what the arm keeps between reports (tracemalloc), pickled bytes the size of the "
    "output (protocol 5)."
)


def write_work(
    works: Sequence[Work],
    style: str,
    file: TextIO,
    *,
    per_request: bool,
    calls: bool,
    command: str,
    origins: Mapping[str, str] = MappingProxyType({}),
    metadata: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Write counted work to ``file``.

    Args:
        works: the work, the arms of a cell one after the other.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
        per_request: print figures per request instead of per iteration; JSON has both.
        calls: print the native calls by name as well; JSON always has them.
        command: the command line that repeats it.
        origins: where arms are from, by name, of those that are named by where their source is.
        metadata: what names the machine, the code and the command; for JSON.
    """
    if style == "json":
        file.write(_json(works, origins, metadata))
        return
    parts: list[Table | str] = [_introduction(works, per_request=per_request)]
    parts.append(work_table(works, per_request=per_request))
    if calls:
        parts += ["Native calls and reads of native attributes, by name:"]
        parts.append(_calls_table(works, per_request=per_request))
    parts += note_parts(works)
    parts += growth_parts(works)
    parts.append(" ".join([LEGEND, *sentences(origins), f"Repeat with {code(command)}."]))
    write_parts(parts, style, file)


def note_parts(works: Sequence[Work]) -> list[Table | str]:
    """Return a line for each arm and cell whose figures are not the same each time, or not all."""
    return [f"{line[0].upper()}{line[1:]}." for line in notes(works)]


def growth_parts(works: Sequence[Work]) -> list[Table | str]:
    """Return how the figures grow, with a sentence on what that is; nothing for a single cell."""
    grown = [row for row in growth(works) if row.requests is not None or row.tokens is not None]
    if not grown:
        return []
    words = (
        "Growth: the log-log slope of each figure per iteration against tokens per request, among "
        "cells of as many requests / against requests, among cells of as many tokens (1 is linear, "
        "0 does not grow)."
    )
    return [words, _growth_table(grown)]


def render_finding(finding: Finding, file: str, told: Sequence[str] = ()) -> str:
    """Return in words what a check against a budget file found, and what else there is to tell."""
    lines = [f"Over budget: {_excess(excess)}." for excess in finding.excesses]
    lines += [f"Nothing to compare with: {line}." for line in finding.missing]
    if not lines:
        lines.append(
            f"Within budget: {counted(finding.checked, 'figure')} of {file} on Python {PYTHON}."
        )
    if finding.below:
        lines.append(
            f"{counted(finding.below, 'figure')} below the budget: --update would lower it."
        )
    lines += [f"{line[0].upper()}{line[1:]}." for line in told]
    return "\n".join(lines) + "\n"


def render_finding_json(finding: Finding, told: Sequence[str] = ()) -> str:
    """Return one JSON document of the same."""
    document = {
        "python": PYTHON,
        "checked": finding.checked,
        "below": finding.below,
        "excesses": [vars(excess) for excess in finding.excesses],
        "missing": finding.missing,
        "unsteady": finding.unsteady,
        "notes": list(told),
    }
    return json.dumps(document, indent=2) + "\n"


def _excess(excess: Excess) -> str:
    over = f" ({excess.actual / excess.budget - 1:+.1%})" if excess.budget else ""
    return (
        f"{excess.cell}, {excess.arm}: {excess.figure} {_number(excess.actual)} per iteration, "
        f"budget {_number(excess.budget)}{over}"
    )


def _introduction(works: Sequence[Work], *, per_request: bool) -> str:
    what = "per request and iteration" if per_request else "per iteration"
    counts = sorted({work.iterations for work in works})
    numbers = " or ".join(map(str, counts[:-1])) + " or " if counts[1:] else ""
    exact = "exact but for what is named below" if unsteady_figures(works) else "exact"
    return f"Work {what}, mean over {numbers}{counted(counts[-1], 'iteration')}, {exact}:"


def work_table(works: Sequence[Work], *, per_request: bool = False) -> Table:
    """Return the figures that are not 0 for all, a row for each cell and arm."""
    cells = list({work.scenario: work for work in works}.values())
    head, texts = cell_columns(
        [
            (work.scenario, work.requests / work.iterations, work.sequence_tokens / work.requests)
            for work in cells
        ]
    )
    shown = [name for name in FIGURES if any(work.totals[name] for work in works)]
    rows: list[tuple[Value | str, ...]] = []
    for cell, words in zip(cells, texts, strict=True):
        own = [work for work in works if work.scenario == cell.scenario]
        for work in own:
            found = [
                work.per_request(name) if per_request else work.per_iteration(name)
                for name in shown
            ]
            rows.append(
                (
                    *(words if work is own[0] else [""] * len(words)),
                    work.arm,
                    *map(_value, found),
                )
            )
    columns = (*head, *names("Arm"), *figures(*map(_HEADINGS.__getitem__, shown)))
    return Table.of(columns, rows, rows_per_cell=len(works) // len(cells))


def _calls_table(works: Sequence[Work], *, per_request: bool) -> Table:
    arms = list(dict.fromkeys(work.arm for work in works))
    cells = list(dict.fromkeys(work.scenario for work in works))
    rows: list[tuple[Value | str, ...]] = []
    for cell in cells:
        own = {work.arm: work for work in works if work.scenario == cell}
        called = sorted({name for work in own.values() for name in work.calls})
        for name in called:
            first = cell.name if name == called[0] else ""
            found = []
            for arm in arms:
                work = own[arm]
                found.append(work.calls[name] / (work.requests if per_request else work.iterations))
            rows.append((first, name, *map(_value, found)))
    return Table.of((*names("Cells", "Call"), *figures(*arms)), rows)


def _growth_table(rows: Sequence[Growth]) -> Table:
    shown = [name for name in FIGURES if any(row.figure == name for row in rows)]
    groups: dict[tuple[str, str], dict[str, Growth]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.arm), {})[row.figure] = row
    texts: list[tuple[Value | str, ...]] = []
    for (kind, arm), own in groups.items():
        slopes = [_slopes(own[name]) if name in own else Value("-") for name in shown]
        texts.append((kind, arm, *slopes))
    columns = (*names("Cells", "Arm"), *figures(*map(_HEADINGS.__getitem__, shown)))
    return Table.of(columns, texts)


def _json(works: Sequence[Work], origins: Mapping[str, str], metadata: Mapping[str, object]) -> str:
    document = {
        WORK: FORMAT,
        "python": PYTHON,
        "bytecodes_by": METHOD,
        "origins": dict(origins),
        "metadata": dict(metadata),
        "notes": notes(works),
        "work": [_record(work) for work in works],
        "growth": [_growth(row) for row in growth(works)],
    }
    return json.dumps(document, indent=2) + "\n"


def _record(work: Work) -> dict[str, Any]:
    return {
        "cell": work.scenario.name,
        "scenario": work.scenario.to_dict(),
        "arm": work.arm,
        "iterations": work.iterations,
        "requests_mean": work.requests / work.iterations,
        "tokens_mean": work.sequence_tokens / work.requests,
        "per_iteration": {name: work.per_iteration(name) for name in FIGURES},
        "per_request": {name: work.per_request(name) for name in FIGURES},
        "calls_per_iteration": {
            name: count / work.iterations for name, count in sorted(work.calls.items())
        },
        "variations": [vars(one) for one in work.variations],
        "delegated": vars(work.delegated),
    }


def _growth(row: Growth) -> dict[str, Any]:
    slopes = {name: getattr(row, name) for name in ("requests", "tokens")}
    # JSON has no word for it.
    return vars(row) | {
        name: "infinite" if slope == math.inf else slope for name, slope in slopes.items()
    }


def _slopes(row: Growth) -> Value:
    return Value(f"{_slope(row.tokens)} / {_slope(row.requests)}", row.tokens)


def _slope(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}".replace("-0.000", "0.000")


def _value(value: float | None) -> Value:
    return Value(_number(value), value)


def _number(value: float | None) -> str:
    """Return a figure to two decimals, without those that are zero."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
