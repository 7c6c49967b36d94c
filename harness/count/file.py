"""What ``stepbench count --json`` prints, read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from harness.system.documents import DAMAGED, FORMAT, About, Number, check, damaged, decode
from scenarios.scenario import from_dict

from .delegated import Delegated
from .work import FIGURES, Variation, Work

# The key that says which document it is, with the version of its format.
WORK = "stepbench_work_format"


@dataclass(frozen=True)
class WorkFile:
    """What ``stepbench count --json`` printed.

    Attributes:
        path: where it was read.
        python: the Python that bytecodes and memory were counted on.
        works: the work, the arms of a cell one after the other.
        origins: where arms are from, of those that are named by where their source is.
        metadata: what names the machine, the code and the command; empty where it was not noted.
    """

    path: Path
    python: str
    works: tuple[Work, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class _Work(msgspec.Struct, frozen=True):
    scenario: dict[str, Any]
    arm: str
    iterations: Annotated[int, msgspec.Meta(ge=1)]
    requests_mean: Annotated[float, msgspec.Meta(gt=1e-6, lt=1e15)]
    tokens_mean: Number
    per_iteration: dict[str, Number | None]
    calls_per_iteration: dict[str, Number]
    # Files of before do not say.
    delegated: Delegated = msgspec.field(default_factory=Delegated)
    variations: list[Variation] = []

    def work(self) -> Work:
        """Return what was counted. Raises InputError or ValueError where that cannot be."""
        figures = {name: mean for name, mean in self.per_iteration.items() if mean is not None}
        check(figures.keys() <= set(FIGURES), "a figure that is unknown")
        requests = self.requests_mean * self.iterations
        return Work(
            from_dict(self.scenario),
            self.arm,
            self.iterations,
            round(requests),
            round(self.tokens_mean * requests),
            self._totals(self.calls_per_iteration),
            self._totals(figures),
            delegated=self.delegated,
            variations=self.variations,
        )

    def _totals(self, means: Mapping[str, float]) -> Counter[str]:
        # Sums of whole numbers, which the division by their number rounded.
        return Counter({name: round(mean * self.iterations) for name, mean in means.items()})


class _Document(About, frozen=True, kw_only=True):
    python: str
    work: Annotated[list[_Work], msgspec.Meta(min_length=1)]


def load_work(path: Path, document: Mapping[str, Any]) -> WorkFile:
    """Return the counted work that a document holds. Raises InputError if it is damaged."""
    found = decode(path, document, WORK, FORMAT, _Document)
    try:
        works = tuple(each.work() for each in found.work)
    except DAMAGED as error:
        raise damaged(path, error) from None
    return WorkFile(path, found.python, works, found.origins, found.metadata)
