"""The documents that commands print as JSON, read back; and what is none of them."""

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.count.delegated import Delegated
from harness.count.file import WorkFile, load_work
from harness.count.work import Variation, Work
from harness.gate.config import Outcome, Step
from harness.gate.file import GateFile, load_gate
from harness.verify.file import Found, VerificationFile, load_verification
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError

CELL = SteadyDecode(requests=2, tokens=64)
PATH = Path("a folder/x.json")

WORK: dict[str, Any] = {
    "stepbench_work_format": 1,
    "python": "3.11",
    "work": [
        {
            "scenario": CELL.to_dict(),
            "arm": "batched",
            "iterations": 3,
            "requests_mean": 2.0,
            "tokens_mean": 65.0,
            # A third of 10 and of 7: no float is.
            "per_iteration": {"tokens": 10 / 3, "bytecodes": 7 / 3, "retained_bytes": None},
            "calls_per_iteration": {"get_tokens": 1 / 3},
        }
    ],
}
VERIFICATION: dict[str, Any] = {
    "stepbench_verification_format": 1,
    "arms": ["batched"],
    "against": "full-copy",
    "seed": 3,
    "runs": 300,
    "reports": 22_000,
    "difference": None,
    "uncovered": ["a shrink"],
}
DIFFERENCE: dict[str, Any] = {
    "arm": "batched",
    "run": 17,
    "step": 2,
    "field": "new_tokens",
    "expected": "[1]",
    "actual": "[]",
    "operations": ["join 0", "step"],
    "repeat": "stepbench verify batched --run 17",
}
GATE: dict[str, Any] = {
    "stepbench_gate_format": 1,
    "base": "origin/main",
    "exit_code": 4,
    "metadata": {"where": "stepbench 1.2.", "command": "stepbench gate", "python": "3.11"},
    "steps": [
        {"step": "equivalence", "outcome": "passed", "summary": "same", "details": ""},
        {"step": "growth", "outcome": "failed", "summary": "grew", "details": "| a |"},
        {"step": "budget", "outcome": "inconclusive", "summary": "?", "details": ""},
        {"step": "duet", "outcome": "nothing to compare with", "summary": "!", "details": ""},
    ],
}


def test_counted_work_is_whole_again():
    found = load_work(PATH, WORK)

    totals = Counter({"tokens": 10, "bytecodes": 7})
    work = Work(CELL, "batched", 3, 6, 390, Counter({"get_tokens": 1}), totals)
    assert found == WorkFile(PATH, "3.11", (work,))
    assert found.works[0].per_iteration("retained_bytes") is None


def test_what_was_told_of_counted_work_is_whole_again():
    told = {
        "variations": [{"figure": "bytecodes", "low": 1, "high": 2.5, "by_hash": True}],
        "delegated": {
            "bytecodes": 7,
            "threads": ["worker"],
            "processes": ["os.fork"],
            "is_restless": True,
        },
    }
    record = WORK["work"][0] | told

    (work,) = load_work(PATH, WORK | {"work": [record]}).works

    assert work.variations == [Variation("bytecodes", 1, 2.5, by_hash=True)]
    assert work.delegated == Delegated(7, ["worker"], ["os.fork"], is_restless=True)
    broken = record | {"delegated": {"threads": [3]}}
    with pytest.raises(
        InputError, match=r"expected str, got int at work\[0\]\.delegated\.threads\[0\]$"
    ):
        load_work(PATH, WORK | {"work": [broken]})


def test_a_verification():
    same = load_verification(PATH, VERIFICATION)
    different = load_verification(PATH, VERIFICATION | {"difference": DIFFERENCE})

    expected = (PATH, ("batched",), "full-copy", 3, 300, 22_000)
    assert same == VerificationFile(*expected, None, ("a shrink",))
    assert different == VerificationFile(*expected, Found(**DIFFERENCE), ("a shrink",))


def test_a_gate():
    found = load_gate(PATH, GATE)

    assert found == GateFile(
        PATH,
        "origin/main",
        (
            Step("equivalence", Outcome.PASSED, "same"),
            Step("growth", Outcome.FOUND, "grew", "| a |"),
            Step("budget", Outcome.INCONCLUSIVE, "?"),
            Step("duet", Outcome.NOTHING_TO_COMPARE, "!"),
        ),
        GATE["metadata"],
        4,
    )
    assert (found.where, found.command) == ("stepbench 1.2.", "stepbench gate")


LOADERS: dict[str, tuple[dict[str, Any], Callable[..., object]]] = {
    "work": (WORK, load_work),
    "verification": (VERIFICATION | {"difference": DIFFERENCE}, load_verification),
    "gate": (GATE, load_gate),
}

# Where in a document, and what stands there instead; None for nothing.
DAMAGE: list[tuple[str, tuple[str | int, ...], object]] = [
    ("work", ("python",), 3.11),
    ("work", ("work",), []),
    ("work", ("work",), 7),
    ("work", ("work", 0, "scenario"), {"kind": "steady"}),
    ("work", ("work", 0, "arm"), None),
    ("work", ("work", 0, "iterations"), 0),
    ("work", ("work", 0, "iterations"), 3.5),
    ("work", ("work", 0, "requests_mean"), 0),
    ("work", ("work", 0, "requests_mean"), "two"),
    ("work", ("work", 0, "tokens_mean"), float("nan")),
    ("work", ("work", 0, "per_iteration", "tokens"), float("inf")),
    ("work", ("work", 0, "per_iteration", "tokens"), "1"),
    ("work", ("work", 0, "per_iteration"), {"colour": 1.0}),
    ("work", ("work", 0, "calls_per_iteration"), []),
    ("verification", ("arms",), None),
    ("verification", ("arms",), [1]),
    ("verification", ("runs",), "300"),
    ("verification", ("runs",), -1),
    ("verification", ("difference", "field"), None),
    ("verification", ("difference", "operations"), [1]),
    ("verification", ("difference", "step"), True),
    ("verification", ("difference",), "none"),
    ("verification", ("metadata",), {"where": 3}),
    ("gate", ("base",), 1),
    ("gate", ("metadata",), None),
    ("gate", ("metadata",), []),
    ("gate", ("steps", 0, "outcome"), "survived"),
    ("gate", ("steps", 0, "details"), None),
    ("gate", ("steps", 0), "equivalence"),
    ("gate", ("exit_code",), "0"),
]


@pytest.mark.parametrize(("kind", "where", "instead"), DAMAGE)
def test_a_damaged_document_is_named(kind: str, where: tuple[str | int, ...], instead: object):
    document, loader = LOADERS[kind]
    document = copy.deepcopy(document)
    inner: Any = document
    for name in where[:-1]:
        inner = inner[name]
    if instead is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = instead

    with pytest.raises(InputError, match=r"^a folder/x\.json: damaged: ."):
        loader(PATH, document)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_another_version_is_refused(kind: str, version: object):
    document, loader = LOADERS[kind]
    key = next(iter(document))

    with pytest.raises(
        InputError, match=r"written by another stepbench: format .*, this one reads"
    ):
        loader(PATH, document | {key: version})


def test_the_words_of_an_outcome_are_all_different():
    words = [outcome.words for outcome in Outcome]

    others = ["cannot be run here", "inconclusive", "nothing to compare with"]
    assert words == ["passed", "failed", *others]
    assert json.dumps(words)


@pytest.mark.parametrize(
    ("kind", "where", "instead", "words"),
    [
        ("work", ("work", 0, "arm"), 3, "expected str, got int at work[0].arm"),
        ("work", ("work", 0, "iterations"), 0, "expected int >= 1 at work[0].iterations"),
        ("verification", ("difference", "step"), True, "expected int, got bool at difference.step"),
        (
            "gate",
            ("steps", 0),
            {"step": "x"},
            "object missing required field outcome at steps[0]",
        ),
    ],
)
def test_what_was_expected_is_named_with_its_place(
    kind: str, where: tuple[str | int, ...], instead: object, words: str
):
    document, loader = LOADERS[kind]
    document = copy.deepcopy(document)
    inner: Any = document
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = instead

    with pytest.raises(InputError) as refused:
        loader(PATH, document)

    assert str(refused.value) == f"a folder/x.json: damaged: {words}"
