"""The steps of the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.arms.loading import ArmOfSource
from harness.arms.registry import FLOOR, REFERENCE, check_arms
from harness.arms.revision import ROOT
from harness.arms.shared_code import changed_shared_code, same_code
from harness.arms.sources import ArmSource, find_source
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.file import cell_document
from harness.compare.run import compare_cell
from harness.compare.verdict import verdict_words
from harness.count.budget import departures, load_budget
from harness.count.passes import count_cells
from harness.count.work import Work
from harness.system import git
from harness.system.cores import keep_off
from harness.verify.runs import Contest, Verification, play_briefly, verify
from scenarios.catalogue import find_scenarios
from stepbench_core.errors import (
    InputError,
    LostWorkerError,
    NoBaselineError,
    NotRunnableError,
    WorkerError,
)

from .config import GateConfig, Outcome, Step, check_patterns, loosened, parse_config, table_of
from .work import growing, work

_OUTCOMES = {
    Kind.SLOWER: Outcome.FOUND,
    Kind.INCONCLUSIVE: Outcome.INCONCLUSIVE,
    Kind.FASTER: Outcome.PASSED,
    Kind.NO_DIFFERENCE: Outcome.PASSED,
}


# What says nothing about an arm: what an arm raises comes as an error of its worker.
_OF_THE_MACHINE = (LostWorkerError, OSError, MemoryError)


def run_gate(
    config: GateConfig,
    *,
    file: Path | None = None,
    cpus: tuple[int, ...],
    jobs: int,
    limit: float | None,
    describe: Callable[[Verification], str],
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Yield what each step found, cheapest first.

    After arms that differ nothing is timed, nor after an arm that breaks or hangs.

    Args:
        config: what to check.
        file: where that is configured, to be held against the base; None leaves that out.
        cpus: the cores to time on; none for no pinning.
        jobs: processes for what is not timed.
        limit: seconds without any result after which one of them counts as hanging. With it all of
            the arms' code runs in processes of its own; None for no limit.
        describe: says in Markdown what a verification found.
        progress: called with what is being done.

    Raises:
        InputError: an arm is unknown, or a pattern matches nothing.
    """
    check_arms(config.arms, floor=False, foreign=False)
    names = [scenario.name for scenario in find_scenarios(config.scenario)]
    gone = [cell for cell in config.cells if cell not in names]
    if gone:
        words = f"no such cell in scenario {config.scenario}: {', '.join(gone)}"
        yield Step("cells", Outcome.NOTHING_TO_COMPARE, words)
        return
    check_patterns(config)
    try:
        commit = git.find_commit(config.base, ROOT)
        if commit is None:
            words = f"there is no git revision {config.base!r} here{git.why_missing(ROOT)}"
            yield Step("base", Outcome.NOTHING_TO_COMPARE, words)
            return
        # Where this work left it: what the base has got since is not this change's.
        parted = git.merge_base("HEAD", commit, ROOT)
    except git.GitError as error:
        yield Step("base", Outcome.NOTHING_TO_COMPARE, f"{config.base}: {error}")
        return
    if parted is not None and parted != commit:
        words = f"{config.base} has moved on: held against {parted[:12]}, where this work left it"
        yield Step("base", Outcome.PASSED, words)
        config = replace(config, base=parted[:12])
    if file is not None:
        yield from configuration(config, file)
    progress("equivalence")
    step = equivalence(config, jobs, limit, describe)
    yield step
    if step.outcome in (Outcome.FOUND, Outcome.CANNOT_RUN):
        return
    progress("exact work")
    try:
        works = count_all(config, jobs, limit)
    except NotRunnableError as error:
        yield Step("exact work", Outcome.CANNOT_RUN, str(error))
        return
    except InputError as error:
        yield Step("exact work", Outcome.NOTHING_TO_COMPARE, str(error))
        return
    except (Exception, SystemExit) as error:  # Foreign code can raise anything.
        yield broken("exact work", error, config.arms, lambda arm: count_all(config, 1, limit, arm))
        return
    yield work(config, works)
    yield growing(config, works)
    yield from shared_code(config)
    changed = [arm for arm in config.arms if is_changed(config, arm)]
    with keep_off(*cpus):
        for arm in config.arms:
            if arm in changed:
                comparisons = len(changed) * len(config.cells)
                yield from timing(config, arm, comparisons, cpus, limit, progress)
            else:
                words = f"its code is that of {config.base}: not timed"
                yield Step(f"time of {arm}", Outcome.PASSED, words)


def configuration(config: GateConfig, file: Path) -> Iterator[Step]:
    """Say what the gate checks no more, or less strictly, than as configured at the base."""
    if not file.resolve().is_relative_to(ROOT):
        return
    path = file.resolve().relative_to(ROOT)
    text = git.read_at(config.base, f"./{path}", ROOT)
    try:
        before = parse_config(text or "", f"{path}", table_of(path))
    except InputError:
        return  # There was none: this change brings it.
    gone, looser = loosened(before, config)
    name = "configuration"
    if gone:
        yield Step(name, Outcome.NOTHING_TO_COMPARE, f"no longer checked: {', '.join(gone)}")
    if looser:
        yield Step(name, Outcome.PASSED, f"less strict than at the base: {'; '.join(looser)}")


def equivalence(
    config: GateConfig,
    jobs: int,
    limit: float | None,
    describe: Callable[[Verification], str],
) -> Step:
    """Play random runs to the arms."""

    def play(arms: Sequence[str], jobs: int) -> Verification:
        return verify(Contest.of(arms), range(config.runs), 0, jobs=jobs, limit=limit)

    name = "equivalence"
    others = [arm for arm in config.arms if arm != REFERENCE]
    if not others:
        return Step(name, Outcome.PASSED, f"only {REFERENCE} is checked, the reference itself")
    try:
        found = play(others, jobs)
    except NotRunnableError as error:
        return Step(name, Outcome.CANNOT_RUN, str(error))
    except (Exception, SystemExit) as error:  # Foreign code can raise anything.
        return broken(name, error, (REFERENCE, *others), lambda arm: play([arm], 1))
    if found.failure is None:
        return Step(name, Outcome.PASSED, f"same outputs in {found.runs:,} random runs")
    difference = found.failure.difference
    words = f"{difference.arm} departs from {REFERENCE}"
    if difference.arm == REFERENCE:
        words = f"{REFERENCE}, the reference, {difference.failure}"
    return Step(name, Outcome.FOUND, words, describe(found))


def broken(
    name: str, error: BaseException, arms: Sequence[str], play: Callable[[str], object]
) -> Step:
    """Say how arms broke a step, and the first of them that does so alone.

    Where none does, it may be the machine, out of memory or too busy: that is inconclusive.

    Args:
        name: the step.
        error: what came of the arms together.
        arms: the arms.
        play: does the step with one arm, in one process.
    """
    for alone in arms:
        try:
            play(alone)
        except _OF_THE_MACHINE as own:
            return Step(name, Outcome.INCONCLUSIVE, f"{alone}: {in_words(own)}")
        except (Exception, SystemExit) as own:
            return Step(name, Outcome.FOUND, f"{alone}: {in_words(own)}")
    words = f"{in_words(error)}; but each arm by itself passes"
    return Step(name, Outcome.INCONCLUSIVE, words)


def in_words(error: BaseException) -> str:
    """Return an error on one line."""
    kind = "" if isinstance(error, InputError | WorkerError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split()).removesuffix(":")


def count_all(
    config: GateConfig, jobs: int, limit: float | None, arm: str | None = None
) -> list[Work]:
    """Count the work of the arms, or of one of them, in all cells of the scenario."""
    # The floor is no arm, but has its budget as well.
    arms = (*config.arms, FLOOR) if arm is None else (arm,)
    try:
        budget = load_budget(Path(config.budget))
    except (InputError, NoBaselineError):
        budget = None  # The step says so.
    doubt = partial(departures, budget)
    return count_cells(find_scenarios(config.scenario), arms, jobs=jobs, limit=limit, doubt=doubt)


def shared_code(config: GateConfig) -> Iterator[Step]:
    """Say what changed of the code that both sides of a duet share, and which it cannot see.

    That is all that arms can import of their package: the modules that are no arms.
    """
    changed = changed_shared_code(config.base)
    if changed:
        words = (
            f"not timed, since both sides of a duet share it: {', '.join(changed)}; run `stepbench "
            "speedup` at both revisions, on one quiet machine"
        )
        yield Step("shared code", Outcome.INCONCLUSIVE, words)


def is_changed(config: GateConfig, arm: str) -> bool:
    """Return whether the code of an arm is not that of the base."""
    try:
        before = find_source(f"git:{config.base}:{arm}").text
    except NoBaselineError:
        return True
    return not same_code(before, find_source(arm).text)


def timing(
    config: GateConfig,
    arm: str,
    comparisons: int,
    cpus: tuple[int, ...],
    limit: float | None,
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Hold an arm against itself at the base: its outputs, then its time, cell by cell.

    Args:
        config: what to check.
        arm: the arm.
        comparisons: how many cells of how many arms are timed together.
        cpus: the cores to time on; none for no pinning.
        limit: seconds that playing to them may take, in another process; None for no limit.
        progress: called with what is being done.
    """
    name = f"time of {arm}"
    cells = {scenario.name: scenario for scenario in find_scenarios(config.scenario)}
    try:
        base, head = find_source(f"git:{config.base}:{arm}"), find_source(arm)
        contest = Contest({arm: ArmOfSource(head)}, base.spec, ArmOfSource(base))
        found = play_briefly(contest, limit=limit)
    except NotRunnableError as error:
        yield Step(name, Outcome.CANNOT_RUN, str(error))
        return
    except (InputError, NoBaselineError) as error:
        yield Step(name, Outcome.NOTHING_TO_COMPARE, str(error))
        return
    except _OF_THE_MACHINE as error:
        yield Step(name, Outcome.INCONCLUSIVE, in_words(error))
        return
    except (Exception, SystemExit) as error:  # Foreign code can raise anything.
        yield _broken_by_either(name, base, error, limit)
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
        cpus=cpus,
        comparisons=comparisons,
    )
    for scenario in scenarios:
        own = replace(duet, threshold=config.threshold_of(scenario.name, arm))
        step = f"{name}, {scenario.name}"
        try:
            result = compare_cell(own, scenario, progress)
        except NotRunnableError as error:
            yield Step(step, Outcome.CANNOT_RUN, str(error))
            return
        except _OF_THE_MACHINE as error:
            yield Step(step, Outcome.INCONCLUSIVE, in_words(error))
            return
        yield timed(step, result, own.threshold)


def _broken_by_either(
    name: str, base: ArmSource, error: BaseException, limit: float | None
) -> Step:
    """Say how an arm or its base broke: without a base that runs there is nothing to compare."""
    alone = ArmOfSource(base)
    try:
        play_briefly(Contest({"base": alone}, "base", alone), limit=limit)
    except (Exception, SystemExit) as own:
        words = f"the base does not run: {in_words(own)}"
        return Step(name, Outcome.NOTHING_TO_COMPARE, words)
    return Step(name, Outcome.FOUND, in_words(error))


def timed(name: str, result: CellResult, threshold: float) -> Step:
    """Return the step of a cell that was timed."""
    verdict = result.verdict
    # What each process says and not their samples, which are ten times as much.
    left_out = dict.fromkeys(("samples", "background", "imports", "orders"))
    cell = {**cell_document(result), **left_out, "threshold": threshold}
    if result.failure is not None:
        return Step(name, Outcome.FOUND, result.failure, cell=cell)
    words = verdict_words(verdict, threshold)
    if verdict.ratio is not None:
        ratio = verdict.ratio
        words += f": ratio {ratio.value:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
    if verdict.reason:
        words += f"; {verdict.reason}"
    return Step(name, _OUTCOMES[verdict.kind], words, cell=cell)
