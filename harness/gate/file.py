"""What ``stepbench gate --json`` prints, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.system.documents import FORMAT, Metadata, Whole, decode

from .config import Outcome, Step

# The key that says which document it is, with the version of its format.
GATE = "stepbench_gate_format"


@dataclass(frozen=True)
class GateFile:
    """What ``stepbench gate --json`` printed.

    Attributes:
        path: where it was read.
        base: the revision that the arms were held against.
        steps: what was found.
        metadata: what names the machine, the code and the command.
        exit_code: what the command ended with.
    """

    path: Path
    base: str
    steps: tuple[Step, ...]
    metadata: Mapping[str, Any]
    exit_code: int

    @property
    def where(self) -> str:
        """The machine, the code and the stand-ins, in words."""
        return str(self.metadata["where"])

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return str(self.metadata["command"])


class _Step(msgspec.Struct, frozen=True):
    step: str
    outcome: Literal[
        "passed", "failed", "cannot be run here", "inconclusive", "nothing to compare with"
    ]
    summary: str
    details: str


class _Document(msgspec.Struct, frozen=True):
    base: str
    steps: tuple[_Step, ...]
    metadata: Metadata
    exit_code: Whole


def load_gate(path: Path, document: Mapping[str, Any]) -> GateFile:
    """Return what a gate found, as a document holds it. Raises InputError if it is damaged."""
    found = decode(path, document, GATE, FORMAT, _Document)
    outcomes = {outcome.words: outcome for outcome in Outcome}
    steps = (
        Step(each.step, outcomes[each.outcome], each.summary, each.details) for each in found.steps
    )
    return GateFile(path, found.base, tuple(steps), document["metadata"], found.exit_code)
