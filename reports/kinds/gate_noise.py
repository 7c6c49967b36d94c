"""The thresholds that a gate's noise can carry, as a table, lines to paste, and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from harness.compare.file import finite
from harness.gate.config import GateConfig, table_of
from harness.gate.noise import Proposal, thresholds, toml_line
from reports.render.formats import write_parts
from reports.render.numbers import format_share
from reports.render.parts import Part, Verbatim
from reports.render.table import Table, Value, figure, figures, names
from reports.render.words import code, counted

_HEAD = (
    *names("Cell", "Arm"),
    *figures("Processes", "Noise: typical", "Noise: mean", "Noise: every sample"),
    *figures("Needed", "Configured", "Proposed", "Detectable"),
)


def write_gate_noise(
    config: GateConfig,
    path: Path,
    proposals: Sequence[Proposal],
    missing: int,
    where: str,
    style: str,
    file: TextIO,
) -> None:
    """Write what is proposed to ``file``.

    Args:
        config: the gate's configuration.
        path: the file that it was read from.
        proposals: what was found.
        missing: how many arms in cells were not measured.
        where: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(config, proposals, missing, where))
        return
    parts: list[Part] = []
    if missing:
        total = missing + len(proposals)
        parts.append(f"Incomplete: {counted(missing, 'run')} of {total} missing.")
    if proposals:
        parts += [Table.of(_HEAD, map(_row, proposals)), _meaning(config, proposals)]
        parts += _beyond(proposals)
    if any(each.is_raised for each in proposals):
        parts += [_place(config, path), Verbatim(toml_line(thresholds(config, proposals)))]
    elif not missing and all(each.proposed is not None for each in proposals):
        parts.append("The configured thresholds are enough: there is nothing to change.")
    parts.append(where)
    write_parts(parts, style, file)


def _row(each: Proposal) -> tuple[Value | str, ...]:
    noise = (each.noise.effect, each.noise.agreed, each.noise.every)
    return (
        each.cell,
        each.arm,
        figure(f"{each.noise.processes}", each.noise.processes),
        *(figure("-" if one is None else f"{one:.2%}", one) for one in noise),
        figure(format_share(each.needed), each.needed),
        figure(format_share(each.configured), each.configured),
        figure("none" if each.proposed is None else format_share(each.proposed), each.proposed),
        figure("-" if each.detectable is None else format_share(each.detectable), each.detectable),
    )


def _meaning(config: GateConfig, proposals: Sequence[Proposal]) -> str:
    fewest = min(each.noise.processes for each in proposals)
    return (
        "Noise is how much processes of the same code differ (a standard deviation on which the "
        "outermost fifths weigh little): in the typical step, in the mean of what both copies of "
        "an arm agree on, and in the mean of every sample. Needed is the threshold within which "
        "the gate finds code that did not change to be the same in about 99 of 100 runs, at "
        f"{config.seconds:g} s a cell. Proposed is a round threshold that is not below it, nor "
        "below the configured one, and with which the gate's rule finds the processes seen here to "
        "be the same. Detectable is about the smallest slowdown that then fails the gate in 99 of "
        "100 runs. All this rests on what this machine was like now, in "
        f"{fewest} or more processes a row: run it where the gate runs, and again at another time, "
        "before you raise a threshold."
    )


def _beyond(proposals: Sequence[Proposal]) -> list[str]:
    """Say for which arms in which cells nothing is proposed, and what to do."""
    lines = [
        f"Nothing is proposed for {code(each.arm)} in {each.cell}: {each.reason}."
        for each in proposals
        if each.proposed is None
    ]
    advice = (
        "Measure again on a quiet machine, or on other cores (--cpu); if that does not help, give "
        "the gate more `seconds`, or take the cell out of `cells`."
    )
    return [*lines, advice] if lines else []


def _place(config: GateConfig, path: Path) -> str:
    table = code(f"[{'.'.join(table_of(path))}]")
    instead = "in place of its `thresholds`" if config.thresholds else "as a line of its own"
    return f"For {table} in {code(f'{path}')}, {instead}:"


def _json(config: GateConfig, proposals: Sequence[Proposal], missing: int, where: str) -> str:
    """Return one JSON document; thresholds are fractions, by glob, as the file may have them."""
    rows: list[dict[str, Any]] = [
        {
            **asdict(each),
            "noise": {**asdict(each.noise), "verdict": finite(asdict(each.noise.verdict))},
            "is_raised": each.is_raised,
        }
        for each in proposals
    ]
    document = {
        "seconds": config.seconds,
        "cells": rows,
        "missing": missing,
        "thresholds": thresholds(config, proposals),
        "where": where,
    }
    return json.dumps(document, indent=2) + "\n"
