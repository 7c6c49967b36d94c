"""A page: one file that works from disk, with the plots, every figure and its samples in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from harness.arms.registry import is_foreign
from harness.speedup.file import Results
from harness.stats.estimates import Estimate
from reports.evidence import Evidence
from reports.plots.draw import plots
from reports.plots.style import DARK, LIGHT, Plot, Theme, render
from reports.render.numbers import format_ratio, format_time, is_open
from reports.render.parts import Part, Section, Verbatim
from reports.render.table import State, Table, Value
from reports.render.words import spans
from reports.speedup.summary import Summary

from .sections import missing_note, sections, warning

_STATES = {
    State.NEUTRAL: "for information",
    State.GOOD: "good",
    State.OPEN: "open",
    State.BAD: "bad",
}


@dataclass(frozen=True)
class Figure:
    """One figure of the page, and where its samples are.

    Attributes:
        cell, arm: what was measured.
        time, time_interval: the time in words.
        speedup: the ratio to the base with its interval, in words; empty for the base.
        seconds: the time, to sort by.
        ratio: the ratio, to sort by; not a number where there is none.
        samples: seconds in each process, as whole nanoseconds: ``[process][iteration]``.
    """

    cell: str
    arm: str
    time: str
    time_interval: str
    speedup: str
    seconds: float
    ratio: float
    samples: list[list[int]]


def render_page(evidence: Evidence, progress: Callable[[str], None] = lambda _what: None) -> str:
    """Return the page.

    Args:
        evidence: what the files hold.
        progress: called with what is being made.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    environment.filters["cell"] = _cell
    found = sections(evidence)
    drawn = []
    for plot in plots(evidence):
        progress(f"drawing {plot.name}")
        drawn.append(_drawn(plot))
    figures = [
        (summary.file, _figures(results, summary))
        for results, summary in zip(evidence.results, evidence.summaries, strict=True)
    ]
    return environment.get_template("page.html.j2").render(
        sections=[(section, _STATES[section.state], _blocks(section)) for section in found],
        verdicts=sorted(found, key=lambda section: -section.state),
        states=_STATES,
        warning=warning(evidence),
        missing=missing_note(evidence),
        plots=drawn,
        figures=figures,
        samples=[[figure.samples for figure in own] for _, own in figures],
    )


def prose(text: str) -> Markup:
    """Return a text as HTML in which what stands between backticks is code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(piece.strip()) if fence else escape(piece)
        for fence, piece in spans(text)
    )


def sort_key(value: Value) -> str:
    """Return what a column is sorted by: the number of a value, else its text."""
    return value.text if value.number is None else f"{value.number:.9g}"


def _blocks(section: Section) -> list[tuple[str, Any]]:
    return [_block(part) for part in (*section.parts, *section.details)]


def _block(part: Part) -> tuple[str, Any]:
    """Return the kind of a part, and what the template shows of it."""
    if isinstance(part, Table):
        columns = [(column.title, column.is_words) for column in part.columns]
        rows = [[(value.text, sort_key(value)) for value in row] for row in _filled(part).rows]
        return "table", (columns, rows)
    if isinstance(part, Verbatim):
        return "verbatim", part.text
    return "prose", part


def _filled(table: Table) -> Table:
    """Return the table with what tells a cell in each of its rows, so that rows can be sorted."""
    head = table.titles.index("Arm") if "Arm" in table.titles else 0
    rows: list[tuple[Value, ...]] = []
    for row in table.rows:
        is_blank = rows and head and not any(value.text for value in row[:head])
        rows.append((*rows[-1][:head], *row[head:]) if is_blank else row)
    return replace(table, rows=tuple(rows))


def _cell(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text) if is_foreign(text) else prose(text)


def _drawn(plot: Plot) -> dict[str, str]:
    return {
        "title": plot.title,
        "description": plot.description,
        "light": _data_uri(plot, LIGHT),
        "dark": _data_uri(plot, DARK),
    }


def _data_uri(plot: Plot, theme: Theme) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(render(plot, theme, 'svg')).decode()}"


def _figures(results: Results, summary: Summary) -> list[Figure]:
    samples: dict[tuple[str, str], list[list[int]]] = {}
    for job, run in results.runs():
        values = [round(1e9 * value) for value in run.values]
        samples.setdefault((job.scenario.name, job.arm), []).append(values)
    return [
        Figure(
            cell.scenario.name,
            arm,
            format_time(seconds.value),
            _interval(seconds),
            format_ratio(cell.speedups[arm]) if arm in cell.speedups else "",
            seconds.value,
            cell.speedups[arm].value if arm in cell.speedups else math.nan,
            samples[cell.scenario.name, arm],
        )
        for cell in summary.cells
        for arm, seconds in cell.seconds.items()
    ]


def _interval(seconds: Estimate) -> str:
    if is_open(seconds):
        return "one process: no interval"
    return f"{format_time(seconds.low)} to {format_time(seconds.high)}"
