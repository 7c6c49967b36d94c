"""A comment for a pull request: Markdown that GitHub draws, short enough for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from reports.evidence import Evidence
from reports.render.markdown import fenced, render_table
from reports.render.parts import Part, Section, Verbatim
from reports.render.table import State
from reports.render.words import plain
from reports.speedup.summary import Cell, proper_arms
from scenarios.scenario import SteadyDecode

from .sections import missing_note, sections, warning

# By which a workflow finds the comment that it wrote before.
MARKER = "<!-- stepbench -->"
# What GitHub takes, 65,536 characters, less what a workflow may add.
LONGEST = 65_000

_SYMBOLS = {State.NEUTRAL: "📋", State.GOOD: "✅", State.OPEN: "❔", State.BAD: "❌"}
# Cells of a chart beyond which nobody could read its axis.
_MOST_BARS = 12
# Rows that are left of each table where the whole comment would be too long.
_FEW_ROWS = 20
# Characters of what is shown as it is, likewise.
_FEW_CHARACTERS = 500


def render(evidence: Evidence, longest: int = LONGEST) -> str:
    """Return the comment: a hidden marker, the verdict, then what it rests on, details folded.

    Where it would be longer than GitHub takes, tables are cut, then details left out, and it says
    so.

    Args:
        evidence: what the files hold.
        longest: how many characters it may have.
    """
    found = sections(evidence)
    for cut, with_details in ((False, True), (True, True), (True, False)):
        text = _render(evidence, found, cut=cut, with_details=with_details)
        if _length(text) <= longest:
            return text
    return _last_resort(found, longest)


def _render(evidence: Evidence, found: Sequence[Section], *, cut: bool, with_details: bool) -> str:
    note = warning(evidence)
    blocks = [f"{MARKER}\n{_verdicts(found)}"]
    blocks += [f"**{plain(note)}**"] if note else []
    chart = _chart(evidence)
    blocks += [chart] if chart else []
    for section in found:
        blocks.append(f"### {plain(section.title)}")
        blocks += [_part(part, cut=cut) for part in section.parts]
        details = [*section.details, *filter(None, [section.provenance])]
        if details and with_details:
            blocks.append(_folded("Details", [_part(part, cut=cut) for part in details]))
    if cut or not with_details:
        blocks.append("Shortened, since GitHub takes no longer comment: the files have the rest.")
    rest = missing_note(evidence)
    blocks += [plain(rest)] if rest else []
    return "\n\n".join(blocks) + "\n"


def _length(text: str) -> int:
    """Return the length as GitHub counts it: a sign beyond the first 65,536 counts twice."""
    return len(text.encode("utf-16-le")) // 2


def _verdicts(found: Sequence[Section], longest: int | None = None) -> str:
    """Return the worst verdict in the first line, and the others as a list.

    Args:
        found: the sections.
        longest: characters of a verdict; None for all. It is cut before anything is escaped.
    """
    if not found:
        return "**Nothing to report.**"
    ordered = sorted(found, key=lambda section: -section.state)  # Equal ones stay in their order.
    lines = [f"{_SYMBOLS[section.state]} {plain(section.verdict[:longest])}" for section in ordered]
    rest = "\n".join(f"- {line}" for line in lines[1:])
    return f"**{lines[0]}**" + (f"\n\n{rest}" if rest else "")


def _part(part: Part, *, cut: bool) -> str:
    if isinstance(part, str):
        return plain(
            f"{part[:_FEW_CHARACTERS]} ..." if cut and len(part) > _FEW_CHARACTERS else part
        )
    if isinstance(part, Verbatim):
        return fenced(part.text[:_FEW_CHARACTERS] if cut else part.text)
    if not cut or len(part.rows) <= _FEW_ROWS:
        return render_table(part)
    shown = replace(part, rows=part.rows[:_FEW_ROWS])
    return f"{render_table(shown)}\n\n{len(part.rows) - _FEW_ROWS:,} more rows."


def _folded(summary: str, parts: Sequence[str]) -> str:
    inside = "\n\n".join(parts)
    return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _chart(evidence: Evidence) -> str:
    """Return bars of the speedups of the first file that has some, as Mermaid; else nothing.

    Of the arm that was named second; the table has the others, and the intervals.
    """
    for summary in evidence.summaries:
        arms = proper_arms(summary.arms)
        cells = [cell for cell in summary.cells if arms[1:] and arms[1] in cell.speedups]
        if cells:
            shown = cells[:_MOST_BARS]
            ratios = [cell.speedups[arms[1]].value for cell in shown]
            names = ", ".join(f'"{_in_chart(_label(cell))}"' for cell in shown)
            title = _in_chart(f"{arms[1]}: times as fast as {arms[0]}")
            if len(shown) < len(cells):
                title += f", {len(shown)} of {len(cells)} cells"
            return (
                "```mermaid\nxychart-beta\n"
                f'    title "{title}"\n'
                f"    x-axis [{names}]\n"
                f'    y-axis "times as fast" 0 --> {max(1.0, *ratios) * 1.1:.4g}\n'
                f"    bar [{', '.join(f'{ratio:.4g}' for ratio in ratios)}]\n"
                "```"
            )
    return ""


def _label(cell: Cell) -> str:
    scenario = cell.scenario
    if not isinstance(scenario, SteadyDecode):
        return scenario.name
    tokens = f"{scenario.tokens // 1024}k" if scenario.tokens % 1024 == 0 else f"{scenario.tokens}"
    return f"{scenario.requests}x{tokens}" + (" V1" if scenario.manager == "v1" else "")


def _in_chart(text: str) -> str:
    """Return ``text`` without what would end a text of Mermaid's, or begin a directive of it."""
    return re.sub(r"[^\w .,:/@+()-]", "?", text)


def _last_resort(found: Sequence[Section], longest: int) -> str:
    words = "All else is left out, since GitHub takes no longer comment: the files have it."
    first = sorted(found, key=lambda section: -section.state)[:1]
    for length in (None, _FEW_CHARACTERS, longest // 8):
        text = f"{MARKER}\n{_verdicts(first, length)}\n\n{words}\n"
        if _length(text) <= longest:
            break
    return text
