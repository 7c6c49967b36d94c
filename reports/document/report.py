"""A report of all kinds of evidence together, in any of its formats."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal, TextIO

from reports.evidence import Evidence
from reports.render import terminal
from reports.render.formats import Format
from reports.render.markdown import render_part
from reports.render.parts import Part, Section, Verbatim
from reports.speedup import records
from reports.speedup.formats import write
from stepbench_core.errors import InputError

from . import comment
from .sections import missing_note, sections, warning

# Besides those of a summary.
Style = Format | Literal["comment", "html"]


def write_report(evidence: Evidence, style: Style, file: TextIO) -> None:
    """Write what the files hold to ``file``; speedup tables alone as ``formats.write`` does.

    Raises:
        InputError: the format is CSV, and there is no speedup table.
    """
    if style == "comment":
        file.write(comment.render(evidence))
    elif style == "html":
        # Jinja and matplotlib take half a second to import.
        from .page import render_page

        file.write(render_page(evidence))
    elif style == "json":
        file.write(_json(evidence))
    elif style == "csv" and not evidence.results:
        raise InputError("CSV holds speedup tables alone, and none of the files has one")
    elif style == "csv" or not has_more_than_tables(evidence):
        write(evidence.summaries, style, file)
    elif style == "terminal":
        found = sections(evidence)
        terminal.print_sections(found, warning(evidence), missing_note(evidence), file)
    else:
        first, last = warning(evidence), missing_note(evidence)
        parts = [f"**{render_part(first)}**"] if first else []
        parts += map(_markdown, sections(evidence))
        parts += [render_part(last)] if last else []
        file.write("\n\n".join(parts) + "\n")


def has_more_than_tables(evidence: Evidence) -> bool:
    """Return whether some of the files are no speedup tables, which are all that a CSV holds."""
    return replace(evidence, results=()) != Evidence()


def _markdown(section: Section) -> str:
    parts = [f"## {render_part(section.title)}", f"**{render_part(section.verdict)}**"]
    parts += map(render_part, (*section.parts, *section.details))
    return "\n\n".join([*parts, render_part(section.provenance)])


def _json(evidence: Evidence) -> str:
    """Return the document of the speedup tables, with the other sections beside them."""
    text = records.render_json(evidence.summaries)
    others = sections(replace(evidence, results=()))
    if not others:
        return text
    document: dict[str, Any] = json.loads(text)
    document["sections"] = [
        {
            "title": section.title,
            "state": section.state.name.lower(),
            "verdict": section.verdict,
            "parts": [_part(part) for part in (*section.parts, *section.details)],
            "provenance": section.provenance,
        }
        for section in others
    ]
    return json.dumps(document, indent=2) + "\n"


def _part(part: Part) -> Any:  # noqa: ANN401
    if isinstance(part, str):
        return part
    if isinstance(part, Verbatim):
        return part.text
    return {"columns": part.titles, "rows": part.texts}
