"""What a machine is like for measuring, as a table, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.compare.file import finite
from harness.compare.noise_floor import ARM, CELL, Noise, detectable, doubt, processes_of_a_run
from harness.compare.verdict import Rule
from harness.system.doctor import Finding, State
from reports.render.formats import write_parts
from reports.render.table import Table, words
from reports.render.words import counted

# The time of a cell for which the smallest slowdown is told, in seconds.
_TIMES = (10, 60)


def write_doctor(
    findings: Sequence[Finding], noise: Noise | None, where: str, style: str, file: TextIO
) -> None:
    """Write findings, and what the noise lets find, to ``file``.

    Args:
        findings: what was found of the machine.
        noise: of the run of an arm against itself; None where that was left out or has not ended.
        where: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(findings, noise, where))
        return
    rows = tuple((each.name, each.found, each.state.value) for each in findings)
    parts: list[Table | str] = [Table.of(words("Finding", "What was found", "Verdict"), rows)]
    parts += [f"{each.name}: {each.advice}" for each in findings if each.state != State.GOOD]
    fine = [each.name for each in findings if each.state == State.GOOD]
    if fine:
        parts.append(f"Nothing to do about: {', '.join(fine)}.")
    if noise is not None:
        parts += _noise(noise)
    parts.append(where)
    write_parts(parts, style, file)


def _noise(noise: Noise) -> list[str]:
    found = (
        f"`{ARM}` against itself in cell {CELL.name}: {counted(noise.processes, 'process')}, "
        f"{noise.seconds:.2f} s each, whose ratios vary by {noise.effect:.2%} (a standard "
        "deviation on which the outermost fifths weigh little)."
    )
    smallest = " and ".join(f"{share:.2%} in {seconds} s" for seconds, _, share in _smallest(noise))
    if noise.is_too_much:
        return [
            found,
            "Too noisy to say which slowdown can be found here: "
            f"{doubt(noise.verdict)}. If the noise stays as it was, not less than {smallest}.",
        ]
    return [
        found,
        f"The smallest slowdown that `stepbench compare` can be relied on to find here: about "
        f"{smallest} a cell, with a threshold of {Rule.threshold:.2%} and if the noise stays as it "
        "was.",
    ]


def _smallest(noise: Noise) -> list[tuple[int, int, float]]:
    """Return seconds, processes in them, and the smallest slowdown as a fraction."""
    counts = [(seconds, processes_of_a_run(seconds, noise.seconds)) for seconds in _TIMES]
    return [(seconds, count, detectable(noise, count)) for seconds, count in counts]


def _json(findings: Sequence[Finding], noise: Noise | None, where: str) -> str:
    """Return one JSON document; without a noise, null."""
    document: dict[str, Any] = {
        "findings": [asdict(each) for each in findings],
        "noise": None,
        "where": where,
    }
    if noise is not None:
        document["noise"] = {
            "arm": ARM,
            "cell": CELL.name,
            **asdict(noise),
            "verdict": finite(asdict(noise.verdict)),
            "too_noisy": noise.is_too_much,
            "detectable": [
                {"seconds": seconds, "processes": count, "slowdown": share}
                for seconds, count, share in _smallest(noise)
            ],
        }
    return json.dumps(document, indent=2) + "\n"
