"""Under which conditions results were measured, and in which of them two files differ.

These are what the fingerprint of the machine leaves out, since it may change on one machine:
results stay comparable, and a reader has to know of it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .environment import from_metadata

# Names of the metadata: the versions of the packages that the measured code imports, as JSON; and
# what tells two builds of one version of Python apart.
VERSIONS, PYTHON_BUILD = "stepbench_versions", "stepbench_python_build"

_UNKNOWN = "unknown"
_BOOTED = "booted"
# Beyond which two times of boot, in seconds, are two boots: it is read off a clock that is set.
_SAME_BOOT = 60.0

# State of the machine and of Python in which times of the same code differ, by field.
_STATES = {
    "hostname": "host",
    "boot_time": _BOOTED,
    "stepbench_kernel": "kernel",
    "python_version": "Python",
    PYTHON_BUILD: "Python build",
    "stepbench_governor": "governor",
    "stepbench_no_turbo": "no_turbo",
    "stepbench_boost": "boost",
    "stepbench_cpus_allowed": "allowed cores",
    "aslr": "address randomisation",
}


def python_build() -> str:
    """Return what tells builds of one version of Python apart."""
    return f"{' '.join(platform.python_build())}, {platform.python_compiler()}"


def conditions(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the conditions of a measurement by name; what is not noted is missing.

    Args:
        runs: the metadata of its processes. They differ where a measurement was carried on with.
    """
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        own = {name: str(run[key]) for key, name in _STATES.items() if key in run}
        if "python_version" in run:
            own["Python"] = f"{run.get('python_implementation', 'Python')} {own['Python']}"
        own |= _versions(run)
        for name, value in own.items():
            found.setdefault(name, {})[value] = None
    joined = {name: " and ".join(values) for name, values in found.items()}
    return joined | environments_of(runs)


def environments_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return what arms read of the environment, by variable and arm, of a measurement's runs."""
    found: dict[str, str] = {}
    for run in runs:
        for arm, environment in from_metadata(run).items():
            found |= {f"{name} of {arm}": state for name, state in environment.states().items()}
    return found


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return in which conditions two measurements differ, such as ``host a -> b``.

    Of a condition that one of them alone notes, it says that the other does not.
    """
    return [
        f"{name} {before.get(name, _UNKNOWN)} -> {after.get(name, _UNKNOWN)}"
        for name in {**before, **after}
        if not _are_alike(name, before.get(name, _UNKNOWN), after.get(name, _UNKNOWN))
    ]


def sentence(differing: Sequence[str]) -> list[str]:
    """Return a sentence on the conditions that differ; nothing where none does."""
    return [f"Other conditions differ: {'; '.join(differing)}."] if differing else []


def _are_alike(name: str, one: str, other: str) -> bool:
    if one == other:
        return True
    if name != _BOOTED:
        return False
    try:
        apart = datetime.fromisoformat(one) - datetime.fromisoformat(other)
    except (ValueError, TypeError):  # Not noted, or of several boots.
        return False
    return abs(apart.total_seconds()) <= _SAME_BOOT


def _versions(run: Mapping[str, Any]) -> dict[str, str]:
    try:
        found = json.loads(str(run.get(VERSIONS, "{}")))
        return {str(name): str(version) for name, version in found.items()}
    except (ValueError, AttributeError):
        return {}
