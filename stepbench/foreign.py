"""Arms that a user names by where their source is: what commands have to know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.arms.loading import ArmOfSource, Need, lacks, probe
from harness.arms.needs import missing_for
from harness.arms.registry import ArmFactory, RegisteredArm, is_foreign
from harness.arms.shared_code import changed_shared_code
from harness.arms.sources import ArmSource, find_source
from harness.arms.variables import split_variables
from harness.system.pool import FOREIGN_LIMIT, spread
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError, NoBaselineError

from .messages import say

Scenario = SteadyDecode | TraceReplay


def find_sources(arms: Sequence[str]) -> dict[str, ArmSource]:
    """Return the source of each arm that is named by where that is, loaded once to see that it can.

    In another process: what is loaded may end it, or never come back.

    Raises:
        InputError: there is none, or it cannot be imported.
        WorkerError: it ends its process or hangs.
    """
    sources = {arm: find_source(arm) for arm in arms if is_foreign(arm)}
    alone = [(source,) for source in sources.values()]
    for _ in spread(probe, alone, 1, limit=FOREIGN_LIMIT, describe=lambda source: source.spec):
        pass
    for arm in sources:
        warn_of_shared_code(arm)
    return sources


def make_factories(arms: Sequence[str], sources: Mapping[str, ArmSource]) -> dict[str, ArmFactory]:
    """Return what makes each arm."""
    return {
        arm: ArmOfSource(sources[arm]) if arm in sources else RegisteredArm(arm) for arm in arms
    }


def check_unchanged(
    sources: Mapping[str, ArmSource], digests: Mapping[str, str], where: str
) -> None:
    """Raise NoBaselineError if a source is not what it was when a measurement began."""
    for arm, source in sources.items():
        if digests.get(arm) != source.digest:
            raise NoBaselineError(f"{where}: the source of {arm} has changed since")


def origins(sources: Mapping[str, ArmSource]) -> dict[str, str]:
    """Return where each source is from, with the beginning of its digest."""
    return {
        arm: f"{source.origin or source.filename}, sha256 {source.digest[:12]}"
        for arm, source in sources.items()
    }


def runnable(
    scenarios: Sequence[Scenario], factories: Mapping[str, ArmFactory]
) -> tuple[Scenario, ...]:
    """Return the cells that all arms can run, and say which are left out and why.

    Raises:
        InputError: there are none.
    """
    found = {arm: lacks(factory) for arm, factory in factories.items()}
    kept, words = [], ""
    for scenario in scenarios:
        missing = {arm: missing_for(scenario, lacking) for arm, lacking in found.items()}
        words = "; ".join(
            f"{arm} lacks {_listed(needs)}" for arm, needs in missing.items() if needs
        )
        if words:
            say(f"left out {scenario.name}: {words}")
        else:
            kept.append(scenario)
    if not kept:
        raise InputError(f"no cell is left that all arms can run: {words}")
    return tuple(kept)


def _listed(needs: Sequence[Need]) -> str:
    return ", ".join(need.value for need in needs)


def warn_of_shared_code(spec: str) -> None:
    """Say what an arm of a revision of this project does not have from there."""
    kind, _, rest = split_variables(spec)[1].partition(":")
    changed = changed_shared_code(rest.rpartition(":")[0]) if kind == "git" else []
    if changed:
        say(f"{spec}: {', '.join(changed)} changed since, and is today's for all arms")
