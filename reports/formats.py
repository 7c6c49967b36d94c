"""The formats that a summary can be printed in."""

from collections.abc import Sequence
from typing import Literal, TextIO

from . import markdown, records, terminal
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
