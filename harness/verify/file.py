"""What ``stepbench verify --json`` prints, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.system.documents import FORMAT, About, Whole, decode

# The key that says which document it is, with the version of its format.
VERIFICATION = "stepbench_verification_format"


class Found(msgspec.Struct, frozen=True):
    """How an arm differs.

    Attributes:
        arm: the arm.
        run: the run in which it does.
        step: the report after which it does.
        field: what differs.
        expected: what the arm that is right has there.
        actual: what this one has.
        operations: the shortest list of operations that shows it.
        repeat: the command that repeats it.
        reported: the report whose output did not stay its reader's own, if that is the difference.
    """

    arm: str
    run: Whole
    step: Whole
    field: str
    expected: str
    actual: str
    operations: list[str]
    repeat: str
    reported: Whole | None = None


class Unknown(msgspec.Struct, frozen=True):
    """What an arm uses that is not here, in one line."""

    arm: str
    message: str


class _Document(About, frozen=True, kw_only=True):
    arms: tuple[str, ...]
    against: str
    seed: Whole
    runs: Whole
    reports: Whole
    difference: Found | None
    uncovered: tuple[str, ...]
    missing: Unknown | None = None


@dataclass(frozen=True)
class VerificationFile:
    """What ``stepbench verify --json`` printed.

    Attributes:
        path: where it was read.
        arms: the arms that were verified.
        against: the arm that is right.
        seed: the seed of the runs.
        runs: how many there were.
        reports: how many outputs of each arm were compared.
        difference: how an arm differs; None if none does.
        uncovered: what too few of the runs reached.
        missing: what an arm uses that is not here; None where all ran.
        origins, metadata: as of ``harness.count.file.WorkFile``.
    """

    path: Path
    arms: tuple[str, ...]
    against: str
    seed: int
    runs: int
    reports: int
    difference: Found | None
    uncovered: tuple[str, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    missing: Unknown | None = None


def load_verification(path: Path, document: Mapping[str, Any]) -> VerificationFile:
    """Return the verification that a document holds. Raises InputError if it is damaged."""
    found = decode(path, document, VERIFICATION, FORMAT, _Document)
    return VerificationFile(
        path,
        found.arms,
        found.against,
        found.seed,
        found.runs,
        found.reports,
        found.difference,
        found.uncovered,
        found.origins,
        found.metadata,
        found.missing,
    )
