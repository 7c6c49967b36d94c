"""What the gate found, as Markdown and JSON."""

import json
from collections.abc import Sequence

from harness.gate import Outcome, Step, outcome_of

from .markdown import render_table
from .table import Table

_WORDS = {
    Outcome.PASSED: "passed",
    Outcome.FOUND: "failed",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.NOTHING_TO_COMPARE: "nothing to compare with",
}


def render_markdown(steps: Sequence[Step], base: str) -> str:
    """Return the outcome, a table of the steps, and the details of those that have some."""
    table = Table(
        ("Step", "Outcome", "What was found"),
        tuple((step.name, _WORDS[step.outcome], step.summary) for step in steps),
    )
    parts = [f"## Gate against `{base}`: {_WORDS[outcome_of(steps)]}", render_table(table)]
    parts += [f"### {step.name}\n\n{step.details}" for step in steps if step.details]
    return "\n\n".join(parts) + "\n"


def render_json(steps: Sequence[Step], base: str) -> str:
    """Return one JSON document."""
    document = {
        "base": base,
        "outcome": _WORDS[outcome_of(steps)],
        "exit_code": int(outcome_of(steps)),
        "steps": [
            {
                "step": step.name,
                "outcome": _WORDS[step.outcome],
                "summary": step.summary,
                "details": step.details,
            }
            for step in steps
        ],
    }
    return json.dumps(document, indent=2) + "\n"
