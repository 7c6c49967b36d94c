"""What is noted with a measurement about who measured where."""

import platform
from collections.abc import Sequence
from datetime import datetime

from harness.arms.conditions import PYTHON_BUILD, VERSIONS, python_build
from harness.arms.environment import ENVIRONMENT
from harness.arms.revision import DIRTY, REVISION, WHY_UNKNOWN, own_revision, revision_words
from harness.system.cores import describe, pinned
from harness.system.fingerprint import DIGEST, identity

from . import __version__
from .surroundings import Surroundings


def run_metadata(cpu: int | None) -> dict[str, str | int | float]:
    """Return version, revision, fingerprint and state of the machine, for the core measured on."""
    return {
        "stepbench_version": __version__,
        **identity(),
        **describe(cpu),
        PYTHON_BUILD: python_build(),
        **own_revision().as_metadata(),
    }


def described_code(provider: str, surroundings: Surroundings) -> dict[str, object]:
    """Return what names the machine, the code and the command, and nothing that changes by itself.

    Args:
        provider: where the stand-ins come from.
        surroundings: what the arms depend on beside their sources.
    """
    found = described_run((), provider, surroundings)
    names = ("where", "command", DIGEST, REVISION, DIRTY, WHY_UNKNOWN, ENVIRONMENT, VERSIONS)
    return {name: found[name] for name in names if name in found}


def described_run(
    cpus: Sequence[int], provider: str | None, surroundings: Surroundings, *more: str
) -> dict[str, object]:
    """Return the same with the command, the date and a sentence that says it all, as ``where``.

    Args:
        cpus: the cores measured on; none for no pinning. The governor is that of the last one.
        provider: where the stand-ins come from; None where there are none.
        surroundings: what the arms depend on beside their sources.
        more: what else belongs into the sentence.
    """
    found = run_metadata(cpus[-1] if cpus else None)
    parts = (
        f"stepbench {__version__}",
        f"revision {revision_words(found)}",
        f"Python {platform.python_version()}",
        f"host {platform.node()}",
        f"machine {found.get('stepbench_machine', 'unknown')}",
        pinned(*cpus),
    )
    native = () if provider is None else (f"stand-ins: provider {provider}",)
    words = "; ".join((", ".join(parts), *native, *more))
    return {
        **found,
        "python": platform.python_version(),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": surroundings.command,
        **surroundings.as_metadata(),
        "where": f"{words}.",
    }
