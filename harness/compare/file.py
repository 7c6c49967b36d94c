"""The file of a duet: what was compared, on which machine, and every sample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.arms.stored import read_source
from harness.stats.estimates import Estimate
from harness.stats.means import Means, Reading
from harness.system.documents import DAMAGED, check_format, damaged, number, text, whole
from harness.system.files import write_atomically
from scenarios.scenario import from_dict
from stepbench_core.errors import InputError

from .duet import COPIES, CellResult, Duet
from .figure import Kind
from .verdict import Process, Verdict

DUET = "stepbench_duet_format"
FORMAT = 6
# Those that are read: 5 knows only copies that share a process.
_READ = (5, FORMAT)


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
        # Whether each copy had a process of its own.
        "apart": duet.is_apart,
        "scenarios": [scenario.to_dict() for scenario in duet.scenarios],
        "cells": [cell_document(result) for result in results],
    }
    # Not json.dump, which encodes a piece at a time, ten times as slowly.
    text = json.dumps(document, allow_nan=False)
    write_atomically(path, lambda file: file.write(text))


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
        # CPU seconds that other threads and child processes spent for each call, likewise; null
        # for a process without any.
        "background": result.background,
        # What calls of each copy left behind: threads and child processes by their names.
        "alive": result.alive,
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
    if document[DUET] not in _READ:
        check_format(path, document, DUET, FORMAT)
    try:
        metadata = document["metadata"]
        text(metadata["where"])
        text(metadata["command"])
        duet = Duet(
            read_source(document["a"]),
            read_source(document["b"]),
            tuple(map(from_dict, document["scenarios"])),
            threshold=number(document["threshold"]),
            seconds=number(document["seconds"]),
            seed=whole(document["seed"]),
            cpus=tuple(map(whole, document["cpus"])),
            provider=text(document["provider"]),
            comparisons=whole(document["comparisons"]),
            gc=bool(document["gc"]),
            is_apart=bool(document.get("apart")),
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
    beside = record["background"]
    counts = {len(record[name]) for name in ("imports", "orders", "cores", "background")}
    if counts != {len(samples)}:
        raise ValueError("not as many orders, cores and background times as processes")
    if any(process is not None and len(process) != COPIES for process in beside):
        raise ValueError("a process without the background times of all copies")
    if len(record["alive"]) != COPIES:
        raise ValueError("not what calls of each copy left behind")
    return CellResult(
        from_dict(record["scenario"]),
        _verdict(record["verdict"]),
        [_copies(process) for process in samples],
        record["imports"],
        record["orders"],
        list(map(_process, record["first_run"])),
        list(map(_process, record["second_run"])),
        None if record["failure"] is None else text(record["failure"]),
        number(record["took"]),
        [None if core is None else whole(core) for core in record["cores"]],
        [None if process is None else _copies(process) for process in beside],
        [list(map(text, names)) for names in record["alive"]],
    )


def _copies(process: Sequence[Sequence[Any]]) -> list[list[float]]:
    return [list(map(number, copy)) for copy in process]


def _verdict(record: Mapping[str, Any]) -> Verdict:
    floor, detectable = record["floor"], record["detectable"]
    return Verdict(
        Kind(record["kind"]),
        text(record["reason"]),
        _estimate(record["ratio"]),
        math.nan if floor is None else number(floor),
        math.nan if detectable is None else number(detectable),
        _estimate(record["mean"]),
        bool(record["parts"]),
    )


def _estimate(record: Mapping[str, Any] | None) -> Estimate | None:
    if record is None:
        return None
    return Estimate(*(number(record[name]) for name in ("value", "low", "high")))


def _process(record: Mapping[str, Any]) -> Process:
    a, b = map(number, record["seconds"])
    control_a, control_b = map(number, record["controls"])
    return Process(
        number(record["effect"]),
        (control_a, control_b),
        number(record["cpu_share"]),
        (a, b),
        None if record["means"] is None else _means(record["means"]),
        bool(record["is_restless"]),
    )


def _means(record: Mapping[str, Any]) -> Means:
    readings = (record["agreed"], record["every"])
    agreed, every = (
        Reading(number(each["effect"]), tuple(map(number, each["controls"]))) for each in readings
    )
    (a, b), (tail_a, tail_b), (beside_a, beside_b) = (
        map(number, record[name]) for name in ("seconds", "tail", "background")
    )
    return Means(agreed, every, (a, b), (tail_a, tail_b), (beside_a, beside_b))
