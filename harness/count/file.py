"""What ``stepbench count --json`` prints, read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system.documents import (
    DAMAGED,
    FORMAT,
    about,
    check,
    check_format,
    damaged,
    number,
    text,
    whole,
)
from scenarios.scenario import from_dict

from .delegated import Delegated
from .work import FIGURES, Variation, Work

# The key that says which document it is, with the version of its format.
WORK = "stepbench_work_format"

_LEAST_REQUESTS = 1e-6


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


def load_work(path: Path, document: Mapping[str, Any]) -> WorkFile:
    """Return the counted work that a document holds. Raises InputError if it is damaged."""
    check_format(path, document, WORK, FORMAT)
    try:
        works = tuple(map(_work, document["work"]))
        check(bool(works), "it holds no work")
        return WorkFile(path, text(document["python"]), works, *about(document))
    except DAMAGED as error:
        raise damaged(path, error) from None


def _work(record: Mapping[str, Any]) -> Work:
    iterations, requests = whole(record["iterations"]), number(record["requests_mean"])
    check(iterations > 0 and requests > _LEAST_REQUESTS, "a cell without iterations or requests")
    scenario, tokens = from_dict(record["scenario"]), number(record["tokens_mean"])

    def totals(means: Mapping[str, Any]) -> Counter[str]:
        # Sums of whole numbers, which the division by their number rounded.
        return Counter({name: round(number(mean) * iterations) for name, mean in means.items()})

    figures = {name: mean for name, mean in record["per_iteration"].items() if mean is not None}
    check(figures.keys() <= set(FIGURES), "a figure that is unknown")
    return Work(
        scenario,
        text(record["arm"]),
        iterations,
        round(requests * iterations),
        round(tokens * requests * iterations),
        totals(record["calls_per_iteration"]),
        totals(figures),
        # Files of before do not say.
        delegated=_delegated(record.get("delegated", {})),
        variations=list(map(_variation, record.get("variations", []))),
    )


def _delegated(record: Mapping[str, Any]) -> Delegated:
    return Delegated(
        whole(record.get("bytecodes", 0)),
        list(map(text, record.get("threads", []))),
        list(map(text, record.get("processes", []))),
        bool(record.get("is_restless", False)),
    )


def _variation(record: Mapping[str, Any]) -> Variation:
    low, high = number(record["low"]), number(record["high"])
    return Variation(text(record["figure"]), low, high, bool(record["by_hash"]))
