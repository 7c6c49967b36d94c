"""The summary as GitHub-flavoured Markdown: what a pull request carries."""

import re
from collections.abc import Sequence

from harness.arms import is_foreign

from .parts import Part, Verbatim
from .summary import Summary, machines_note
from .table import Table, is_words, speedup_table
from .words import code, plain


def render(summaries: Sequence[Summary]) -> str:
    """Return the tables with their notes and provenance, one after the other."""
    note = machines_note(summaries)
    parts = [f"**{plain(note)}**"] if note else []
    for summary in summaries:
        if len(summaries) > 1:
            parts.append(f"### {plain(summary.file)}")
        parts.append(render_table(speedup_table(summary)))
        parts += map(plain, (*summary.notes, summary.provenance))
    return "\n\n".join(parts) + "\n"


def render_part(part: Part) -> str:
    """Return a part of a report, without a line break at its end."""
    if isinstance(part, Verbatim):
        return fenced(part.text)
    return plain(part) if isinstance(part, str) else render_table(part)


def fenced(text: str) -> str:
    """Return lines that GitHub shows as they are, whatever they hold."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}text\n{text}\n{fence}"


def render_table(table: Table) -> str:
    """Return a table without a line break at its end."""
    rule = [":---" if is_words(column) else "---:" for column in table.columns]
    return "\n".join(map(_row, [table.columns, rule, *table.rows]))


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, texts)) + " |"


def _cell(text: str) -> str:
    """Return ``text`` so that a cell of a table shows it as it is."""
    # In code a backslash before a bar cannot be written.
    is_code = is_foreign(text) and "\\" not in text
    return plain(code(text) if is_code else text, in_table=True)
