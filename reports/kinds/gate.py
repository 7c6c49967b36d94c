"""What the gate found, as Markdown and JSON."""

import json
from collections.abc import Mapping, Sequence

from harness.gate.config import Step, outcome_of
from harness.gate.file import GATE
from harness.system.documents import FORMAT
from reports.render.markdown import render_table
from reports.render.table import Table, words


def steps_table(steps: Sequence[Step]) -> Table:
    """Return a row for each step."""
    rows = tuple((step.name, step.outcome.words, step.summary) for step in steps)
    return Table.of(words("Step", "Outcome", "What was found"), rows)


def render_markdown(steps: Sequence[Step], base: str, metadata: Mapping[str, object]) -> str:
    """Return the outcome, a table of the steps, the details of those that have some, and where.

    Args:
        steps: what was found.
        base: the revision that the arms were held against.
        metadata: what names the machine, the code and the command.
    """
    title = f"## Gate against `{base}`: {outcome_of(steps).words}"
    parts = [title, render_table(steps_table(steps))]
    parts += [f"### {step.name}\n\n{step.details}" for step in steps if step.details]
    parts.append(f"{metadata['where']} Repeat with `{metadata['command']}`.")
    return "\n\n".join(parts) + "\n"


def render_json(
    steps: Sequence[Step], base: str, metadata: Mapping[str, object], exit_code: int
) -> str:
    """Return one JSON document of the same, with the exit code of the command."""
    document = {
        GATE: FORMAT,
        "base": base,
        "outcome": outcome_of(steps).words,
        "exit_code": exit_code,
        "metadata": dict(metadata),
        "steps": [
            {
                "step": step.name,
                "outcome": step.outcome.words,
                "summary": step.summary,
                "details": step.details,
                "cell": step.cell,
            }
            for step in steps
        ],
    }
    return json.dumps(document, indent=2) + "\n"
