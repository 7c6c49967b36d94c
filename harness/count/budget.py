"""The budget file: what each arm may do per iteration, cell by cell."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.stats.estimates import is_finite
from harness.system.files import parse_toml, write_atomically
from stepbench_core.errors import InputError, NoBaselineError
from stepbench_core.input_files import read_input

from .exactness import unsteady_figures
from .work import FIGURES, VERSION_FIGURES, Work

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_HEAD = """\
# What each arm may do per iteration: a mean over the iterations that `stepbench count` counts.
# Written by `stepbench count --update`, checked by `stepbench count --check`.
"""

# Figure -> budget; a figure that depends on the Python version has one for each.
Figures = dict[str, float | dict[str, float]]


@dataclass(frozen=True)
class Budget:
    """The budgets of a file.

    Attributes:
        seed: the seed that they were counted with.
        cells: budgets by name of the cell and of the arm.
    """

    seed: int
    cells: dict[str, dict[str, Figures]]


@dataclass(frozen=True)
class Excess:
    """A figure beyond its budget, both per iteration."""

    cell: str
    arm: str
    figure: str
    budget: float
    actual: float


@dataclass(frozen=True)
class Finding:
    """What a check against a budget found.

    Attributes:
        checked: how many figures were compared.
        excesses: figures beyond their budget.
        below: how many figures are below it.
        missing: what stands on one side alone, one line each.
        unsteady: how many figures differ between two runs and were not compared.
    """

    checked: int
    excesses: tuple[Excess, ...]
    below: int
    missing: tuple[str, ...]
    unsteady: int = 0


def load_budget(path: Path) -> Budget:
    """Return the budgets of a file.

    Raises:
        InputError: the file cannot be read, or is no budget file.
        NoBaselineError: there is no such file, so there is nothing to compare with.
    """
    try:
        text = read_input(path)
    except FileNotFoundError:
        raise NoBaselineError(f"{path}: no such budget file; --update writes one") from None
    return parse_budget(text, f"{path}")


def parse_budget(text: str, path: str) -> Budget:
    """Return the budgets of the text of a file. Raises InputError if it is no budget file."""
    values = parse_toml(text, path)
    seed = values.pop("seed", None)
    if type(seed) is not int:
        raise InputError(f"{path}: the seed is missing or no whole number")
    for cell, arms in values.items():
        for arm, figures in arms.items() if isinstance(arms, dict) else [("", None)]:
            where = f"{path}: {cell}, {arm}" if arm else f"{path}: {cell}"
            _check_figures(where, figures)
    return Budget(seed, values)


def check(budget: Budget, works: Sequence[Work], *, whole: bool) -> Finding:
    """Compare counted work with its budget.

    Args:
        budget: the budget.
        works: the work.
        whole: whether the work is all that the budget should hold; else it is a part of it.
    """
    excesses, missing, checked, below, skipped = [], [], 0, 0, 0
    unsteady = unsteady_figures(works)
    for work in works:
        cell = work.scenario.name
        figures = budget.cells.get(cell, {}).get(work.arm)
        if figures is None:
            missing.append(f"{cell}, {work.arm}: no budget")
            continue
        for figure in FIGURES:
            actual, limit = work.per_iteration(figure), _limit(figures, figure)
            if actual is None:
                continue
            if limit is None:
                version = f" for Python {PYTHON}" if figure in VERSION_FIGURES else ""
                missing.append(f"{cell}, {work.arm}: no budget of {figure}{version}")
                continue
            if (work.arm, figure) in unsteady:
                skipped += 1
                continue
            checked += 1
            below += actual < limit
            if actual > limit:
                excesses.append(Excess(cell, work.arm, figure, limit, actual))
    if whole:
        counted = {(work.scenario.name, work.arm) for work in works}
        missing += [
            f"{cell}, {arm}: in the budget, but not counted"
            for cell, arms in budget.cells.items()
            for arm in arms
            if (cell, arm) not in counted
        ]
    return Finding(checked, tuple(excesses), below, tuple(missing), skipped)


def departures(budget: Budget | None, work: Work) -> list[str]:
    """Return the figures of a work that are not what a budget has; none without a budget."""
    figures = budget.cells.get(work.scenario.name, {}).get(work.arm, {}) if budget else {}
    return [
        figure
        for figure in FIGURES
        if (limit := _limit(figures, figure)) is not None and work.per_iteration(figure) != limit
    ]


def update(budget: Budget | None, works: Sequence[Work], seed: int, *, whole: bool) -> Budget:
    """Return a budget that allows just the counted work.

    Budgets of other Python versions stay if they were counted with the same seed, and so do, unless
    the work is ``whole``, other cells and arms.

    Raises:
        InputError: the work is a part of the budget, but was counted with another seed.
    """
    old = budget.cells if budget is not None else {}
    if budget is not None and not whole:
        check_seed(budget, seed)
    cells: dict[str, dict[str, Figures]] = {}
    if not whole:
        cells = {cell: dict(arms) for cell, arms in old.items()}
    for work in works:
        cell = work.scenario.name
        before = old.get(cell, {}).get(work.arm, {})
        figures: Figures = {}
        for figure in FIGURES:
            value = work.per_iteration(figure)
            if value is None:
                continue
            if figure in VERSION_FIGURES:
                others = before.get(figure)
                same = budget is not None and budget.seed == seed
                kept = others if same and isinstance(others, dict) else {}
                figures[figure] = dict(sorted({**kept, PYTHON: value}.items()))
            else:
                figures[figure] = value
        cells.setdefault(cell, {})[work.arm] = figures
    return Budget(seed, cells)


def is_counted(budget: Budget, works: Sequence[Work]) -> bool:
    """Return whether a budget holds for this Python just what an update with ``works`` writes.

    But for the figures that differ between two runs.
    """
    unsteady = unsteady_figures(works)
    written = update(budget, works, budget.seed, whole=True)
    return _without(written, unsteady) == _without(budget, unsteady)


def _without(budget: Budget, figures: Collection[tuple[str, str]]) -> Budget:
    """Return a budget without these figures, by arm and name."""
    cells = {
        cell: {
            arm: {figure: value for figure, value in own.items() if (arm, figure) not in figures}
            for arm, own in arms.items()
        }
        for cell, arms in budget.cells.items()
    }
    return Budget(budget.seed, cells)


def raised_figures(before: Budget, budget: Budget) -> list[str]:
    """Return a line for each budget of this Python that is larger than before."""
    return [
        f"{cell}, {arm}: {figure} {old:,.10g} -> {new:,.10g}"
        for cell, arms in budget.cells.items()
        for arm, figures in arms.items()
        for figure in figures
        if (new := _limit(figures, figure)) is not None
        and (old := _limit(before.cells.get(cell, {}).get(arm, {}), figure)) is not None
        and new > old
    ]


def other_pythons(one: Budget, other: Budget) -> list[str]:
    """Return the Python versions, without this one, whose figures are not the same in both."""
    return [
        version
        for version in sorted(_pythons(one) | _pythons(other))
        if version != PYTHON and _of_python(one, version) != _of_python(other, version)
    ]


def check_seed(budget: Budget, seed: int) -> None:
    """Raise InputError unless a budget was counted with ``seed``."""
    if budget.seed != seed:
        raise InputError(f"the budget was counted with seed {budget.seed}, not {seed}")


def write_budget(path: Path, budget: Budget) -> None:
    """Write a budget file; the one before stays until the new one is complete."""
    lines = [_HEAD, f"seed = {budget.seed}"]
    for cell, arms in budget.cells.items():
        for arm, figures in arms.items():
            lines.append(f"\n[{_key(cell)}.{_key(arm)}]")
            lines += [f"{figure} = {_value(value)}" for figure, value in figures.items()]
    write_atomically(path, lambda file: file.write("\n".join(lines) + "\n"))


def _check_figures(where: str, figures: object) -> None:
    if not isinstance(figures, dict):
        raise InputError(f"{where}: not a table of figures")
    for figure, value in figures.items():
        if figure not in FIGURES:
            raise InputError(f"{where}: unknown figure {figure!r}")
        numbers = (
            value.values() if figure in VERSION_FIGURES and isinstance(value, dict) else [value]
        )
        by_version = isinstance(value, dict) == (figure in VERSION_FIGURES)
        if not by_version or not all(map(_is_figure, numbers)):
            raise InputError(
                f"{where}: {figure} is no number, or not by Python version as it should"
            )


def _is_figure(value: object) -> bool:
    return type(value) in (int, float) and is_finite(value)  # type: ignore[arg-type]


def _limit(figures: Mapping[str, float | dict[str, float]], figure: str) -> float | None:
    value = figures.get(figure)
    return value.get(PYTHON) if isinstance(value, dict) else value


def _pythons(budget: Budget) -> set[str]:
    return {version for *_, versions in _by_python(budget) for version in versions}


def _of_python(budget: Budget, version: str) -> dict[tuple[str, str, str], float]:
    return {
        (cell, arm, figure): versions[version]
        for cell, arm, figure, versions in _by_python(budget)
        if version in versions
    }


def _by_python(budget: Budget) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    """Yield cell, arm and name of each figure that depends on the Python version, and it."""
    for cell, arms in budget.cells.items():
        for arm, figures in arms.items():
            for figure, value in figures.items():
                if isinstance(value, dict):
                    yield cell, arm, figure, value


def _key(text: str) -> str:
    plain = all(c.isascii() and (c.isalnum() or c in "-_") for c in text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _value(value: float | dict[str, float]) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f'"{version}" = {_value(number)}' for version, number in value.items())
        return f"{{ {inner} }}"
    return str(int(value)) if value == int(value) else repr(float(value))
