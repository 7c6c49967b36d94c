"""Mutants that are played, and what is on record of them."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray")

from harness.arms.registry import ARMS
from harness.arms.sources import find_source
from harness.verify import mutants as module
from harness.verify.mutants import Fate, Known, Play, Result, play
from harness.verify.mutation import Mutant, mutants
from stepbench_core.errors import InputError

RECORD = Path(module.__file__).with_name("equivalent_mutants.toml")
SOURCE = find_source("page-growth")


def mutant(text: str) -> Mutant:
    return Mutant(1, "ours", 1, "before", "after", 0, text)


@pytest.mark.parametrize("arm", ARMS)
def test_each_entry_on_record_is_a_mutant_of_its_arm(arm: str):
    keys = {each.key for each in mutants(find_source(arm).text)}
    entries = tomllib.loads(RECORD.read_text())["mutant"]
    for entry in entries:
        if arm in entry["arms"]:
            key = (entry["operator"], entry["before"], entry["after"], entry.get("occurrence", 0))
            assert key in keys
            assert entry["reason"]
    assert {name for entry in entries for name in entry["arms"]} <= set(ARMS)


def test_what_becomes_of_a_mutant_is_told_with_its_reason():
    text = SOURCE.text
    given = {
        "the same": text + "\n",
        "broken": "1 +",
        "wrong": text.replace("num_tokens - 1", "num_tokens"),
        "gone": "import os\nos._exit(3)\n",
    }
    made = [replace(mutant(text), number=n) for n, text in enumerate(given.values())]

    found = {result.mutant.number: result for result in play(Play(SOURCE, range(2)), made, 2)}

    assert [found[number].fate for number in range(4)] == [
        Fate.SURVIVED,
        Fate.INVALID,
        Fate.KILLED,
        Fate.KILLED,
    ]
    assert "SyntaxError" in found[1].why
    assert ".computed_position: " in found[2].why
    assert found[3].why == "it ended its process"


def test_a_survivor_on_record_is_equivalent_and_an_entry_of_none_is_stale():
    known = Known(SOURCE)
    (alive,) = [each for each in mutants(SOURCE.text) if each.after.endswith(">= self.num_blocks")]
    survivor = Result(alive, Fate.SURVIVED)

    judged = known.judged(survivor)

    assert judged.fate is Fate.EQUIVALENT
    assert judged.why.startswith("a page list that is as long as before has nothing")
    killed = Result(alive, Fate.KILLED, "run 0")
    assert known.judged(killed) == killed
    words = f"{alive.operator}: {alive.before} -> {alive.after}"
    assert words in known.stale([killed])
    assert words not in known.stale([judged])


def test_there_is_no_record_of_other_arms():
    known = Known(replace(SOURCE, spec="file:page-growth"))
    assert known.stale([]) == []


def test_a_damaged_record_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "record.toml"
    path.write_text("mutant = 3")
    monkeypatch.setattr(module, "_EQUIVALENT", path)
    with pytest.raises(InputError, match="damaged"):
        Known(SOURCE)
