"""What ``stepbench verify --json`` prints, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system.documents import DAMAGED, FORMAT, about, check_format, damaged, text, whole

# The key that says which document it is, with the version of its format.
VERIFICATION = "stepbench_verification_format"


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
        difference: how an arm differs, by ``arm``, ``run``, ``step``, ``field``, ``expected``,
            ``actual``, ``operations`` and ``repeat``, and ``reported`` where it is an output that
            did not stay its reader's own; None if none does.
        uncovered: what too few of the runs reached.
        missing: what an arm uses that is not here, by ``arm`` and ``message``; None where all ran.
        origins, metadata: as of ``harness.count.file.WorkFile``.
    """

    path: Path
    arms: tuple[str, ...]
    against: str
    seed: int
    runs: int
    reports: int
    difference: Mapping[str, Any] | None
    uncovered: tuple[str, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] | None = None


def load_verification(path: Path, document: Mapping[str, Any]) -> VerificationFile:
    """Return the verification that a document holds. Raises InputError if it is damaged."""
    check_format(path, document, VERIFICATION, FORMAT)
    try:
        difference = document["difference"]
        if difference is not None:
            for name in ("arm", "field", "expected", "actual", "repeat"):
                text(difference[name])
            list(map(text, difference["operations"]))
            whole(difference["run"])
            whole(difference["step"])
            if difference.get("reported") is not None:
                whole(difference["reported"])
        missing = document.get("missing")
        if missing is not None:
            for name in ("arm", "message"):
                text(missing[name])
        return VerificationFile(
            path,
            tuple(map(text, document["arms"])),
            text(document["against"]),
            whole(document["seed"]),
            whole(document["runs"]),
            whole(document["reports"]),
            difference,
            tuple(map(text, document["uncovered"])),
            *about(document),
            missing,
        )
    except DAMAGED as error:
        raise damaged(path, error) from None
