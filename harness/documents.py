"""The JSON documents that commands write, besides the results file: told apart and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenarios.errors import InputError
from scenarios.scenario import from_dict

from .counting import FIGURES, Variation, Work
from .delegated import Delegated
from .files import damage
from .gate import Outcome, Step
from .sources import ArmSource

# The key that says which document it is, with the version of its format.
WORK = "stepbench_work_format"
VERIFICATION = "stepbench_verification_format"
GATE = "stepbench_gate_format"
FORMAT = 1

# Beyond it no figure is of this world.
_MOST = 1e15
_LEAST_REQUESTS = 1e-6

# What reading a document of another shape can raise.
DAMAGED = (InputError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError)


_WORDS = ("where", "command")


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
        origins, metadata: as of ``WorkFile``.
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


def check_format(path: Path, document: Mapping[str, Any], key: str, known: int) -> None:
    """Raise InputError unless a document has the version of its format that is known here."""
    version = document[key]
    if type(version) is not int or version != known:
        words = f"format {version!r}, this one reads {known}"
        raise InputError(f"{path}: written by another stepbench: {words}")


def load_work(path: Path, document: Mapping[str, Any]) -> WorkFile:
    """Return the counted work that a document holds. Raises InputError if it is damaged."""
    check_format(path, document, WORK, FORMAT)
    try:
        works = tuple(map(_work, document["work"]))
        _check(bool(works), "it holds no work")
        return WorkFile(path, text(document["python"]), works, *_about(document))
    except DAMAGED as error:
        raise damaged(path, error) from None


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
            *_about(document),
            missing,
        )
    except DAMAGED as error:
        raise damaged(path, error) from None


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


def damaged(path: Path, error: Exception) -> InputError:
    """Return what to raise where a document is not what its command writes."""
    return InputError(f"{path}: damaged: {damage(error)}")


def _about(document: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Return where arms are from, and what names the machine, the code and the command."""
    origins, metadata = document.get("origins", {}), document.get("metadata", {})
    for value in (*origins.values(), *(metadata[name] for name in metadata if name in _WORDS)):
        text(value)
    return origins, metadata


def _work(record: Mapping[str, Any]) -> Work:
    iterations, requests = whole(record["iterations"]), number(record["requests_mean"])
    _check(iterations > 0 and requests > _LEAST_REQUESTS, "a cell without iterations or requests")
    scenario, tokens = from_dict(record["scenario"]), number(record["tokens_mean"])

    def totals(means: Mapping[str, Any]) -> Counter[str]:
        # Sums of whole numbers, which the division by their number rounded.
        return Counter({name: round(number(mean) * iterations) for name, mean in means.items()})

    figures = {name: mean for name, mean in record["per_iteration"].items() if mean is not None}
    _check(figures.keys() <= set(FIGURES), "a figure that is unknown")
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


def _step(record: Mapping[str, Any]) -> Step:
    outcomes = {outcome.words: outcome for outcome in Outcome}
    outcome = outcomes[text(record["outcome"])]
    return Step(text(record["step"]), outcome, text(record["summary"]), text(record["details"]))


def text(value: object) -> str:
    """Return a text; raises ValueError for anything else."""
    _check(isinstance(value, str), f"{value!r} instead of a text")
    return str(value)


def whole(value: Any) -> int:  # noqa: ANN401
    """Return a whole number, not negative; raises ValueError for anything else."""
    _check(type(value) is int and 0 <= value < _MOST, f"{str(value)[:20]!r} instead of a number")
    return int(value)


def number(value: Any) -> float:  # noqa: ANN401
    """Return a number within reason; raises ValueError for anything else."""
    is_sane = type(value) in (int, float) and -_MOST < value < _MOST
    _check(is_sane, f"{str(value)[:20]!r} instead of a number")
    return float(value)


def arm_source(record: Mapping[str, Any]) -> ArmSource:
    """Return the arm that a file holds; raises ValueError where one of its texts is none."""
    return ArmSource(**{name: text(value) for name, value in record.items()})


def _check(is_right: bool, problem: str) -> None:
    if not is_right:
        raise ValueError(problem)
