"""Trends as tables of text, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.history.change_points import LEAST_RUNS, LEVEL, PERMUTATIONS
from harness.stats.estimates import Estimate
from reports.render.formats import write_parts
from reports.render.numbers import is_open, time_value
from reports.render.table import Table, Value, figure, figures, names, words
from reports.render.words import code, counted

from .trends import ChangePoint, Line, Trend, differing

# Headings of what tells lines from each other besides the cell and the arm.
_HEADINGS = {
    "machine": "Machine",
    "python": "Python",
    "provider": "Provider",
    "tool": "Tool",
    "gc": "Collector",
}

_LEGEND = (
    "A time is the median of the round medians of a run. A change point is the first of at least "
    f"{LEAST_RUNS} runs that take longer, or less long, than those before. Ratio is how many times "
    "the time before they take: of geometric means of the runs up to the next change point on "
    "either side, with Welch's interval at 95 %. p is the share, among "
    f"{PERMUTATIONS + 1:,} orders of those runs, the real one and random ones, in which some of "
    f"them in succession stand apart as clearly; with more than {LEVEL:g} it is no change point. "
    "That a time changed does not say why: the machine may have changed as well as the code. "
    "`stepbench compare` can tell."
)


def write_trends(
    trends: Sequence[Trend],
    notes: Sequence[str],
    address: str,
    style: str,
    file: TextIO,
) -> None:
    """Write trends with their change points.

    Args:
        trends: the trends.
        notes: sentences that a reader must not miss; CSV has no place for them.
        address: where the history is.
        style: ``terminal``, ``markdown``, ``csv`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(trends, notes, address))
        return
    if style == "csv":
        file.write(_csv(trends))
        return
    names = differing(trends)
    parts: list[Table | str] = [_introduction(trends, address, names), _lines(trends, names)]
    if any(trend.changes for trend in trends):
        parts += ["Change points:", _changes(trends, names)]
    else:
        parts.append("No change point.")
    write_parts([*parts, *notes, _LEGEND], style, file)


def line_words(line: Line, names: Sequence[str]) -> list[str]:
    """Return the words that tell a line from the others: its cell, its arm and these fields."""
    return [line.cell, line.arm, *_fields(line, names)]


def change_words(change: ChangePoint) -> str:
    """Return the size of a change in per cent."""
    return f"{100 * (change.ratio.value - 1):+.1f} %"


def _introduction(trends: Sequence[Trend], address: str, names: Sequence[str]) -> str:
    runs = {point.file for trend in trends for point in trend.points}
    common = [name for name in _HEADINGS if name not in names]
    words = zip(common, _fields(trends[0].line, common), strict=True)
    shared = ", ".join(f"{_HEADINGS[name].lower()} {value}" for name, value in words)
    shared = shared.replace("python", "Python", 1)
    return f"{counted(len(runs), 'run')} in {code(address)}; {shared}:"


def _fields(line: Line, names: Sequence[str]) -> list[str]:
    values = asdict(line)
    return [("on" if values[name] else "off") if name == "gc" else values[name] for name in names]


def _lines(trends: Sequence[Trend], fields: Sequence[str]) -> Table:
    columns = [*names("Cell", "Arm"), *words(*(_HEADINGS[name] for name in fields))]
    rows: list[tuple[Value | str, ...]] = [
        (
            *line_words(trend.line, fields),
            figure(f"{len(trend.points):,}", len(trend.points)),
            f"{trend.points[0].date:%Y-%m-%d}",
            f"{trend.points[-1].date:%Y-%m-%d}",
            time_value(trend.points[0].seconds.value),
            time_value(trend.points[-1].seconds.value),
            figure(str(len(trend.changes)), len(trend.changes)),
        )
        for trend in trends
    ]
    columns = [
        *columns,
        *figures("Runs"),
        *words("From", "To"),
        *figures("First", "Last", "Changes"),
    ]
    return Table.of(columns, rows)


def _changes(trends: Sequence[Trend], fields: Sequence[str]) -> Table:
    columns = [*names("Cell", "Arm"), *words(*(_HEADINGS[name] for name in fields))]
    rows: list[tuple[Value | str, ...]] = [
        (
            *line_words(trend.line, fields),
            f"{trend.points[change.run].date:%Y-%m-%d}",
            trend.points[change.run].revision,
            trend.points[change.run - 1].revision,
            time_value(change.before),
            time_value(change.after),
            figure(_ratio(change.ratio), change.ratio.value),
            figure(f"{change.p:.4f}", change.p),
        )
        for trend in trends
        for change in trend.changes
    ]
    columns = [*columns, *words("Date", "Revision", "Revision before", "Before", "After")]
    return Table.of([*columns, *figures("Ratio (95 % interval)", "p")], rows)


def _ratio(ratio: Estimate) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _json(trends: Sequence[Trend], notes: Sequence[str], address: str) -> str:
    """Return one JSON document; times in seconds, null for an interval that there is not."""
    document = {
        "history": address,
        "trends": [
            {
                **asdict(trend.line),
                "runs": [
                    {
                        "file": point.file,
                        "date": point.date.isoformat(),
                        "revision": point.revision,
                        "seconds": _interval(point.seconds),
                    }
                    for point in trend.points
                ],
                "changes": [
                    {
                        "run": change.run,
                        **_place(trend, change),
                        "before_seconds": change.before,
                        "after_seconds": change.after,
                        "ratio": _interval(change.ratio),
                        "p": change.p,
                    }
                    for change in trend.changes
                ],
            }
            for trend in trends
        ],
        "notes": list(notes),
        "legend": _LEGEND,
    }
    return json.dumps(document, indent=2) + "\n"


def _place(trend: Trend, change: ChangePoint) -> dict[str, str]:
    first, last = trend.points[change.run], trend.points[change.run - 1]
    return {
        "file": first.file,
        "date": first.date.isoformat(),
        "revision": first.revision,
        "revision_before": last.revision,
    }


def _csv(trends: Sequence[Trend]) -> str:
    """Return one row for each change point, and one for a line that has none."""
    rows: list[dict[str, Any]] = []
    for trend in trends:
        row = {
            **asdict(trend.line),
            "runs": len(trend.points),
            "first_date": trend.points[0].date.isoformat(),
            "last_date": trend.points[-1].date.isoformat(),
            "first_seconds": trend.points[0].seconds.value,
            "last_seconds": trend.points[-1].seconds.value,
        }
        changes = [
            {
                **_place(trend, change),
                "before_seconds": change.before,
                "after_seconds": change.after,
                "ratio": change.ratio.value,
                "ratio_low": change.ratio.low,
                "ratio_high": change.ratio.high,
                "p": change.p,
            }
            for change in trend.changes
        ]
        rows += [row | change for change in changes] or [row]
    file = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _interval(figure: Estimate) -> dict[str, float | None]:
    low, high = (None, None) if is_open(figure) else (figure.low, figure.high)
    return {"value": figure.value, "low": low, "high": high}
