"""The steps of the gate that look at exact work: its budget, and its growth with the context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.arms.registry import FLOOR
from harness.arms.revision import ROOT
from harness.count.budget import (
    Budget,
    check,
    check_seed,
    is_counted,
    load_budget,
    other_pythons,
    parse_budget,
    raised_figures,
)
from harness.count.exactness import notes, unsteady_figures
from harness.count.growth import growth
from harness.count.work import Work
from harness.system import git
from stepbench_core.errors import InputError, NoBaselineError
from stepbench_core.input_files import read_input

from .config import GateConfig, Outcome, Step

# Figures whose growth with the context the gate bounds: work, and not memory.
_GROWING = ("native_calls", "tokens", "page_indices", "objects", "bytecodes")


def work(config: GateConfig, works: Sequence[Work]) -> Step:
    """Hold the counted work against the budget file, and the budget file against its base."""
    name = "exact work"
    path = Path(config.budget)
    command = (
        f"`stepbench count --scenario {config.scenario} --arms {','.join((*config.arms, FLOOR))} "
        f"--budget {path} --update`"
    )
    try:
        budget = load_budget(path)
        check_seed(budget, 0)
    except NoBaselineError:
        words = f"{path}: no such budget file; {command} writes one"
        return Step(name, Outcome.NOTHING_TO_COMPARE, words)
    except InputError as error:
        return Step(name, Outcome.NOTHING_TO_COMPARE, str(error))
    finding = check(budget, works, whole=True)
    lines = [
        f"- over budget: {one.cell}, {one.arm}: {one.figure} {one.actual:,.10g} per iteration, "
        f"budget {one.budget:,.10g}"
        for one in finding.excesses
    ]
    lines += [f"- {line}" for line in finding.missing]
    lines += [f"- {line}" for line in notes(works)]
    details = "\n".join(lines)
    if finding.excesses:
        return Step(name, Outcome.FOUND, f"{len(finding.excesses)} figures over budget", details)
    if finding.missing:
        words = (
            f"{path} and what was counted (all cells of scenario {config.scenario}, the arms "
            f"named, and the floor) differ in {len(finding.missing)} places; {command} writes what "
            "is counted"
        )
        return Step(name, Outcome.NOTHING_TO_COMPARE, words, details)
    words = f"{finding.checked:,} figures within their budget"
    if finding.unsteady:
        words += f"; {finding.unsteady} differ between two runs and were not compared"
    if not path.resolve().is_relative_to(ROOT):
        words += "; the file lies outside the project: not held against the base"
        return Step(name, Outcome.PASSED, words, details)
    before = _base_of(path, config.base)
    if before is None:
        return Step(name, Outcome.PASSED, words, details)
    if not is_counted(budget, works):
        below = f": {finding.below} figures are below it" if finding.below else ""
        not_counted = (
            f"{path} differs from {config.base} and is not what a whole `stepbench count --update` "
            f"writes{below}"
        )
        return Step(name, Outcome.NOTHING_TO_COMPARE, not_counted, details)
    raised = raised_figures(before, budget)
    if raised:
        words += f"; {len(raised)} budgets were raised"
    others = other_pythons(before, budget)
    if others:
        words += f"; those that changed for Python {', '.join(others)} can only be checked there"
    lines += [f"- raised: {line}" for line in raised]
    return Step(name, Outcome.PASSED, words, "\n".join(lines))


def growing(config: GateConfig, works: Sequence[Work]) -> Step:
    """Hold the growth of each arm's work with the context against its limit."""
    lines, checked = [], 0
    unsteady = unsteady_figures(works)
    for row in growth(works):
        limit = config.growth_of(row.arm)
        if limit is None or row.tokens is None or row.figure not in _GROWING:
            continue
        if (row.arm, row.figure) in unsteady:
            continue
        checked += 1
        if row.tokens > limit:
            lines.append(
                f"- {row.kind}, {row.arm}: {row.figure} grows with the context to the power of "
                f"{row.tokens:.3f}, limit {limit:g}"
            )
    if lines:
        return Step(
            "growth", Outcome.FOUND, f"{len(lines)} slopes over their limit", "\n".join(lines)
        )
    if not config.growth:
        return Step("growth", Outcome.PASSED, "no limit is configured: not checked")
    if not checked:
        words = "there is a limit, but no two cells that differ in their context alone"
        return Step("growth", Outcome.NOTHING_TO_COMPARE, words)
    return Step("growth", Outcome.PASSED, f"{checked} slopes within their limit")


def _base_of(path: Path, base: str) -> Budget | None:
    """Return the budgets of a file at a git revision; None if the file is as it was there.

    Without budgets where there was none to be read.
    """
    relative = path.resolve().relative_to(ROOT)
    text = git.read_at(base, f"./{relative}", ROOT)
    if text == read_input(path):
        return None
    try:
        return parse_budget(text or "", f"{base}:{relative}")
    except InputError:
        return Budget(0, {})
