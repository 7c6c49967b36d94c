"""The thresholds that a gate's noise can carry, as a table, lines to paste, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.duet_file import finite
from harness.gate import GateConfig
from harness.gate_noise import Proposal, thresholds, toml_lines

from .formats import write_parts
from .numbers import format_share
from .parts import Part, Verbatim
from .table import Table
from .words import code, counted

_HEAD = (
    *("Cell", "Arm", "Processes", "Noise of a process", "Needed", "Configured", "Proposed"),
    "Found with it",
)


def write_gate_noise(
    config: GateConfig,
    file_name: str,
    proposals: Sequence[Proposal],
    where: str,
    style: str,
    file: TextIO,
) -> None:
    """Write what is proposed to ``file``.

    Args:
        config: the gate's configuration.
        file_name: the file that it was read from.
        proposals: what was found.
        where: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(config, proposals, where))
        return
    rows = tuple(_row(each) for each in proposals)
    parts: list[Part] = [Table(_HEAD, rows)]
    if proposals:
        parts += _advice(config, file_name, proposals)
    parts.append(where)
    write_parts(parts, style, file)


def _row(each: Proposal) -> tuple[str, ...]:
    return (
        each.cell,
        each.arm,
        f"{each.noise.processes}",
        f"{each.noise.effect:.2%}",
        format_share(each.needed),
        format_share(each.configured),
        "none" if each.proposed is None else format_share(each.proposed),
        "-" if each.proposed is None else format_share(each.detectable),
    )


def _advice(config: GateConfig, file_name: str, proposals: Sequence[Proposal]) -> list[Part]:
    raised = [each for each in proposals if each.is_raised]
    parts: list[Part] = [
        "Needed is the threshold within which code that did not change is found to be the same in "
        f"99 of 100 runs of the gate, at {config.seconds:g} s a cell. Found with it is about the "
        "smallest slowdown that fails the gate in 99 of 100. Both as far as this noise goes: of "
        f"{counted(min(each.noise.processes for each in proposals), 'process')} or more a row, on "
        "this machine, now."
    ]
    beyond = [each for each in raised if each.proposed is None]
    for each in beyond:
        parts.append(
            f"{each.cell} with {code(each.arm)} is too noisy to be timed here: take it out of "
            "`cells`, or give it more `seconds`."
        )
    if not raised:
        parts.append("The configured thresholds are enough: there is nothing to change.")
    elif len(beyond) < len(raised):
        line = toml_lines(thresholds(config, proposals))
        parts.append(f"In {code(file_name)}, in place of `thresholds` or beside the other lines:")
        parts.append(Verbatim(line))
    return parts


def _json(config: GateConfig, proposals: Sequence[Proposal], where: str) -> str:
    rows: list[dict[str, Any]] = [
        {**asdict(each), "noise": finite(asdict(each.noise)), "is_raised": each.is_raised}
        for each in proposals
    ]
    document = {"cells": rows, "thresholds": thresholds(config, proposals), "where": where}
    return json.dumps(document, indent=2) + "\n"
