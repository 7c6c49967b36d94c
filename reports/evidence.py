"""What the files handed to ``stepbench report`` hold, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from harness.compare.file import DUET, DuetFile, load_duet
from harness.count.file import WORK, WorkFile, load_work
from harness.gate.file import GATE, GateFile, load_gate
from harness.overlap.file import OVERLAP, OverlapFile, load_overlap
from harness.speedup.file import Results, parse
from harness.system.files import read_document
from harness.verify.file import VERIFICATION, VerificationFile, load_verification
from reports.speedup.summary import Summary, summarise

T = TypeVar("T")
File = Results | DuetFile | WorkFile | VerificationFile | GateFile | OverlapFile

_LOADERS: Mapping[str, Callable[[Path, Mapping[str, Any]], File]] = {
    DUET: load_duet,
    WORK: load_work,
    VERIFICATION: load_verification,
    GATE: load_gate,
    OVERLAP: load_overlap,
}


@dataclass(frozen=True)
class Evidence:
    """The files of a report, in the order in which they were named.

    Attributes:
        results: what ``stepbench speedup`` measured, or pytest-benchmark.
        duets: what ``stepbench compare`` did.
        works: what ``stepbench count`` counted.
        verifications: what ``stepbench verify`` found.
        gates: what ``stepbench gate`` found.
        overlaps: what ``stepbench overlap`` measured.
    """

    results: tuple[Results, ...] = ()
    duets: tuple[DuetFile, ...] = ()
    works: tuple[WorkFile, ...] = ()
    verifications: tuple[VerificationFile, ...] = ()
    gates: tuple[GateFile, ...] = ()
    overlaps: tuple[OverlapFile, ...] = ()

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """The figures of each of ``results``."""
        return tuple(map(summarise, self.results))

    def missing(self) -> list[str]:
        """Return what would belong to a whole report and is not there, with how to get it."""
        wanted = {
            "the gate (`stepbench gate -o`)": self.gates,
            "the speedup table (`stepbench speedup`)": self.results,
            "the verdict of a duet (`stepbench compare`)": self.duets or self.gates,
            "exact counts (`stepbench count --json`)": self.works,
            "equivalence (`stepbench verify --json`)": self.verifications or self.gates,
            "what is hidden under the forward (`stepbench overlap`)": self.overlaps,
        }
        return [what for what, files in wanted.items() if not files]


def read_evidence(paths: Sequence[Path]) -> Evidence:
    """Return what the files hold. Raises InputError, naming the file, for one that is none."""
    files = [_read(path) for path in paths]

    def of_kind(kind: type[T]) -> tuple[T, ...]:
        return tuple(file for file in files if isinstance(file, kind))

    return Evidence(
        of_kind(Results),
        of_kind(DuetFile),
        of_kind(WorkFile),
        of_kind(VerificationFile),
        of_kind(GateFile),
        of_kind(OverlapFile),
    )


def _read(path: Path) -> File:
    text, document = read_document(path)
    if isinstance(document, dict):
        for key, loader in _LOADERS.items():
            if key in document:
                return loader(path, document)
    return parse(path, text, document)
