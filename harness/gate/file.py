"""What ``stepbench gate --json`` prints, read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.system.documents import DAMAGED, FORMAT, check_format, damaged, text, whole

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


def load_gate(path: Path, document: Mapping[str, Any]) -> GateFile:
    """Return what a gate found, as a document holds it. Raises InputError if it is damaged."""
    check_format(path, document, GATE, FORMAT)
    try:
        metadata = document["metadata"]
        text(metadata["where"])
        text(metadata["command"])
        return GateFile(
            path,
            text(document["base"]),
            tuple(map(_step, document["steps"])),
            metadata,
            whole(document["exit_code"]),
        )
    except DAMAGED as error:
        raise damaged(path, error) from None


def _step(record: Mapping[str, Any]) -> Step:
    outcomes = {outcome.words: outcome for outcome in Outcome}
    outcome = outcomes[text(record["outcome"])]
    return Step(text(record["step"]), outcome, text(record["summary"]), text(record["details"]))
