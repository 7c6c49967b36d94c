"""The file of a duet: what was compared, on which machine, and every sample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .duet import CellResult, Duet
from .files import write_atomically

FORMAT = 3


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
        "stepbench_duet_format": FORMAT,
        "metadata": dict(metadata),
        "a": asdict(duet.a),
        "b": asdict(duet.b),
        "threshold": duet.threshold,
        "comparisons": duet.rule.comparisons,
        "seconds": duet.seconds,
        "seed": duet.seed,
        "cpu": duet.cpu,
        "provider": duet.provider,
        "gc": duet.gc,
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
        # Copies by their index, in the order in which they were imported and ran:
        # [process][place] and [process][iteration][place].
        "imports": result.imports,
        "orders": result.orders,
        "failure": result.failure,
        "took": result.took,
    }
