"""What is around the arms of a command and decides what they do: environment and packages."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.arms.conditions import VERSIONS
from harness.arms.environment import ENVIRONMENT, Environment, to_json, with_environment
from harness.arms.registry import FLOOR
from harness.arms.sources import ArmSource, find_source
from harness.system.pool import FOREIGN_LIMIT, spread
from harness.verify.observation import imports_os, observe, packages, version_of
from stepbench_core.errors import InputError, WorkerError

from .foreign import origins

_OURS = "an arm of this project"

# The package that a provider's stand-ins come from.
_NATIVE = {"nanobind": {"stepbench_native"}, "tensorrt_llm": {"tensorrt_llm"}}


@dataclass(frozen=True)
class Surroundings:
    """What the arms of a command depend on beside their sources.

    Attributes:
        environments: what each arm read of the environment, of those that read any.
        versions: the versions of the packages that the measured code imports.
        unknown: why it is not known what an arm reads, of those that break when they are looked at.
    """

    environments: Mapping[str, Environment] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command line that repeats it, in the same environment."""
        line = shlex.join(["stepbench", *sys.argv[1:]])
        return with_environment(line, self.environments.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that the arms read, and that are set."""
        known = {
            name: None
            for each in self.environments.values()
            for name in (*each.values, *each.hidden, *each.others)
        }
        return tuple(name for name in known if name in os.environ)

    def concern(self, source: ArmSource) -> bool:
        """Return whether there is anything to tell of an arm's environment."""
        return bool(source.variables) or source.spec in {**self.environments, **self.unknown}

    def as_metadata(self) -> dict[str, str]:
        """Return what is noted with a measurement."""
        return {ENVIRONMENT: to_json(self.environments), VERSIONS: json.dumps(self.versions)}

    def origins(self, sources: Mapping[str, ArmSource]) -> dict[str, str]:
        """Return where each source is from, and what each arm reads of the environment."""
        found = origins(sources)
        for arm, environment in self.environments.items():
            found[arm] = f"{found.get(arm, _OURS)}, {environment.words()}"
        for arm, why in self.unknown.items():
            found[arm] = (
                f"{found.get(arm, _OURS)}, what it reads of the environment is unknown: {why}"
            )
        for arm, source in sources.items():
            read = self.environments.get(arm, Environment()).states()
            unread = [name for name in source.variables if name not in read]
            if unread and arm not in self.unknown:
                found[arm] += f", is not seen to read {', '.join(unread)}"
        return found


def find_surroundings(
    arms: Sequence[str], sources: Mapping[str, ArmSource], provider: str
) -> Surroundings:
    """Return what arms depend on.

    Args:
        arms: their names.
        sources: the sources of those that are named by where their source is.
        provider: where the stand-ins come from.
    """
    known = {arm: sources.get(arm) or find_source(arm) for arm in arms if arm != FLOOR}
    seen, unknown = _observe({arm: each for arm, each in known.items() if imports_os(each)})
    imported = {name for source in known.values() for name in packages(source)}
    imported |= _NATIVE.get(provider, set())
    return Surroundings(
        {arm: each for arm, each in seen.items() if each},
        {name: version_of(name) for name in sorted(imported)},
        unknown,
    )


def _observe(
    sources: Mapping[str, ArmSource],
) -> tuple[dict[str, Environment], dict[str, str]]:
    """Return what each arm read of the environment, or why that is not known.

    In another process, in which the environment can be looked at and nothing is measured. An arm
    that breaks there breaks others only if they are in the same process.
    """
    alone = [(source,) for source in sources.values()]
    try:
        found = spread(observe, alone, 1, limit=FOREIGN_LIMIT)
        return dict(zip(sources, found, strict=True)), {}
    except (InputError, WorkerError) as error:
        if len(sources) == 1:
            return {}, dict.fromkeys(sources, str(error))
    each = [_observe({arm: source}) for arm, source in sources.items()]
    return (
        {arm: read for seen, _ in each for arm, read in seen.items()},
        {arm: why for _, unknown in each for arm, why in unknown.items()},
    )
