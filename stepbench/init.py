"""``stepbench init``."""

from __future__ import annotations

import json
import platform
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from harness.arms.packages import PackageArm, find_project, packages_of, read_arms
from harness.compare.duet import Duet
from harness.compare.run import compare_cell
from harness.gate.noise import propose_threshold, toml_line
from harness.gate.own import HEAD
from harness.gate.own_config import OwnGateConfig, load_own_config
from harness.system.cores import choose_cpus, keep_off, lock_cpu
from harness.system.files import write_atomically
from harness.verify.worlds import inspect
from reports.render.words import counted
from stepbench_core.errors import InputError
from subjects.base import Cell

from .messages import say
from .options import cpus_option, quiet_option
from .progress import CountingProgress
from .workflows import GITHUB, GITHUB_FILE, GITLAB

# What a file says that declares a function.
_MARK = "stepbench.step("
_PLACES = ("bench_*.py", "*/bench_*.py", "benchmarks/*.py", "benches/*.py")


@dataclass(frozen=True)
class _Found:
    """A function, with what is needed to time it against itself."""

    subject: str
    name: str
    cells: Sequence[Cell]
    arm: PackageArm
    description: Mapping[str, object]


@click.command()
@click.argument("subjects", nargs=-1, metavar="[FILE]...")
@click.option(
    "--base",
    default="origin/main",
    show_default=True,
    metavar="REVISION",
    help="What a change is held against.",
)
@click.option(
    "--ci",
    type=click.Choice(["github", "gitlab", "none"]),
    default="github",
    show_default=True,
    help="Which workflow to write, or to print (gitlab).",
)
@click.option("--no-run", is_flag=True, help="Propose no thresholds: time nothing.")
@click.option("-y", "--yes", is_flag=True, help="Write without asking.")
@cpus_option
@quiet_option
def command(
    *,
    subjects: tuple[str, ...],
    base: str,
    ci: str,
    no_run: bool,
    yes: bool,
    cpu: str | None,
    quiet: bool,
) -> int:
    """Set up a gate for functions of your own in your repository.

    Run it in the repository's folder. Without a FILE, all bench_*.py here and one folder down that
    declare a function with @stepbench.step. Each function is timed against itself, to see which
    thresholds the noise of this machine can carry. Then the configuration of the gate and a CI
    workflow are shown, and written if you agree.

    \b
    Examples:
      stepbench init
      stepbench init benchmarks/bench_join.py --base origin/trunk --yes
      stepbench init --no-run --ci none
    """
    target = Path("pyproject.toml") if Path("pyproject.toml").is_file() else Path("stepbench.toml")
    _refuse_second(target)
    names = subjects or _search()
    for name in names:
        if not name.isprintable():
            raise InputError(f"file {name!r} holds a character that cannot be printed")
    cores = choose_cpus(cpu)
    with tempfile.TemporaryDirectory(prefix="stepbench-") as folder:
        found = [
            each
            for number, name in enumerate(names)
            for each in _functions(name, Path(folder).resolve() / str(number))
        ]
        thresholds = {} if no_run else _thresholds(found, cores, quiet=quiet)
    table = "tool.stepbench.gate" if target.name == "pyproject.toml" else "gate"
    text = _configuration(table, names, base, thresholds)
    workflow = _workflow(ci, names)
    whole = _added(target, text)
    if workflow is not None and ci == "github" and Path(".github").is_file():
        raise InputError(
            ".github is a file: the workflow cannot be written; --ci none leaves it out"
        )
    click.echo(f"{target}:\n\n{text}")
    for name in (f"{each.name}: {', '.join(cell.name for cell in each.cells)}" for each in found):
        click.echo(f"checks {name}")
    if workflow is not None:
        click.echo(f"and {GITHUB_FILE}" if ci == "github" else f"\n{workflow}")
    if not yes and not click.confirm("Write it?", default=True, err=True):
        say("nothing was written")
        return 0
    # As it is, with its own ends of lines, and where a link leads.
    write_atomically(target.resolve(), lambda file: file.write(whole), "wb")
    written = [str(target)]
    if workflow is not None and ci == "github":
        path = Path(GITHUB_FILE)
        if path.exists():
            say(f"{path} is there already and was left alone")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda file: file.write(workflow))
            written.append(str(path))
    say(f"wrote {' and '.join(written)}; try it with: stepbench gate --base HEAD")
    return 0


def _refuse_second(target: Path) -> None:
    """Raise InputError where there is a configuration already."""
    for path in (target, Path("stepbench.toml")):
        if path.is_file() and load_own_config(path) is not None:
            raise InputError(f"{path}: it configures a gate already: change it there")


def _added(target: Path, text: str) -> bytes:
    """Return what a file holds with a table behind it. Raises InputError where that is no TOML."""
    try:
        before = target.read_bytes() if target.exists() else b""
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from None
    ends = b"\r\n" if b"\r\n" in before else b"\n"
    gap = ends if before and not before.endswith(ends * 2) else b""
    whole = before + gap + text.encode().replace(b"\n", ends)
    try:
        tomllib.loads(whole.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{target}: the table cannot be added, since it would be no TOML then: {error}"
        ) from None
    return whole


def _search() -> tuple[str, ...]:
    """Return the files here that declare a function. Raises InputError where there is none."""
    files = {path for pattern in _PLACES for path in Path().glob(pattern)}
    found = [str(path) for path in sorted(files) if _declares(path)]
    if not found:
        raise InputError(
            "no bench_*.py here declares a function with @stepbench.step: name a file, or write "
            "one (docs/subjects.md)"
        )
    return tuple(found)


def _declares(path: Path) -> bool:
    return path.is_file() and _MARK in path.read_text(errors="replace")


def _functions(subject: str, into: Path) -> list[_Found]:
    """Return the functions of a subject, with the packages of the work tree."""
    into.mkdir()
    project = find_project(subject)
    arms = read_arms(project, (HEAD,), into)
    description = {
        "file": str(project.file),
        "function": project.function,
        "packages": packages_of(arms.values()),
    }
    return [
        _Found(subject, name, cells, arms[HEAD], {**description, "function": name})
        for name, cells in inspect(description, arms[HEAD]).items()
    ]


def _thresholds(
    found: Sequence[_Found], cores: tuple[int, ...], *, quiet: bool
) -> dict[str, float]:
    """Return the thresholds above the default that the noise of this machine asks for."""
    pairs = [(each, cell) for each in found for cell in each.cells]
    seconds, default = OwnGateConfig.seconds, OwnGateConfig.threshold
    if not quiet:
        words = counted(len(pairs), "cell")
        say(f"timing {words} against themselves, up to {len(pairs) * seconds:.0f} s")
    raised = {}
    progress = CountingProgress(len(pairs), "cells", quiet=quiet)
    with lock_cpu(*cores), keep_off(*cores), progress:
        for each, cell in pairs:
            duet = Duet(
                each.arm,
                each.arm,
                (cell,),
                threshold=default,
                seconds=seconds,
                cpus=cores,
                comparisons=len(pairs),
                is_apart=each.arm.is_native,
                subject=each.description,
            )
            result = compare_cell(duet, cell, progress.describe)
            if result.failure is not None:
                raise InputError(result.failure)
            proposal = propose_threshold([result], each.name, default, len(pairs), seconds)
            if proposal is None or proposal.proposed is None:
                why = proposal.reason if proposal is not None else "too little was measured"
                say(f"{each.name}, {cell.name}: no threshold can be proposed here: {why}")
            elif proposal.is_raised:
                raised[f"{each.name}/{cell.name}"] = proposal.proposed
            progress.add(1)
    return raised


def _configuration(
    table: str, subjects: Sequence[str], base: str, thresholds: Mapping[str, float]
) -> str:
    lines = [
        f"[{table}]",
        f"subjects = {json.dumps(list(subjects))}",
        f"base = {json.dumps(base)}",
        "# How much slower matters, and how much more exact work, as fractions.",
        f"threshold = {OwnGateConfig.threshold!r}",
        f"work = {OwnGateConfig.work!r}",
    ]
    if thresholds:
        lines += ["# What the noise of the machine that wrote this hides in ten seconds."]
        lines += [toml_line(thresholds)]
    return "\n".join(lines) + "\n"


def _workflow(ci: str, subjects: Sequence[str]) -> str | None:
    python = ".".join(platform.python_version_tuple()[:2])
    text = {"github": GITHUB, "gitlab": GITLAB}.get(ci)
    return None if text is None else text.format(subjects=", ".join(subjects), python=python)
