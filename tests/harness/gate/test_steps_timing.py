"""What the gate times, and what it makes of verdicts; the verdicts are made up."""

from collections.abc import Callable

import pytest

from harness.arms.revision import ROOT
from harness.compare.figure import Kind
from harness.compare.verdict import Verdict
from harness.gate import steps as gate_steps
from harness.gate.config import Outcome, Step
from harness.stats.estimates import Estimate
from harness.verify.runs import Contest, Verification

from ..gate_worlds import (
    FOUND,
    INCONCLUSIVE,
    NOTHING,
    PASSED,
    REFERENCE_CELLS,
    World,
    before,
    outcomes,
    run,
)

RATIO = Estimate(1.0312, 1.0201, 1.0423)


@pytest.mark.parametrize(
    ("verdict", "outcome", "words"),
    [
        (Verdict(Kind.SLOWER, ratio=RATIO), FOUND, "slower: ratio 1.0312 (1.0201 to 1.0423)"),
        (Verdict(Kind.FASTER, ratio=RATIO), PASSED, "faster: ratio 1.0312 (1.0201 to 1.0423)"),
        (Verdict(Kind.NO_DIFFERENCE), PASSED, "no difference beyond 0.50%"),
        (Verdict(Kind.INCONCLUSIVE, "busy core"), INCONCLUSIVE, "inconclusive; busy core"),
        ("the worker hung", FOUND, "the worker hung"),
    ],
)
def test_an_arm_whose_source_changed_is_timed_in_each_cell(
    world: World, verdict: Verdict | str, outcome: Outcome, words: str
):
    world.base = before("batched")
    world.verdicts["v2-64x2048"] = verdict

    steps = run()

    times = {name: step for name, step in steps.items() if name.startswith("time of ")}
    assert outcomes(times) == {
        "time of batched, v2-16x8192": PASSED,
        "time of batched, v2-64x2048": outcome,
    }
    assert times["time of batched, v2-64x2048"].summary == words
    assert [(arm, cell) for arm, cell, *_ in world.timed] == [
        ("batched", cell) for cell in REFERENCE_CELLS
    ]
    duet = world.timed[0][-1]
    assert (duet.a.spec, duet.b.spec) == ("git:HEAD~1:batched", "batched")
    assert duet.a.text == f"{duet.b.text}\n_before = True\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: f"# Before.\n{text}",
        lambda text: text.replace('"""', '"""Before. ', 1),
        lambda text: text.replace("return data", "return  data"),
    ],
    ids=["comment", "docstring", "space"],
)
def test_words_about_an_arm_do_not_make_it_another(world: World, change: Callable[[str], str]):
    world.base = before("batched", change)
    assert world.base["connector/batched.py"] != (ROOT / "connector/batched.py").read_text()
    assert run()["time of batched"].summary == "its code is that of HEAD~1: not timed"


def test_thresholds_are_those_of_cell_and_arm(world: World):
    world.base = before("batched") | before("incremental")
    steps = run(
        arms=("batched", "incremental", "page-range"),
        threshold=0.01,
        thresholds={"v2-16*/batched": 0.03},
        seconds=2.5,
    )
    assert [timed[:3] for timed in world.timed] == [
        ("batched", "v2-16x8192", 0.03),
        ("batched", "v2-64x2048", 0.01),
        ("incremental", "v2-16x8192", 0.01),
        ("incremental", "v2-64x2048", 0.01),
    ]
    step = steps["time of batched, v2-16x8192"]
    assert step.summary == "no difference beyond 3.00%"
    assert step.cell is not None
    assert step.cell["threshold"] == 0.03
    duets = [duet for *_, duet in world.timed]
    assert {duet.seconds for duet in duets} == {2.5}
    # Each comparison is one more chance of a false alarm: two cells of the two arms that changed.
    assert {duet.rule.comparisons for duet in duets} == {4}


def test_an_arm_that_the_base_did_not_have_has_nothing_to_compare_with(world: World):
    world.base["connector/batched.py"] = None
    steps = run()
    assert steps["time of batched"].outcome is NOTHING
    assert "does not exist at revision HEAD~1" in steps["time of batched"].summary
    assert world.timed == []


def test_a_cell_that_is_gone_is_nothing_to_compare_with(world: World):
    world.base = before("batched")
    steps = run(cells=("v2-16x8192", "v2-1x1"))
    assert NOTHING in outcomes(steps).values()
    assert any("v2-1x1" in step.summary for step in steps.values())
    assert world.timed == []


def test_an_arm_whose_outputs_are_not_those_of_the_base_is_not_timed(world: World):
    def wrong(text: str) -> str:
        assert "1 + len(draft_tokens)" in text
        return text.replace("1 + len(draft_tokens)", "2 + len(draft_tokens)")

    world.base = before("batched", wrong)
    step = run()["time of batched"]
    assert step.outcome is FOUND
    assert step.summary.endswith(".num_scheduled_tokens")
    assert world.timed == []


def test_a_base_that_cannot_be_imported_is_nothing_to_compare_with(world: World):
    world.base = before("batched", lambda _text: "def (")
    step = run()["time of batched"]
    assert step.outcome is NOTHING
    assert "cannot be imported: SyntaxError" in step.summary


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("connector/interfaces.py", "# Before.\n"),
        ("connector/data.py", None),
        # What arms had in common, and have no more.
        ("connector/pages.py", "pages = []\n"),
    ],
)
def test_code_that_both_sides_share_is_no_pass(world: World, path: str, text: str | None):
    world.base[path] = text
    steps = run()
    assert [step.outcome for step in steps.values()].count(INCONCLUSIVE) == 1
    assert steps["shared code"].summary.startswith(
        f"not timed, since both sides of a duet share it: {path}; "
    )


def test_words_about_shared_code_are_no_change(world: World):
    path = "connector/interfaces.py"
    world.base[path] = "# Before.\n" + (ROOT / path).read_text()
    assert "shared code" not in run()


def test_a_base_that_moved_on_is_held_against_where_the_work_left_it(world: World):
    world.parted = "abc123def456" + "0" * 28
    world.revisions.append("abc123def456")
    world.base = before("batched")
    steps = run(base="HEAD~1")
    assert steps["base"] == Step(
        "base", PASSED, "HEAD~1 has moved on: held against abc123def456, where this work left it"
    )
    assert world.timed[0][-1].a.spec == "git:abc123def456:batched"


@pytest.mark.parametrize(("both", "outcome"), [(True, NOTHING), (False, FOUND)])
def test_an_arm_that_breaks_beside_its_base(
    world: World, monkeypatch: pytest.MonkeyPatch, both: bool, outcome: Outcome
):
    """It is the base's fault if that does not even run against itself."""

    def play(contest: Contest, **_: object) -> Verification:
        if both or "batched" in contest.arms:
            raise KeyError("reset")
        return Verification((), "", 0, 20, 100, None, {})

    monkeypatch.setattr(gate_steps, "play_briefly", play)
    world.base = before("batched")
    words = {NOTHING: "the base does not run: KeyError: 'reset'", FOUND: "KeyError: 'reset'"}
    assert run()["time of batched"] == Step("time of batched", outcome, words[outcome])
    assert world.timed == []
