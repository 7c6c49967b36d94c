"""The file of ``stepbench overlap``: what was measured, on which machine, and every iteration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.arms.stored import read_source
from harness.forward.forward_time import ForwardTime
from harness.system.documents import DAMAGED, check_format, damaged, number
from harness.system.files import read_document, write_atomically
from scenarios.scenario import from_dict
from stepbench_core.errors import InputError

from .figures import CellFigures, figures
from .run import WARMUPS, CellRun, OverlapPlan, check_process

OVERLAP = "stepbench_overlap_format"
FORMAT = 2


@dataclass(frozen=True)
class OverlapFile:
    """What ``stepbench overlap`` kept.

    Attributes:
        path: where it was read.
        plan: what was measured.
        runs: the cells that were finished, with every iteration.
        cells: their figures.
        metadata: what names the machine, the code and the command.
    """

    path: Path
    plan: OverlapPlan
    runs: tuple[CellRun, ...]
    cells: tuple[CellFigures, ...]
    metadata: Mapping[str, Any]


def write_overlap(
    path: Path, plan: OverlapPlan, runs: Sequence[CellRun], metadata: Mapping[str, object]
) -> None:
    """Write the cells that are finished; what the file held before stays until that is done.

    Args:
        path: the file, a JSON document.
        plan: what is measured.
        runs: the finished cells.
        metadata: what names the machine, the code and the command.

    Raises:
        InputError: the file cannot be written.
    """
    document = {
        OVERLAP: FORMAT,
        "metadata": dict(metadata),
        "arms": [asdict(arm) for arm in plan.arms],
        "scenarios": [scenario.to_dict() for scenario in plan.scenarios],
        "forward": plan.forward.to_dict(),
        "device": plan.device,
        "other_host": plan.other_host,
        "swept": plan.swept,
        "processes": plan.processes,
        "iterations": plan.iterations,
        "warmups": WARMUPS,
        "seed": plan.seed,
        "cpu": plan.cpu,
        "provider": plan.provider,
        # Of each process, arm and order all iterations, in seconds; the first of them is the last
        # warm-up.
        "cells": [
            {
                "scenario": run.scenario.to_dict(),
                "processes": run.processes,
                "failure": run.failure,
            }
            for run in runs
        ],
    }
    # Not json.dump, which encodes a piece at a time, ten times as slowly.
    text = json.dumps(document, allow_nan=False)
    write_atomically(path, lambda file: file.write(text))


def read_overlap(path: Path) -> OverlapFile:
    """Return what a file of ``write_overlap`` holds.

    Raises:
        InputError: there is no such file, or it is another one, damaged or of another version.
    """
    _, document = read_document(path)
    if not isinstance(document, dict) or OVERLAP not in document:
        raise InputError(f"{path}: not a file of `stepbench overlap`")
    return load_overlap(path, document)


def load_overlap(path: Path, document: Mapping[str, Any]) -> OverlapFile:
    """Return what a document of ``write_overlap`` holds.

    Raises:
        InputError: it is damaged, or of another version.
    """
    check_format(path, document, OVERLAP, FORMAT)
    try:
        plan = _plan(document)
        runs = _runs(plan, document["cells"])
        cells = tuple(figures(plan, run) for run in runs)
        metadata = _metadata(document["metadata"])
    except (*DAMAGED, IndexError) as error:
        raise damaged(path, error) from None
    return OverlapFile(path, plan, runs, cells, metadata)


def _count(value: Any, least: int) -> int:  # noqa: ANN401
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} instead of a number from {least} on")
    return value


def _plan(document: Mapping[str, Any]) -> OverlapPlan:
    if document["device"] not in ("simulated", "cuda"):
        raise ValueError("the device is none")
    return OverlapPlan(
        arms=tuple(map(read_source, document["arms"])),
        scenarios=tuple(map(from_dict, document["scenarios"])),
        forward=ForwardTime(**document["forward"]),
        device=document["device"],
        other_host=number(document["other_host"]),
        swept=_count(document["swept"], 0),
        processes=_count(document["processes"], 1),
        iterations=None if document["iterations"] is None else _count(document["iterations"], 1),
        seed=_count(document["seed"], 0),
        cpu=None if document["cpu"] is None else _count(document["cpu"], 0),
        provider=str(document["provider"]),
    )


def _metadata(record: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(record["where"], str) or not isinstance(record["command"], str):
        raise ValueError("it does not say where it was measured, and by which command")  # noqa: TRY004
    return record


def _runs(plan: OverlapPlan, records: Sequence[Mapping[str, Any]]) -> tuple[CellRun, ...]:
    if not records:
        raise ValueError("it holds no cell")
    return tuple(_run(plan, record) for record in records)


def _run(plan: OverlapPlan, record: Mapping[str, Any]) -> CellRun:
    failure = record["failure"]
    for process in record["processes"]:
        check_process(plan, process)
    if failure is not None and not isinstance(failure, str):
        raise ValueError("a failure that is no text")
    return CellRun(from_dict(record["scenario"]), list(record["processes"]), failure)
