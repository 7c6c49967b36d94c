"""The formats that parts of a report can be printed in."""

from collections.abc import Sequence
from typing import Literal, TextIO

from . import markdown, terminal
from .parts import Part

Format = Literal["terminal", "markdown", "csv", "json"]


def write_parts(parts: Sequence[Part], style: str, file: TextIO) -> None:
    """Write parts of a report to ``file``, for a terminal or as Markdown."""
    if style == "terminal":
        terminal.print_parts(parts, file)
        return
    file.write("\n\n".join(map(markdown.render_part, parts)) + "\n")
