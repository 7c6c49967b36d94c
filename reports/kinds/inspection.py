"""What was found when an arm was loaded, as text and JSON."""

import json
from collections.abc import Mapping, Sequence

from harness.arms.inspection import Answer, Found
from harness.arms.sources import ArmSource


def render_text(source: ArmSource, found: Found) -> str:
    """Return what was found in words."""
    lines = [f"{source.spec}", f"  from {source.filename}"]
    if source.origin:
        lines.append(f"  {source.origin}")
    lines.append(f"  sha256 {source.digest}")
    for answer in Answer:
        names = [(name, line) for name, line, own in found.imports if own is answer]
        if names:
            lines.append(f"\nImports, {answer}:")
            lines += [f"  {name} (line {line})" for name, line in names]
    lines.append("\nFound:")
    lines += [
        f"  {name}{signature}" if signature else f"  {name}: missing"
        for name, signature in found.entry_points.items()
    ]
    if found.noops:
        lines.append("\nUsed, no-op:")
        lines += [f"  {name} ({_lines(own)})" for name, own in found.noops.items()]
    if found.uses:
        lines.append("\nUsed, and without a stand-in: where it runs, the arm cannot be run here:")
        lines += [f"  {name} ({_lines(own)})" for name, own in found.uses.items()]
    if found.lacks:
        lines.append(f"\nLacks: {', '.join(need.value for need in found.lacks)}.")
    return "\n".join(lines) + "\n"


def render_json(source: ArmSource, found: Found) -> str:
    """Return one JSON document."""
    document = {
        "arm": source.spec,
        "file": source.filename,
        "origin": source.origin or None,
        "sha256": source.digest,
        "imports": [
            {"name": name, "line": line, "answer": answer} for name, line, answer in found.imports
        ],
        "entry_points": found.entry_points,
        "lacks": [need.value for need in found.lacks],
        "uses_without_stand_in": _named(found.uses),
        "uses_no_op": _named(found.noops),
    }
    return json.dumps(document, indent=2) + "\n"


def _named(uses: Mapping[str, Sequence[int]]) -> list[dict[str, object]]:
    return [{"name": name, "lines": lines} for name, lines in uses.items()]


def _lines(numbers: Sequence[int]) -> str:
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
