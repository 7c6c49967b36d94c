"""What is noted with a measurement about who measured where."""

from harness.fingerprint import identity
from harness.machine import describe
from harness.revision import own_revision

from . import __version__


def run_metadata(cpu: int | None) -> dict[str, str | int | float]:
    """Return version, revision, fingerprint and state of the machine, for the core measured on."""
    found: dict[str, str | int | float] = {
        "stepbench_version": __version__,
        **identity(),
        **describe(cpu),
    }
    revision = own_revision()
    if revision is not None:
        found["stepbench_revision"] = revision[0]
        found["stepbench_dirty"] = int(revision[1])
    return found
