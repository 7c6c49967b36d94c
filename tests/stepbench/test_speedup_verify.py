"""What ``speedup`` does before it times anything: it looks whether the arms do the same."""

import json
from pathlib import Path

import pyperf
import pytest

from harness.speedup.isolated import measure
from harness.verify import runs as verification
from stepbench import speedup, verify

from .conftest import ONE, TINY, Run, stored_runs

PAIR = ("--cells", "1x8", "--quick", "--processes", "1", "--arms", "full-copy,incremental")
NOT_VERIFIED = "That the arms give the same outputs was not verified."
VERIFIED = "Before that, the arms gave the same outputs in 20 random runs."


@pytest.fixture
def wrong_arm(monkeypatch: pytest.MonkeyPatch):
    """Makes ``incremental`` ignore draft tokens, in this process alone."""
    monkeypatch.setattr("connector.incremental.get_draft_token_length", lambda _req: 0)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Plans that were measured."""
    plans: list[object] = []

    def note(plan: object, *rest: object) -> object:
        plans.append(plan)
        return measure(plan, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(speedup, "measure", note)
    return plans


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], str]]:
    """The arms, and what they were compared with, of each verification."""
    contests: list[tuple[tuple[str, ...], str]] = []
    play = verification.play_briefly

    def note(contest: verification.Contest, *, limit: float | None) -> verification.Verification:
        assert limit is None  # In this process: the arms are this project's own.
        contests.append((tuple(contest.arms), contest.against))
        return play(contest)

    monkeypatch.setattr(verification, "play_briefly", note)
    return contests


def stored_verified(path: str) -> set[object]:
    """How many runs each process in a results file was preceded by."""
    return {
        run.get_metadata().get("stepbench_verified_runs")
        for benchmark in pyperf.BenchmarkSuite.load(path)
        for run in benchmark.get_runs()
    }


@pytest.mark.usefixtures("wrong_arm")
def test_arms_that_differ_are_not_timed(
    run_here: Run, measured: list[object], monkeypatch: pytest.MonkeyPatch
):
    # In this process, where the arm is wrong.
    monkeypatch.setattr(verify, "_LIMIT", None)
    ran = run_here("speedup", *PAIR, "-o", "x.json")

    assert ran.code == 1
    assert measured == []
    assert list(Path().rglob("*")) == []
    assert ran.err == "stepbench: the arms differ, so they are not measured; --no-verify insists\n"
    lines = ran.out.splitlines()
    assert lines[0] == "Different: `incremental` departs from `full-copy` in run 0 of seed 0."
    assert any(line.endswith("].num_scheduled_tokens:") for line in lines)
    assert lines[-1].startswith(
        "Repeat with `stepbench verify incremental --against full-copy --seed 0 --run 0 --provider "
    )
    again = run_here("verify", *lines[-1].strip("`.").split()[4:], "-q", "--jobs", "1")
    assert again.code == 1
    # It is told what the first run is alone; all else is the same to the letter.
    assert again.out == ran.out


@pytest.mark.usefixtures("wrong_arm")
@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_the_difference_as_json(run_here: Run, measured: list[object], option: tuple[str, ...]):
    ran = run_here("speedup", *PAIR, "-q", *option)

    assert (ran.code, measured) == (1, [])
    document = json.loads(ran.out)
    assert (document["same"], document["against"]) == (False, "full-copy")
    assert document["difference"]["arm"] == "incremental"
    assert document["difference"]["field"].endswith(".num_scheduled_tokens")
    assert ran.err.count("\n") == 1
    assert [path for path in Path().rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("wrong_arm")
@pytest.mark.parametrize("style", ["terminal", "markdown", "csv"])
def test_the_difference_in_words_in_every_other_format(run_here: Run, style: str):
    ran = run_here("speedup", *PAIR, "-q", "--format", style)
    assert ran.code == 1
    assert ran.out.startswith("Different: `incremental` departs from `full-copy` in run 0 of ")


@pytest.mark.usefixtures("wrong_arm")
def test_a_results_file_that_would_be_overwritten_stays(run_here: Run, results: str):
    before = Path(results).read_bytes()
    assert run_here("speedup", *PAIR, "-q", "-o", results, "--force").code == 1
    assert Path(results).read_bytes() == before


@pytest.mark.usefixtures("wrong_arm")
def test_whoever_insists_gets_times_and_is_told(
    run_here: Run, measured: list[object], verified: list[object]
):
    ran = run_here("speedup", *PAIR, "-q", "-o", "x.json", "--no-verify")

    assert (ran.code, ran.err) == (0, "")
    assert (len(measured), verified) == (1, [])
    assert NOT_VERIFIED in ran.out
    assert VERIFIED not in ran.out
    assert stored_verified("x.json") == {0}
    assert NOT_VERIFIED in run_here("report", "x.json").out


def test_arms_that_do_the_same_are_timed_and_it_says_so(run_here: Run, verified: list[object]):
    ran = run_here("speedup", *PAIR, "-q", "-o", "x.json")

    assert (ran.code, ran.err) == (0, "")
    assert verified == [(("incremental",), "full-copy")]
    assert VERIFIED in ran.out
    assert NOT_VERIFIED not in ran.out
    assert stored_verified("x.json") == {20}


@pytest.mark.usefixtures("wrong_arm")
@pytest.mark.parametrize(
    ("arms", "against", "differs"),
    [
        ("incremental,batched,floor", "incremental", "batched"),
        ("floor,page-range,incremental", "page-range", "incremental"),
        ("all", "full-copy", "incremental"),
    ],
)
def test_the_others_are_held_against_the_first_proper_arm(
    run_here: Run, arms: str, against: str, differs: str
):
    ran = run_here("speedup", "--cells", "1x8", "-q", "--arms", arms)
    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{differs}` departs from `{against}` in run 0 of seed 0")


@pytest.mark.usefixtures("wrong_arm")
@pytest.mark.parametrize("arms", ["incremental", "floor", "incremental,floor"])
def test_an_arm_alone_has_nothing_to_differ_from(run_here: Run, verified: list[object], arms: str):
    ran = run_here("speedup", *ONE[:-2], "--arms", arms, "-q", "-o", "x.json")

    assert (ran.code, verified) == (0, [])
    assert NOT_VERIFIED not in ran.out
    assert "the arms gave the same outputs" not in ran.out
    assert stored_verified("x.json") == {0}


def drop_a_run(path: str) -> None:
    """Take the last process of an arm out of a file, as if it had not come to it."""
    document = json.loads(Path(path).read_text())
    del document["benchmarks"][1]["runs"][-1]
    Path(path).write_text(json.dumps(document))


@pytest.mark.usefixtures("wrong_arm")
def test_what_is_carried_on_with_is_verified_again(
    run_here: Run, results: str, measured: list[object]
):
    drop_a_run(results)
    before = Path(results).read_bytes()

    ran = run_here("speedup", "--resume", results, "-q")

    assert (ran.code, measured) == (1, [])
    assert ran.out.startswith("Different: `incremental` departs from `full-copy`")
    assert Path(results).read_bytes() == before


def test_whoever_insists_carries_on_and_the_whole_counts_as_not_verified(
    run_here: Run, request: pytest.FixtureRequest
):
    # Measured from here: a file of the installed script is carried on with by that alone.
    run_here("speedup", *TINY, "-q", "-o", "x.json", "--cpu", "none")
    assert stored_verified("x.json") == {20}
    whole = stored_runs("x.json")
    drop_a_run("x.json")
    kept = stored_runs("x.json")
    request.getfixturevalue("wrong_arm")

    ran = run_here("speedup", "--resume", "x.json", "-q", "--no-verify")

    assert ran.code == 0
    runs = stored_runs("x.json")
    assert runs.keys() == whole.keys()
    assert {key: runs[key] for key in kept} == kept
    assert stored_verified("x.json") == {0, 20}
    assert NOT_VERIFIED in ran.out
    assert VERIFIED not in ran.out


@pytest.mark.usefixtures("wrong_arm")
def test_bad_input_is_told_before_a_difference(run_here: Run):
    ran = run_here("speedup", *TINY, "--arms", "full-copy,incrementl")
    assert ran.code == 2
    assert ran.out == ""
    assert "did you mean 'incremental'?" in ran.err
