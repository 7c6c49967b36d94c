"""How the time of each arm of each cell went over the runs of a history, and where it changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from harness.history.change_points import Change, find_changes
from harness.stats.estimates import Estimate
from reports.speedup.baseline import unpaired_ratio

if TYPE_CHECKING:
    import pyarrow as pa

_OF_LINE = ("cell", "arm", "machine", "python", "provider", "tool", "gc")
# What a trend reads of the history.
COLUMNS = ("file", "date", *_OF_LINE, "host", "revision", "source", "seconds", "low", "high")


@dataclass(frozen=True)
class Line:
    """What may be put into one trend: times that differ in none of these.

    Attributes:
        cell, arm: what was measured.
        machine: the fingerprint of the machine.
        python: implementation and version.
        provider: where the stand-ins' native part came from.
        tool: what measured.
        gc: whether the garbage collector ran.
    """

    cell: str
    arm: str
    machine: str
    python: str
    provider: str
    tool: str
    gc: bool


@dataclass(frozen=True)
class Point:
    """One run of a line.

    Attributes:
        file: the run's file in the history.
        date: when it was measured.
        revision: of stepbench, and of the arm's source where that is from elsewhere.
        seconds: time of an iteration, with its interval over processes.
    """

    file: str
    date: datetime
    revision: str
    seconds: Estimate


@dataclass(frozen=True)
class ChangePoint:
    """Where the time of a line changed.

    Attributes:
        run: index of the first point after the change.
        before, after: geometric means of the points from the last change point to this one, and
            from this one to the next, in seconds.
        ratio: the latter over the former.
        p: see ``harness.history.change_points.find_changes``.
    """

    run: int
    before: float
    after: float
    ratio: Estimate
    p: float


@dataclass(frozen=True)
class Trend:
    """A line.

    Attributes:
        line: what it is of.
        points: its runs, oldest first.
        changes: its change points, in the same order.
    """

    line: Line
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]


# What finds the changes in each of several series of logarithms.
Finder = Callable[[Sequence[tuple[list[float]]]], list[list[Change]]]


def find_here(series: Sequence[tuple[list[float]]]) -> list[list[Change]]:
    """Return the changes in each of several series."""
    return [find_changes(logs) for (logs,) in series]


def find_trends(
    table: pa.Table, cell: str = "*", arm: str = "*", find: Finder = find_here
) -> tuple[list[Trend], list[str]]:
    """Return the trends of a history, and the files of runs that are in none.

    Whether two runs were measured on one machine cannot be known without its fingerprint, so those
    that have none are left out.

    Args:
        table: the ``COLUMNS`` of the history.
        cell: a glob of the names of cells that are wanted.
        arm: the same of arms.
        find: finds the changes.
    """
    rows = [
        row
        for row in sorted(table.to_pylist(), key=itemgetter("date", "file"))
        if fnmatchcase(row["cell"], cell) and fnmatchcase(row["arm"], arm)
    ]
    lines: dict[Line, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["machine"] is not None:
            lines.setdefault(Line(*(row[name] for name in _OF_LINE)), []).append(row)
    found = find([([math.log(row["seconds"]) for row in own],) for own in lines.values()])
    trends = [
        _trend(line, own, changes)
        for (line, own), changes in zip(lines.items(), found, strict=True)
    ]
    return trends, list(dict.fromkeys(row["file"] for row in rows if row["machine"] is None))


def _trend(line: Line, rows: Sequence[Mapping[str, Any]], found: Sequence[Change]) -> Trend:
    points = tuple(Point(row["file"], row["date"], _revision(row), _estimate(row)) for row in rows)
    changes = tuple(
        ChangePoint(
            change.run,
            math.exp(float(change.before.mean())),
            math.exp(float(change.after.mean())),
            unpaired_ratio(change.after.tolist(), change.before.tolist()),
            change.p,
        )
        for change in found
    )
    return Trend(line, points, changes)


def _revision(row: Mapping[str, Any]) -> str:
    source = "" if row["source"] is None else f", source {row['source'][:12]}"
    return f"{row['revision']}{source}"


def _estimate(row: Mapping[str, Any]) -> Estimate:
    if row["low"] is None:
        return Estimate(row["seconds"], 0.0, math.inf)
    return Estimate(row["seconds"], row["low"], row["high"])


def other_hosts(table: pa.Table) -> list[str]:
    """Return a sentence on each machine whose runs name several hosts: other conditions.

    Args:
        table: the ``COLUMNS`` of the history.
    """
    hosts: dict[str, dict[str, None]] = {}
    for row in sorted(table.to_pylist(), key=itemgetter("date", "file")):
        if row["machine"] is not None:
            hosts.setdefault(row["machine"], {})[row["host"]] = None
    return [
        f"Other conditions differ within machine {machine}: host {' -> '.join(own)}."
        for machine, own in hosts.items()
        if len(own) > 1
    ]


def differing(trends: Sequence[Trend]) -> list[str]:
    """Return which fields besides the cell and the arm tell the lines from each other."""
    lines = [asdict(trend.line) for trend in trends]
    return [name for name in _OF_LINE[2:] if len({line[name] for line in lines}) > 1]
