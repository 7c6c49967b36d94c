"""What is told of mutants; the findings are made up."""

import json

import pytest

pytest.importorskip("cosmic_ray")

from harness.verify.mutants import Fate, Result
from harness.verify.mutation import Mutant
from reports.kinds.mutants import Teeth, render_json, render_one, render_text


def result(number: int, fate: Fate, why: str = "", before: str = "a | b") -> Result:
    return Result(Mutant(number, "DropCopy", 10 + number, before, "pass", 0, ""), fate, why)


RESULTS = (
    result(4, Fate.SURVIVED),
    result(1, Fate.KILLED, "run 0, report 1, new_requests: 3"),
    result(2, Fate.TIMED_OUT, "a run took more than 20 s"),
    result(3, Fate.INVALID, "no name"),
    result(5, Fate.EQUIVALENT, "no difference"),
)
TEETH = Teeth("batched", "connector/batched.py", range(300), 0, 5, RESULTS)


def test_survivors_are_listed_and_the_others_counted():
    assert render_text(TEETH).splitlines() == [
        "5 mutants of `batched`, each in up to 300 random runs of seed 0: 2 killed (1 by the time "
        "limit), 1 survived, 1 known to be equivalent, 1 that cannot be run.",
        "Score: 2 of 3 that can be killed (66.7%).",
        "",
        "Survivors, which differ from the arm in their source alone so far:",
        "",
        "| Mutant | Where | Operator | Before | After |",
        "| ---: | :--- | :--- | :--- | :--- |",
        "| 4 | `connector/batched.py:14` | DropCopy | `a \\| b` | `pass` |",
        "",
        "Sharpen the model of the runs, or put an equivalent one on record.",
    ]


def test_what_was_not_played_and_what_is_on_record_in_vain_is_said():
    part = Teeth("batched", "b.py", range(1), 7, 9, RESULTS[1:2], ("DropCopy: a -> b",))

    assert render_text(part).splitlines() == [
        "1 of the 9 mutants of `batched`, each in up to 1 random run of seed 7: 1 killed, "
        "0 survived, 0 known to be equivalent, 0 that cannot be run.",
        "Score: 1 of 1 that can be killed (100.0%).",
        "On record as equivalent, and no survivor: DropCopy: a -> b.",
    ]
    assert "Score" not in render_text(Teeth("batched", "b.py", range(1), 7, 9, ()))


def test_one_mutant_is_shown_with_both_sides():
    assert render_one(RESULTS[1]) == (
        "Mutant 1, DropCopy, line 11:\n  - a | b\n  + pass\n"
        "Killed: run 0, report 1, new_requests: 3.\n"
    )
    assert render_one(RESULTS[0]).endswith("\nSurvived.\n")


def test_json_has_each_mutant_in_order():
    document = json.loads(render_json(TEETH))

    assert (document["killed"], document["can_be_killed"]) == (2, 3)
    assert [one["number"] for one in document["mutants"]] == [1, 2, 3, 4, 5]
    assert document["mutants"][4]["fate"] == "equivalent"
    assert document["mutants"][4]["why"] == "no difference"
