"""The summary as GitHub-flavoured Markdown: what a pull request carries."""

from collections.abc import Sequence

from harness.arms import is_foreign

from .summary import Summary, machines_note
from .table import Table, is_words, speedup_table
from .words import code


def render(summaries: Sequence[Summary]) -> str:
    """Return the tables with their notes and provenance, one after the other."""
    note = machines_note(summaries)
    parts = [f"**{note}**"] if note else []
    for summary in summaries:
        if len(summaries) > 1:
            parts.append(f"### {_escape(summary.file)}")
        parts.append(render_table(speedup_table(summary)))
        parts += summary.notes
        parts.append(summary.provenance)
    return "\n\n".join(parts) + "\n"


def render_table(table: Table) -> str:
    """Return a table without a line break at its end."""
    rule = [":---" if is_words(column) else "---:" for column in table.columns]
    return "\n".join(map(_row, [table.columns, rule, *table.rows]))


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, texts)) + " |"


def _cell(text: str) -> str:
    """Return ``text`` so that a cell of a table shows it as it is."""
    # Of TensorRT-LLM@v1.2.0, GitHub would make an address to write to. In code a backslash before
    # a bar cannot be written.
    is_code = is_foreign(text) and "\\" not in text
    return code(text).replace("|", "\\|") if is_code else _escape(text)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
