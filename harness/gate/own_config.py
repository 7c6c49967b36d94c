"""The gate of a project with functions of its own: what it checks."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.system.documents import Number, expected
from harness.system.files import parse_toml
from stepbench_core.errors import InputError
from stepbench_core.input_files import read_input

from .config import table_of

DEFAULT_BASE = "HEAD~1"
_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


@dataclass(frozen=True)
class OwnGateConfig:
    """What the gate of a project checks.

    Attributes:
        subjects: the files, ``FILE`` or ``FILE::FUNCTION``, seen from the configuration's folder.
        cells: names or patterns of the cells that are timed and counted, of all subjects.
        base: the git revision that the work tree is held against, where the two parted.
        runs: worlds of each cell in which outputs are compared.
        steps: steps of each.
        work: by how much the exact work of a step may grow, as a fraction.
        growth: by pattern of ``FUNCTION/SIZE``, the largest slope of bytecodes against that size.
        threshold: how much slower matters, as a fraction.
        thresholds: the same by pattern of ``FUNCTION/CELL``; the first that matches counts.
        seconds: time budget of a cell.
    """

    subjects: tuple[str, ...]
    cells: tuple[str, ...] = ("*",)
    base: str = DEFAULT_BASE
    runs: int = 10
    steps: int = 20
    work: float = 0.01
    growth: Mapping[str, float] = field(default_factory=dict)
    threshold: float = 0.005
    thresholds: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 10.0

    def threshold_of(self, function: str, cell: str) -> float:
        """Return the threshold of a function in a cell."""
        return first_match(self.thresholds, f"{function}/{cell}", self.threshold)

    def growth_of(self, function: str, size: str) -> float | None:
        """Return the largest slope against a size that a function may have, if any."""
        limit = first_match(self.growth, f"{function}/{size}", float("inf"))
        return None if limit == float("inf") else limit


def first_match(patterns: Mapping[str, float], name: str, default: float) -> float:
    """Return what the first pattern that matches a name stands for."""
    return next((v for p, v in patterns.items() if fnmatch.fnmatchcase(name, p)), default)


def load_own_config(path: Path) -> OwnGateConfig | None:
    """Return the configuration of a project's gate; None where the file has no subjects of its own.

    Args:
        path: a TOML file, whose table is that of ``harness.gate.config.load_config``.

    Raises:
        InputError: the table is not as it should be.
    """
    try:
        text = read_input(path)
    except FileNotFoundError:
        return None
    document: Any = parse_toml(text, f"{path}")
    for name in table_of(path):
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, dict) or "subjects" not in document:
        return None
    known = [each.name for each in fields(OwnGateConfig)]
    for name in document:
        if name not in known:
            raise InputError(f"{path}: unknown setting {name!r}: known: {', '.join(known)}")
    try:
        settings = msgspec.convert(document, _Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {expected(error)}") from None
    return OwnGateConfig(**msgspec.structs.asdict(settings))


class _Settings(msgspec.Struct):
    """What the table may hold."""

    subjects: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    cells: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = OwnGateConfig.cells
    base: str = OwnGateConfig.base
    runs: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = OwnGateConfig.runs
    steps: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = OwnGateConfig.steps
    work: Annotated[float, msgspec.Meta(ge=0, lt=100)] = OwnGateConfig.work
    growth: dict[str, Number] = {}
    threshold: _Share = OwnGateConfig.threshold
    thresholds: dict[str, _Share] = {}
    seconds: Annotated[float, msgspec.Meta(gt=0, lt=3600)] = OwnGateConfig.seconds
