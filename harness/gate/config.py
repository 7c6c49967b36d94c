"""The gate: what a change has to pass, cheapest first, and what each step found."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.system.documents import Number, expected
from harness.system.files import parse_toml
from harness.verify.runs import MAX_RUNS
from stepbench_core.errors import InputError
from stepbench_core.input_files import read_input

DEFAULT_BASE = "HEAD~1"


class Outcome(IntEnum):
    """How a step ended, and the exit code of a gate that ends so."""

    PASSED = 0
    FOUND = 1
    CANNOT_RUN = 2
    INCONCLUSIVE = 3
    NOTHING_TO_COMPARE = 4

    @property
    def words(self) -> str:
        """The outcome as a report has it."""
        return {
            Outcome.PASSED: "passed",
            Outcome.FOUND: "failed",
            Outcome.CANNOT_RUN: "cannot be run here",
            Outcome.INCONCLUSIVE: "inconclusive",
            Outcome.NOTHING_TO_COMPARE: "nothing to compare with",
        }[self]


# Which outcome of several is the gate's: a finding is one, whatever else there is, and what could
# not be compared is no pass.
_WORST_FIRST = (
    Outcome.FOUND,
    Outcome.CANNOT_RUN,
    Outcome.NOTHING_TO_COMPARE,
    Outcome.INCONCLUSIVE,
    Outcome.PASSED,
)


@dataclass(frozen=True)
class Step:
    """What one step of the gate found.

    Attributes:
        name: the step.
        outcome: how it ended.
        summary: one line.
        details: lines of Markdown, such as a table; empty where the line says it all.
        cell: of a timed cell what its verdict rests on, in the words of JSON; None of other steps.
    """

    name: str
    outcome: Outcome
    summary: str
    details: str = ""
    cell: Mapping[str, object] | None = None


# A share below 1: 0.005 is half a per cent.
_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True)
class GateConfig:
    """What the gate checks.

    Attributes:
        arms: the arms.
        scenario: the catalogue entry whose cells the budget file holds.
        cells: names of those of its cells that are timed.
        base: the git revision that the arms are held against.
        runs: random runs of the equivalence step.
        budget: the budget file.
        threshold: how much slower matters, as a fraction.
        thresholds: the same for what matches a glob of ``CELL/ARM``; the first that matches counts.
        growth: by glob of an arm, the largest slope against tokens that a figure may have.
        seconds: time budget of a cell and arm.
    """

    arms: tuple[str, ...] = ()
    scenario: str = "reference"
    cells: tuple[str, ...] = ()
    base: str = DEFAULT_BASE
    runs: int = 300
    budget: str = "budgets.toml"
    threshold: float = 0.005
    thresholds: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 10.0

    def threshold_of(self, cell: str, arm: str) -> float:
        """Return the threshold of an arm in a cell."""
        found = _first_match(self.thresholds, f"{cell}/{arm}")
        return self.threshold if found is None else found

    def growth_of(self, arm: str) -> float | None:
        """Return the largest slope against tokens that a figure of an arm may have, if any."""
        return _first_match(self.growth, arm)


def parse_config(text: str, where: str, names: Sequence[str]) -> GateConfig:
    """Return the configuration that a TOML text holds in the table with these names.

    Raises InputError if it holds none.
    """
    document: Any = parse_toml(text, where)
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    if not isinstance(document, dict):
        raise InputError(f"{where}: no table [{'.'.join(names)}]")
    return _config(where, document)


def find_config(path: Path | None) -> Path:
    """Return the file with the configuration: this one, or else what is in the working folder."""
    if path is not None:
        return path
    own = Path("stepbench.toml")
    return own if own.exists() else Path("pyproject.toml")


def table_of(path: Path) -> tuple[str, ...]:
    """Return the names of the table that configures the gate in a file."""
    return ("tool", "stepbench", "gate") if path.name == "pyproject.toml" else ("gate",)


def loosened(before: GateConfig, config: GateConfig) -> tuple[list[str], list[str]]:
    """Return what a configuration checks no more, and where it is less strict than before.

    Both one line each.
    """
    gone = [f"arm {arm}" for arm in before.arms if arm not in config.arms]
    gone += [f"cell {cell}" for cell in before.cells if cell not in config.cells]
    looser = [
        f"{name} {getattr(before, name)} -> {getattr(config, name)}"
        for name in ("scenario", "budget")
        if getattr(before, name) != getattr(config, name)
    ]
    if config.runs < before.runs:
        looser.append(f"runs {before.runs} -> {config.runs}")
    for arm in config.arms:
        for cell in config.cells:
            old, new = before.threshold_of(cell, arm), config.threshold_of(cell, arm)
            if new > old:
                looser.append(f"threshold of {cell}/{arm} {old:.2%} -> {new:.2%}")
        limit, now = before.growth_of(arm), config.growth_of(arm)
        if limit is not None and (now is None or now > limit):
            looser.append(f"growth of {arm} {limit:g} -> {'none' if now is None else f'{now:g}'}")
    return gone, looser


def load_config(path: Path | None) -> GateConfig:
    """Return the gate's configuration.

    Args:
        path: a TOML file; None for ``stepbench.toml`` in the working folder, or else
            ``pyproject.toml`` there. In the latter it is the table ``tool.stepbench.gate``, in any
            other file ``gate``.

    Raises:
        InputError: there is no such file, or it does not configure the gate.
    """
    path = find_config(path)
    try:
        text = read_input(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: {error.strerror}: run the gate where its configuration is, or name that with "
            "--config; `stepbench init` writes one for functions of your own"
        ) from None
    return parse_config(text, f"{path}", table_of(path))


def check_patterns(config: GateConfig) -> None:
    """Raise InputError where a glob matches nothing checked: a slip would switch a check off."""
    timed = [f"{cell}/{arm}" for cell in config.cells for arm in config.arms]
    for what, patterns, names in (
        ("thresholds", config.thresholds, timed),
        ("growth", config.growth, list(config.arms)),
    ):
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                raise InputError(f"{what}: {pattern!r} matches nothing")


def outcome_of(steps: Sequence[Step]) -> Outcome:
    """Return the outcome of the whole gate."""
    found = {step.outcome for step in steps}
    return next(outcome for outcome in _WORST_FIRST if outcome in found or outcome == 0)


class _Settings(msgspec.Struct):
    """What the table may hold, and what else than the defaults of ``GateConfig`` it does."""

    arms: _Names
    cells: _Names
    scenario: str = GateConfig.scenario
    base: str = GateConfig.base
    runs: Annotated[int, msgspec.Meta(ge=1, le=MAX_RUNS)] = GateConfig.runs
    budget: str = GateConfig.budget
    threshold: _Share = GateConfig.threshold
    thresholds: dict[str, _Share] = {}
    growth: dict[str, Number] = {}
    seconds: Annotated[float, msgspec.Meta(gt=0, lt=1e15)] = GateConfig.seconds


def _config(where: str, values: Mapping[str, Any]) -> GateConfig:
    known = [field.name for field in fields(GateConfig)]
    for name in values:
        if name not in known:
            raise InputError(f"{where}: unknown setting {name!r}: known: {', '.join(known)}")
    try:
        settings = msgspec.convert(values, _Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {expected(error)}") from None
    for name in ("arms", "cells"):
        values_of = getattr(settings, name)
        if len(set(values_of)) < len(values_of):
            raise InputError(f"{where}: {name}: one is named twice")
    return GateConfig(**msgspec.structs.asdict(settings))


def _first_match(patterns: Mapping[str, float], name: str) -> float | None:
    return next((v for p, v in patterns.items() if fnmatch.fnmatchcase(name, p)), None)
