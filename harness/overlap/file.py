"""The file of ``stepbench overlap``: what was measured, on which machine, and every iteration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.arms.sources import ArmSource
from harness.forward.forward_time import ForwardTime
from harness.system.documents import DAMAGED, Metadata, Number, Whole, damaged, decode
from harness.system.files import read_document, write_atomically
from scenarios.scenario import from_dict
from stepbench_core.errors import InputError

from .figures import CellFigures, figures
from .run import WARMUPS, CellRun, DeviceKind, OverlapPlan, check_process

OVERLAP = "stepbench_overlap_format"
FORMAT = 2

_Positive = Annotated[int, msgspec.Meta(ge=1)]


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
    # Not json.dump, which encodes a piece at a time, in Python.
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


class _Cell(msgspec.Struct):
    scenario: dict[str, Any]
    processes: list[dict[str, Any]]
    failure: str | None


class _Document(msgspec.Struct):
    arms: tuple[ArmSource, ...]
    scenarios: list[dict[str, Any]]
    forward: ForwardTime
    device: DeviceKind
    other_host: Number
    swept: Whole
    processes: _Positive
    iterations: _Positive | None
    seed: Whole
    cpu: Whole | None
    provider: str
    metadata: Metadata
    cells: Annotated[list[_Cell], msgspec.Meta(min_length=1)]

    def plan(self) -> OverlapPlan:
        """Return what was measured. Raises InputError or ValueError where a cell is none."""
        return OverlapPlan(
            arms=self.arms,
            scenarios=tuple(map(from_dict, self.scenarios)),
            forward=self.forward,
            device=self.device,
            other_host=self.other_host,
            swept=self.swept,
            processes=self.processes,
            iterations=self.iterations,
            seed=self.seed,
            cpu=self.cpu,
            provider=self.provider,
        )


def load_overlap(path: Path, document: Mapping[str, Any]) -> OverlapFile:
    """Return what a document of ``write_overlap`` holds.

    Raises:
        InputError: it is damaged, or of another version.
    """
    found = decode(path, document, OVERLAP, FORMAT, _Document)
    try:
        plan = found.plan()
        for cell in found.cells:
            for process in cell.processes:
                check_process(plan, process)
        runs = tuple(
            CellRun(from_dict(cell.scenario), cell.processes, cell.failure) for cell in found.cells
        )
        cells = tuple(figures(plan, run) for run in runs)
    except (*DAMAGED, IndexError) as error:
        raise damaged(path, error) from None
    return OverlapFile(path, plan, runs, cells, document["metadata"])
