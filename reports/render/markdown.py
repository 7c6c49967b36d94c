"""GitHub-flavoured Markdown: what a pull request carries."""

import re
from collections.abc import Sequence

from harness.arms.registry import is_foreign

from .parts import Part, Verbatim
from .table import Table
from .words import code, plain


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
    rule = [":---" if column.is_words else "---:" for column in table.columns]
    return "\n".join(map(_row, [table.titles, rule, *table.texts]))


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, texts)) + " |"


def _cell(text: str) -> str:
    """Return ``text`` so that a cell of a table shows it as it is."""
    # In code a backslash before a bar cannot be written.
    is_code = is_foreign(text) and "\\" not in text
    return plain(code(text) if is_code else text, in_table=True)
