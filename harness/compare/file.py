"""The file of a duet: what was compared, on which machine, and every sample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.arms.packages import PackageArm
from harness.arms.sources import ArmSource
from harness.stats.estimates import Estimate
from harness.system.documents import DAMAGED, Metadata, Number, Whole, damaged, decode
from harness.system.files import write_atomically
from scenarios.scenario import from_dict
from subjects.base import Cell, cell_from_dict

from .duet import COPIES, CellResult, Duet, Scenario
from .figure import Kind
from .verdict import Process, Verdict

DUET = "stepbench_duet_format"
FORMAT = 7
# Those that are read: 5 knows only copies that share a process, and up to 6 the control's reach was
# called its floor.
_READ = (5, 6, FORMAT)


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
        # The user's own function, whose arms are versions of packages; null for the connector.
        "subject": None if duet.subject is None else dict(duet.subject),
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
    # Not json.dump, which encodes a piece at a time, in Python.
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


_Copies = Annotated[list[list[Number]], msgspec.Meta(min_length=COPIES, max_length=COPIES)]
_Alive = Annotated[list[list[str]], msgspec.Meta(min_length=COPIES, max_length=COPIES)]


class _Verdict(msgspec.Struct):
    kind: Kind
    reason: str
    ratio: Estimate | None
    detectable: Number | None
    mean: Estimate | None
    parts: bool
    reach: Number | None = None
    floor: Number | None = None

    def verdict(self) -> Verdict:
        """Return the verdict; JSON has no word for what is no number."""
        known = self.floor if self.reach is None else self.reach
        reach = math.nan if known is None else known
        detectable = math.nan if self.detectable is None else self.detectable
        return Verdict(
            self.kind, self.reason, self.ratio, reach, detectable, self.mean, parts=self.parts
        )


class _Cell(msgspec.Struct):
    scenario: dict[str, Any]
    verdict: _Verdict
    samples: list[_Copies]
    imports: list[list[Whole]]
    orders: list[list[list[Whole]]]
    first_run: list[Process]
    second_run: list[Process]
    failure: str | None
    took: Number
    cores: list[Whole | None]
    background: list[_Copies | None]
    alive: _Alive

    def __post_init__(self) -> None:
        """Raise ValueError unless all is told of each process."""
        told = (self.imports, self.orders, self.cores, self.background)
        if {len(each) for each in told} != {len(self.samples)}:
            raise ValueError("not as many orders, cores and background times as processes")

    def result(self) -> CellResult:
        """Return the cell. Raises InputError or ValueError where its scenario is none."""
        return CellResult(
            _scenario(self.scenario),
            self.verdict.verdict(),
            self.samples,
            self.imports,
            self.orders,
            self.first_run,
            self.second_run,
            self.failure,
            self.took,
            self.cores,
            self.background,
            self.alive,
        )


class _Document(msgspec.Struct):
    metadata: Metadata
    a: dict[str, Any]
    b: dict[str, Any]
    threshold: Number
    comparisons: Whole
    seconds: Number
    seed: Whole
    cpus: tuple[Whole, ...]
    provider: str
    gc: bool
    scenarios: list[dict[str, Any]]
    cells: Annotated[list[_Cell], msgspec.Meta(min_length=1)]
    apart: bool = False
    subject: dict[str, Any] | None = None


def _scenario(values: Mapping[str, Any]) -> Scenario:
    """Return the cell that a file holds. Raises InputError where that is none."""
    return cell_from_dict(values) if values.get("kind") == Cell.__name__ else from_dict(values)


def _arm(values: dict[str, Any]) -> ArmSource | PackageArm:
    """Return the arm that a file holds. Raises msgspec.ValidationError where that is none."""
    kind: type[ArmSource | PackageArm] = PackageArm if "folders" in values else ArmSource
    return msgspec.convert(values, kind)


def load_duet(path: Path, document: Mapping[str, Any]) -> DuetFile:
    """Return what a document of ``write_duet`` holds.

    Raises:
        InputError: it is damaged, or of another version.
    """
    known = document[DUET] if document[DUET] in _READ else FORMAT
    found = decode(path, document, DUET, known, _Document)
    try:
        duet = Duet(
            _arm(found.a),
            _arm(found.b),
            tuple(map(_scenario, found.scenarios)),
            threshold=found.threshold,
            seconds=found.seconds,
            seed=found.seed,
            cpus=found.cpus,
            provider=found.provider,
            comparisons=found.comparisons,
            gc=found.gc,
            is_apart=found.apart,
            subject=found.subject,
        )
        results = tuple(cell.result() for cell in found.cells)
    except DAMAGED as error:
        raise damaged(path, error) from None
    return DuetFile(path, duet, results, document["metadata"])
