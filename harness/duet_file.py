"""The file of a duet: what was compared, on which machine, and every sample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenarios.errors import InputError
from scenarios.scenario import from_dict

from .documents import DAMAGED, arm_source, check_format, damaged, number, text, whole
from .duet import COPIES, CellResult, Duet
from .files import write_atomically
from .statistics import Estimate
from .verdict import Kind, Process, Verdict

DUET = "stepbench_duet_format"
FORMAT = 4


@dataclass(frozen=True)
class DuetFile:
    """What ``stepbench compare`` kept.

    Attributes:
        path: where it was read.
        duet: what was compared.
        results: the cells that were finished.
        metadata: what names the machine, the code and the command.
    """

    path: Path
    duet: Duet
    results: tuple[CellResult, ...]
    metadata: Mapping[str, Any]


def write_duet(
    path: Path, duet: Duet, results: Sequence[CellResult], metadata: Mapping[str, object]
) -> None:
    """Write the cells that are finished; what the file held before stays until that is done.

    Args:
        path: the file, a JSON document.
        duet: what is compared.
        results: the finished cells.
        metadata: what names the machine, the code and the command.

    Raises:
        InputError: the file cannot be written.
    """
    document = {
        DUET: FORMAT,
        "metadata": dict(metadata),
        "a": asdict(duet.a),
        "b": asdict(duet.b),
        "threshold": duet.threshold,
        "comparisons": duet.rule.comparisons,
        "seconds": duet.seconds,
        "seed": duet.seed,
        "cpus": list(duet.cpus),
        "provider": duet.provider,
        "gc": duet.gc,
        "scenarios": [scenario.to_dict() for scenario in duet.scenarios],
        "cells": [cell_document(result) for result in results],
    }
    write_atomically(path, lambda file: json.dump(document, file, allow_nan=False))


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with None for what is no number, for which JSON has no word."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def cell_document(result: CellResult) -> dict[str, Any]:
    """Return what is kept of a cell, in the words of JSON."""
    return {
        "scenario": result.scenario.to_dict(),
        "verdict": finite(asdict(result.verdict)),
        "first_run": [asdict(process) for process in result.first],
        "second_run": [asdict(process) for process in result.second],
        # [process][first arm, second arm, the second copy of either][iteration], in seconds.
        "samples": result.samples,
        # The core that each process was pinned to, if to any.
        "cores": result.cores,
        # Copies by their index, in the order in which they were imported and ran:
        # [process][place] and [process][iteration][place].
        "imports": result.imports,
        "orders": result.orders,
        "failure": result.failure,
        "took": result.took,
    }


def load_duet(path: Path, document: Mapping[str, Any]) -> DuetFile:
    """Return what a document of ``write_duet`` holds.

    Raises:
        InputError: it is damaged, or of another version.
    """
    check_format(path, document, DUET, FORMAT)
    try:
        metadata = document["metadata"]
        text(metadata["where"])
        text(metadata["command"])
        duet = Duet(
            arm_source(document["a"]),
            arm_source(document["b"]),
            tuple(map(from_dict, document["scenarios"])),
            threshold=number(document["threshold"]),
            seconds=number(document["seconds"]),
            seed=whole(document["seed"]),
            cpus=tuple(map(whole, document["cpus"])),
            provider=text(document["provider"]),
            comparisons=whole(document["comparisons"]),
            gc=bool(document["gc"]),
        )
        results = tuple(map(_cell, document["cells"]))
    except DAMAGED as error:
        raise damaged(path, error) from None
    if not results:
        raise InputError(f"{path}: damaged: it holds no cell")
    return DuetFile(path, duet, results, metadata)


def _cell(record: Mapping[str, Any]) -> CellResult:
    samples = record["samples"]
    if any(len(process) != COPIES for process in samples):
        raise ValueError("a process without the samples of all copies")
    if {len(record[name]) for name in ("imports", "orders", "cores")} != {len(samples)}:
        raise ValueError("not as many orders and cores as processes")
    return CellResult(
        from_dict(record["scenario"]),
        _verdict(record["verdict"]),
        [[list(map(number, copy)) for copy in process] for process in samples],
        record["imports"],
        record["orders"],
        list(map(_process, record["first_run"])),
        list(map(_process, record["second_run"])),
        None if record["failure"] is None else text(record["failure"]),
        number(record["took"]),
        [None if core is None else whole(core) for core in record["cores"]],
    )


def _verdict(record: Mapping[str, Any]) -> Verdict:
    ratio, floor, detectable = record["ratio"], record["floor"], record["detectable"]
    return Verdict(
        Kind(record["kind"]),
        text(record["reason"]),
        None if ratio is None else Estimate(*(number(ratio[name]) for name in _ESTIMATE)),
        math.nan if floor is None else number(floor),
        math.nan if detectable is None else number(detectable),
    )


_ESTIMATE = ("value", "low", "high")


def _process(record: Mapping[str, Any]) -> Process:
    a, b = map(number, record["seconds"])
    control_a, control_b = map(number, record["controls"])
    return Process(
        number(record["effect"]), (control_a, control_b), number(record["cpu_share"]), (a, b)
    )
