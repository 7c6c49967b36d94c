"""The formats that a summary can be printed in."""

from collections.abc import Sequence
from typing import Literal, TextIO

from . import markdown, records, terminal
from .parts import Part
from .summary import Summary

Format = Literal["terminal", "markdown", "csv", "json"]


def write(summaries: Sequence[Summary], style: Format, file: TextIO) -> None:
    """Write ``summaries`` to ``file`` in the format ``style``."""
    if style == "terminal":
        terminal.print_summaries(summaries, file)
        return
    render = {
        "markdown": markdown.render,
        "csv": records.render_csv,
        "json": records.render_json,
    }[style]
    file.write(render(summaries))


def write_parts(parts: Sequence[Part], style: str, file: TextIO) -> None:
    """Write parts of a report to ``file``, for a terminal or as Markdown."""
    if style == "terminal":
        terminal.print_parts(parts, file)
        return
    file.write("\n\n".join(map(markdown.render_part, parts)) + "\n")
