"""The steps of the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from scenarios.catalogue import find_scenarios
from scenarios.errors import InputError, NoBaselineError

from .arms import FLOOR, REFERENCE, check_arms
from .budget import check, load_budget
from .counting import Work, count_cells
from .duet import CellResult, Duet, compare_cell
from .gate import GateConfig, Outcome, Step, check_patterns
from .growth import growth
from .loading import ArmOfSource, find_source
from .machine import keep_off
from .revision import ROOT, git
from .verdict import Kind
from .verification import Contest, Verification, play_briefly, verify

# Figures whose growth with the context the gate bounds: work, and not memory.
_GROWING = ("native_calls", "tokens", "page_indices", "objects", "bytecodes")

# What the modules of two revisions of an arm have in common.
_SHARED = ("connector/data.py", "connector/interfaces.py", "connector/log.py")

_OUTCOMES = {
    Kind.SLOWER: Outcome.FOUND,
    Kind.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    Kind.FASTER: Outcome.PASSED,
    Kind.NO_DIFFERENCE: Outcome.PASSED,
}


def run_gate(
    config: GateConfig,
    *,
    cpu: int | None,
    jobs: int,
    describe: Callable[[Verification], str],
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Yield what each step found, cheapest first; after arms that differ nothing is timed.

    Args:
        config: what to check.
        cpu: the core to time on; None for no pinning.
        jobs: processes for what is not timed.
        describe: says in Markdown what a verification found.
        progress: called with what is being done.

    Raises:
        InputError: an arm is unknown, or a pattern matches nothing.
    """
    check_arms(config.arms, floor=False)
    names = [scenario.name for scenario in find_scenarios(config.scenario)]
    check_patterns(config, names)
    gone = [cell for cell in config.cells if cell not in names]
    if gone:
        words = f"no such cell in scenario {config.scenario}: {', '.join(gone)}"
        yield Step("cells", Outcome.NOTHING_TO_COMPARE, words)
        return
    if git("rev-parse", "--verify", "--quiet", f"{config.base}^{{commit}}") is None:
        words = f"there is no git revision {config.base!r} here"
        yield Step("base", Outcome.NOTHING_TO_COMPARE, words)
        return
    progress("equivalence")
    step = equivalence(config, jobs, describe)
    yield step
    if step.outcome is Outcome.FOUND:
        return
    progress("exact work")
    try:
        arms = (*config.arms, FLOOR)  # Which is no arm, but has its budget as well.
        works = count_cells(find_scenarios(config.scenario), arms, jobs=jobs)
    except InputError as error:
        yield Step("exact work", Outcome.NOTHING_TO_COMPARE, str(error))
        return
    yield work(config, works)
    yield growing(config, works)
    yield from shared_code(config)
    changed = [arm for arm in config.arms if is_changed(config, arm)]
    with keep_off(cpu):
        for arm in config.arms:
            if arm in changed:
                yield from timing(config, arm, len(changed) * len(config.cells), cpu, progress)
            else:
                words = f"its source is that of {config.base}: not timed"
                yield Step(f"time of {arm}", Outcome.PASSED, words)


def equivalence(config: GateConfig, jobs: int, describe: Callable[[Verification], str]) -> Step:
    """Play random runs to the arms."""
    name = "equivalence"
    others = [arm for arm in config.arms if arm != REFERENCE]
    if not others:
        return Step(name, Outcome.PASSED, f"only {REFERENCE} is checked, the reference itself")
    found = verify(Contest.of(others), range(config.runs), 0, jobs=jobs)
    if found.failure is None:
        return Step(name, Outcome.PASSED, f"same outputs in {found.runs:,} random runs")
    arm = found.failure.difference.arm
    return Step(name, Outcome.FOUND, f"{arm} departs from {REFERENCE}", describe(found))


def work(config: GateConfig, works: Sequence[Work]) -> Step:
    """Hold the counted work against the budget file, and the budget file against its base."""
    name = "exact work"
    path = Path(config.budget)
    try:
        finding = check(load_budget(path), works, whole=True)
    except (InputError, NoBaselineError) as error:
        return Step(name, Outcome.NOTHING_TO_COMPARE, str(error))
    lines = [
        f"- over budget: {one.cell}, {one.arm}: {one.figure} {one.actual:,.10g} per iteration, "
        f"budget {one.budget:,.10g}"
        for one in finding.excesses
    ]
    lines += [f"- {line}" for line in finding.missing]
    details = "\n".join(lines)
    if finding.excesses:
        return Step(name, Outcome.FOUND, f"{len(finding.excesses)} figures over budget", details)
    if finding.missing:
        words = (
            f"{path} and what was counted (all cells of scenario {config.scenario}, the arms "
            f"named) differ in {len(finding.missing)} places"
        )
        return Step(name, Outcome.NOTHING_TO_COMPARE, words, details)
    if finding.below and _changed(path, config.base):
        return Step(
            name,
            Outcome.NOTHING_TO_COMPARE,
            f"{path} was changed by hand: {finding.below} figures are below it; "
            "`stepbench count --update` writes what is counted",
        )
    return Step(name, Outcome.PASSED, f"{finding.checked:,} figures within their budget")


def growing(config: GateConfig, works: Sequence[Work]) -> Step:
    """Hold the growth of each arm's work with the context against its limit."""
    lines, checked = [], 0
    for row in growth(works):
        limit = config.growth_of(row.arm)
        if limit is None or row.tokens is None or row.figure not in _GROWING:
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


def shared_code(config: GateConfig) -> Iterator[Step]:
    """Say what changed of the code that both sides of a duet share, and which it cannot see."""
    changed = [
        path
        for path in _SHARED
        if git("show", f"{config.base}:./{path}", strip=False) != _text(ROOT / path)
    ]
    if changed:
        words = f"not timed, since both sides of a duet share it: {', '.join(changed)}"
        yield Step("shared code", Outcome.INCONCLUSIVE, words)


def is_changed(config: GateConfig, arm: str) -> bool:
    """Return whether the source of an arm is not that of the base."""
    try:
        return find_source(f"git:{config.base}:{arm}").text != find_source(arm).text
    except NoBaselineError:
        return True


def timing(
    config: GateConfig,
    arm: str,
    comparisons: int,
    cpu: int | None,
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Hold an arm against itself at the base: its outputs, then its time, cell by cell.

    Args:
        config: what to check.
        arm: the arm.
        comparisons: how many cells of how many arms are timed together.
        cpu: the core to time on; None for no pinning.
        progress: called with what is being done.
    """
    name = f"time of {arm}"
    cells = {scenario.name: scenario for scenario in find_scenarios(config.scenario)}
    try:
        base, head = find_source(f"git:{config.base}:{arm}"), find_source(arm)
        found = play_briefly(Contest({arm: ArmOfSource(head)}, base.spec, ArmOfSource(base)))
    except (InputError, NoBaselineError) as error:
        yield Step(name, Outcome.NOTHING_TO_COMPARE, str(error))
        return
    if found.failure is not None:
        words = f"its outputs are not those of {base.spec}: {found.failure.difference.field}"
        yield Step(name, Outcome.FOUND, words)
        return
    scenarios = tuple(cells[cell] for cell in config.cells)
    duet = Duet(
        base,
        head,
        scenarios,
        config.threshold,
        config.seconds,
        cpu=cpu,
        comparisons=comparisons,
    )
    for scenario in scenarios:
        own = replace(duet, threshold=config.threshold_of(scenario.name, arm))
        result = compare_cell(own, scenario, progress)
        yield _timed(f"{name}, {scenario.name}", result)


def _timed(name: str, result: CellResult) -> Step:
    verdict = result.verdict
    if result.failure is not None:
        return Step(name, Outcome.FOUND, result.failure)
    words = verdict.kind.value
    if verdict.ratio is not None:
        ratio = verdict.ratio
        words += f": ratio {ratio.value:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
    if verdict.reason:
        words += f"; {verdict.reason}"
    return Step(name, _OUTCOMES[verdict.kind], words)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _changed(path: Path, base: str) -> bool:
    """Return whether a file differs from what it was at a git revision."""
    try:
        relative = path.resolve().relative_to(ROOT)
    except ValueError:
        return False
    before = git("show", f"{base}:./{relative}", strip=False)
    return before is not None and before != path.read_text(encoding="utf-8")
