"""What ``verify`` says of a user's own function."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from harness.verify.worlds import WorldsVerification
from reports.render.words import counted, sentences
from subjects.base import Cell


def render_text(
    found: WorldsVerification, subject: str, origins: Mapping[str, str] | None = None
) -> str:
    """Return what was found, for a terminal.

    Args:
        found: it.
        subject: the function, as a user names it.
        origins: where each arm is from.
    """
    differs = found.difference
    if differs is None:
        what = f"{counted(found.runs, 'run')} of {counted(found.steps, 'step')}"
        lines = [
            f"Same outputs: {', '.join(found.arms)} against {found.against}, in {what} of each of "
            f"{counted(len(found.cells), 'cell')} ({', '.join(found.cells)})."
        ]
    else:
        late = ", changed after it was returned," if differs.is_late else ""
        # What changes an output may come at any later step.
        steps = found.steps if differs.is_late else differs.step
        lines = [
            f"Different outputs: {differs.arm} against {found.against}, cell {differs.cell}, "
            f"step {differs.step}:",
            f"  {differs.place}{late} should be {differs.expected}",
            f"  {' ' * len(differs.place)}{' ' * len(late)} and is    {differs.actual}",
            f"Repeat with: stepbench verify {differs.arm} --against {found.against} --subject "
            f"{subject} --cells {differs.cell} --run {differs.run} --steps {steps} "
            f"--seed {found.seed}",
        ]
    return "\n".join([*lines, *sentences(origins or {})]) + "\n"


def render_json(
    found: WorldsVerification, subject: str, origins: Mapping[str, str] | None = None
) -> str:
    """Return the same as one JSON document."""
    return (
        json.dumps({"subject": subject, **asdict(found), "origins": origins or {}}, indent=2) + "\n"
    )


def render_subject(
    subject: str, functions: Mapping[str, Sequence[Cell]], packages: Sequence[str]
) -> str:
    """Return what a user's file declares, for a terminal."""
    file = subject.partition("::")[0]
    lines = [f"Packages (each arm has its own): {', '.join(packages)}"]
    for name, cells in functions.items():
        lines += ["", f"{file}::{name}"]
        width = max(len(cell.name) for cell in cells)
        for cell in cells:
            values = ", ".join(f"{key} {value}" for key, value in cell.values.items())
            lines.append(f"  {cell.name:<{width}}  {values}".rstrip())
    lines += [
        "",
        "Arms: git: (the work tree), git:REVISION or path:FOLDER, with +FILE.patch behind or not",
    ]
    return "\n".join(lines) + "\n"


def render_subject_json(
    subject: str, functions: Mapping[str, Sequence[Cell]], packages: Sequence[str]
) -> str:
    """Return the same as one JSON document."""
    document = {
        "subject": subject,
        "packages": list(packages),
        "functions": {
            name: [cell.to_dict() for cell in cells] for name, cells in functions.items()
        },
    }
    return json.dumps(document, indent=2) + "\n"
