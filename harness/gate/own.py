"""The steps of the gate of a project with functions of its own, cheapest first."""

from __future__ import annotations

import fnmatch
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.arms.packages import PackageArm, Project, find_project, packages_of, read_arms
from harness.compare.duet import Duet
from harness.compare.run import compare_cell
from harness.count.worlds import WorldWork, count_worlds, growths
from harness.system import git
from harness.system.cores import keep_off
from harness.verify.worlds import WorldsVerification, inspect, verify_worlds
from stepbench_core.errors import (
    ArmError,
    InputError,
    LostWorkerError,
    NotImportableError,
    WorkerError,
)
from subjects.base import Cell

from .config import Outcome, Step
from .own_config import OwnGateConfig
from .steps import in_words, timed

HEAD = "git:"
# Of these more is a finding: what is allocated depends on what was freed before.
_WORK = {"bytecodes": "bytecodes", "native_calls": "native calls"}
# What says nothing about the code.
_OF_THE_MACHINE = (LostWorkerError, OSError, MemoryError)


@dataclass(frozen=True)
class Function:
    """A function of the project, at its base and in the work tree.

    Attributes:
        name: the function.
        description: what a worker is told of it.
        cells: its cells that are checked.
        base: the arm of the base.
        head: the work tree's.
    """

    name: str
    description: Mapping[str, Any]
    cells: tuple[Cell, ...]
    base: PackageArm
    head: PackageArm


def run_own_gate(
    config: OwnGateConfig,
    folder: Path,
    *,
    cpus: tuple[int, ...],
    describe: Callable[[WorldsVerification, str], str],
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Yield what each step found.

    What did not change since the base is not run. A function whose outputs differ, or that breaks,
    is not timed.

    Args:
        config: what to check.
        folder: where the configuration lies: subjects are seen from there.
        cpus: the cores to time on; none for no pinning.
        describe: says in Markdown what a verification of a subject found.
        progress: called with what is being done.

    Raises:
        InputError: a subject or a pattern is none.
    """
    projects = [find_project(str(folder / subject)) for subject in config.subjects]
    try:
        commit = _parted(config.base, projects[0].root)
    except git.GitError as error:
        yield Step("base", Outcome.CANNOT_RUN, f"{error}")
        return
    except InputError as error:
        yield Step("base", Outcome.NOTHING_TO_COMPARE, f"{error}")
        return
    yield Step("base", Outcome.PASSED, f"held against {commit[:12]}, where {config.base} parted")
    with tempfile.TemporaryDirectory(prefix="stepbench-") as place:
        functions: list[Function] = []
        is_whole = True
        for number, project in enumerate(projects):
            own = Path(place).resolve() / f"subject-{number}"
            own.mkdir()
            progress(f"reading {project.file.name}")
            for step in _read(config, project, commit, own, functions):
                is_whole = False
                yield step
        if is_whole:  # Else a pattern may be about what could not be read.
            _check_patterns(config, functions)
        functions = [one for one in functions if one.cells]
        changed = [one for one in functions if one.base.digest != one.head.digest]
        for one in functions:
            if one not in changed:
                words = "its packages are those of the base: not run"
                yield Step(one.name, Outcome.PASSED, words)
        comparisons = sum(len(one.cells) for one in changed)
        for one in changed:
            yield from _check(config, one, comparisons, cpus, describe, progress)


def _parted(base: str, root: Path) -> str:
    """Return the commit at which the work tree and a base parted. Raises InputError without one."""
    commit = git.find_commit(base, root)
    if commit is None:
        raise InputError(f"there is no git revision {base!r} in {root}{git.why_missing(root)}")
    return git.merge_base("HEAD", commit, root) or commit


def _read(
    config: OwnGateConfig, project: Project, commit: str, into: Path, found: list[Function]
) -> Iterator[Step]:
    """Add the functions of a subject, or say why there are none."""
    base = f"git:{commit[:12]}"
    try:
        arms = read_arms(project, (base, HEAD), into)
        description = {
            "file": str(project.file),
            "function": project.function,
            "packages": packages_of(arms.values()),
        }
        functions = inspect(description, arms[HEAD])
    except NotImportableError as error:
        yield Step(project.file.name, Outcome.FOUND, in_words(error), _fenced(error.trace))
        return
    except InputError as error:
        yield Step(project.file.name, Outcome.CANNOT_RUN, in_words(error))
        return
    except WorkerError as error:
        yield _broken(project.file.name, error)
        return
    for name, cells in functions.items():
        chosen = tuple(
            cell
            for cell in cells
            if any(fnmatch.fnmatchcase(cell.name, pattern) for pattern in config.cells)
        )
        own = {**description, "function": name}
        found.append(Function(name, own, chosen, arms[base], arms[HEAD]))


def _check_patterns(config: OwnGateConfig, functions: Sequence[Function]) -> None:
    """Raise InputError where a pattern matches nothing: a slip would switch a check off."""
    cells = [cell.name for one in functions for cell in one.cells]
    timed_cells = [f"{one.name}/{cell.name}" for one in functions for cell in one.cells]
    sizes = [f"{one.name}/{size}" for one in functions for size in _sizes(one.cells)]
    for what, patterns, names in (
        ("cells", config.cells, cells),
        ("thresholds", config.thresholds, timed_cells),
        ("growth", config.growth, sizes),
    ):
        for pattern in patterns:
            if functions and not fnmatch.filter(names, pattern):
                known = ", ".join(names) or "what is checked"
                raise InputError(f"{what}: {pattern!r} matches none of {known}")


def _sizes(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the sizes of cells, which all have the same."""
    return list(cells[0].sizes) if cells else []


def _check(
    config: OwnGateConfig,
    function: Function,
    comparisons: int,
    cpus: tuple[int, ...],
    describe: Callable[[WorldsVerification, str], str],
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Compare outputs, count, and time a function, in that order."""
    name = f"{function.name}: outputs"
    progress(name)
    try:
        found = verify_worlds(
            function.description,
            function.base,
            [function.head],
            function.cells,
            runs=config.runs,
            steps=config.steps,
        )
    except (InputError, WorkerError, OSError) as error:
        yield _broken_by_either(name, config, function, error)
        return
    if found.difference is not None:
        differs = found.difference
        words = (
            f"not those of the base in cell {differs.cell}, step {differs.step}: {differs.place} "
            f"is {differs.actual} instead of {differs.expected}"
        )
        subject = f"{function.description['file']}::{function.name}"
        yield Step(name, Outcome.FOUND, words, describe(found, subject))
        return
    yield Step(name, Outcome.PASSED, f"the same in {found.outcomes:,} steps")
    progress(f"{function.name}: exact work")
    try:
        works = count_worlds(function.description, (function.base, function.head), function.cells)
    except (WorkerError, OSError) as error:
        yield _broken(f"{function.name}: exact work", error)
        return
    yield _work(config, function, works)
    yield from _growth(config, function, works)
    with keep_off(*cpus):
        yield from _timing(config, function, comparisons, cpus, progress)


def _work(config: OwnGateConfig, function: Function, works: Sequence[WorldWork]) -> Step:
    """Say by how much the work of a step grew or shrank, where most."""
    name = f"{function.name}: exact work"
    changes = []
    for before, after in zip(works[::2], works[1::2], strict=True):
        for figure, words in _WORK.items():
            if figure in before.unsteady + after.unsteady + before.hashed + after.hashed:
                continue
            old, new = before.figures[figure], after.figures[figure]
            if old or new:
                share = new / old - 1 if old else float("inf")
                changes.append((share, f"{words} in {before.cell.name}", old, new))
    if not changes:
        return Step(name, Outcome.PASSED, "nothing that could be counted exactly")
    share, where, old, new = max(changes)
    words = f"{share:+.1%} {where}, {old:,.1f} -> {new:,.1f} a step, where it grew most"
    if share <= 0:
        share_of_least, least, old, new = min(changes)
        words = f"no more anywhere; {share_of_least:+.1%} {least}, {old:,.1f} -> {new:,.1f} a step"
    is_more = share > config.work
    limit = f"; {config.work:.1%} is allowed" if is_more else ""
    return Step(name, Outcome.FOUND if is_more else Outcome.PASSED, f"{words}{limit}")


def _growth(
    config: OwnGateConfig, function: Function, works: Sequence[WorldWork]
) -> Iterator[Step]:
    """Hold the slopes of bytecodes against their limits, where there are any."""
    slopes = {
        each.size: each.slope
        for each in growths(works)
        if each.arm == HEAD and each.figure == "bytecodes"
    }
    for size in _sizes(function.cells):
        limit, name = config.growth_of(function.name, size), f"{function.name}: growth with {size}"
        if limit is None:
            continue
        if size not in slopes:
            words = f"no two of its cells differ in {size} alone"
            yield Step(name, Outcome.NOTHING_TO_COMPARE, words)
            continue
        words = f"slope of bytecodes {slopes[size]:.2f}, limit {limit:g}"
        outcome = Outcome.FOUND if slopes[size] > limit else Outcome.PASSED
        yield Step(name, outcome, words)


def _timing(
    config: OwnGateConfig,
    function: Function,
    comparisons: int,
    cpus: tuple[int, ...],
    progress: Callable[[str], None],
) -> Iterator[Step]:
    """Time a function in each cell, as it is against as it was."""
    duet = Duet(
        function.base,
        function.head,
        function.cells,
        seconds=config.seconds,
        cpus=cpus,
        comparisons=comparisons,
        is_apart=function.base.is_native or function.head.is_native,
        subject=function.description,
    )
    for cell in function.cells:
        own = replace(duet, threshold=config.threshold_of(function.name, cell.name))
        name = f"{function.name}: time, {cell.name}"
        try:
            result = compare_cell(own, cell, progress)
        except (InputError, *_OF_THE_MACHINE) as error:
            yield _broken(name, error)
            return
        yield timed(name, result, own.threshold)


def _broken_by_either(
    name: str, config: OwnGateConfig, function: Function, error: BaseException
) -> Step:
    """Say how a function broke: without a base that runs there is nothing to compare with."""
    try:
        verify_worlds(
            function.description,
            function.base,
            [function.base],
            function.cells,
            runs=config.runs,
            steps=config.steps,
        )
    except _OF_THE_MACHINE as own:
        return _broken(name, own)
    except (NotImportableError, WorkerError) as own:
        words = f"the base does not run: {in_words(own)}"
        trace = getattr(own, "trace", "")
        return Step(name, Outcome.NOTHING_TO_COMPARE, words, _fenced(trace) if trace else "")
    except InputError:
        pass  # What the two came to together says as much.
    if isinstance(error, NotImportableError):
        return Step(name, Outcome.FOUND, in_words(error), _fenced(error.trace))
    return _broken(name, error)


def _broken(name: str, error: BaseException) -> Step:
    if isinstance(error, InputError):
        return Step(name, Outcome.CANNOT_RUN, in_words(error))
    if isinstance(error, _OF_THE_MACHINE):
        return Step(name, Outcome.INCONCLUSIVE, in_words(error))
    details = _fenced(error.trace) if isinstance(error, ArmError) else ""
    return Step(name, Outcome.FOUND, in_words(error), details)


def _fenced(text: str) -> str:
    return f"```\n{text}\n```"
