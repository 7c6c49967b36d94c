import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.arms.loading import ArmOfSource
from harness.arms.registry import REFERENCE, RegisteredArm, SchedulerOutputManager
from harness.arms.sources import find_source
from harness.system.pool import spread
from harness.verify.runs import (
    INGREDIENTS,
    Contest,
    Verification,
    count_failing,
    find_failure,
    tasks,
    verify,
)
from harness.verify.wrong_arms import WRONG_ARMS
from reports.kinds.equivalence import render_json, render_text
from scenarios.operations import Episode
from stepbench_core.errors import WorkerError

LADDER = ("incremental", "page-growth", "page-range", "batched", "native-output")
SUBJECTS = Path(__file__).parent.parent / "subjects"

# Run, report and field of the first failure in runs 0 to 19 of seed 0, after shortening. Found by
# running; the runs are the same on every machine and Python version, and so must these be.
FIRST_FAILURES = {
    "count lowered on a shrink": (0, 4, "cached_requests[0].new_tokens"),
    "length from the kept list": (0, 2, "cached_requests[0].computed_position"),
    "base off by one at a block boundary": (0, 2, "cached_requests[0].new_tokens"),
    "pages read every tokens_per_block iterations": (0, 2, "cached_requests[0].new_block_ids"),
    "mask applied to new pages relative to their begin": (
        0,
        2,
        "cached_requests[0].new_block_ids_by_layer_group",
    ),
    "state kept after reset_request": (0, 2, "new_requests.request_id"),
    "aliased lists": (0, 2, "cached_requests[0].new_tokens"),
    "external load applied twice": (0, 1, "new_requests[0].computed_position"),
    "draft length ignored": (0, 2, "cached_requests[0].num_scheduled_tokens"),
    "priorities for all blocks": (0, 2, "cached_requests[0].priorities"),
    "block hashes of new blocks only": (0, 2, "cached_requests[0].block_hashes"),
    "external loads kept after the report": (0, 2, "cached_requests[0].computed_position"),
    "request being loaded is reported": (0, 1, "new_requests.request_id"),
    "dummies reported under attention DP": (0, 2, "cached_requests.request_id"),
    "transfer taken for generation": (0, 2, "cached_requests[0].computed_position"),
    "new whenever the prompt starts": (0, 1, "new_requests.request_id"),
    "hash chain that only ever grows": (0, 2, "cached_requests[0].block_hashes"),
    "hash chain handed out and written on": (0, 2, "new_requests[0].block_hashes"),
    "hash chain written in place": (0, 2, "new_requests[0].block_hashes"),
    "output used again": (0, 2, "new_requests"),
    "list of new requests used again": (0, 2, "new_requests"),
    "request data used again": (0, 2, "new_requests[0].new_tokens"),
    "one list for the hashes of all requests": (0, 1, "new_requests[0].block_hashes"),
    "record kept after reset_request": (0, 1, "new_requests[0].computed_position"),
    "reset_request put off to the end of the report": (0, 2, "new_requests.request_id"),
    "records added up": (0, 1, "new_requests[0].computed_position"),
    "first record kept": (0, 1, "new_requests[0].computed_position"),
    "record for new requests alone": (0, 2, "cached_requests[0].computed_position"),
}


def wrong(name: str) -> Contest:
    return Contest({name: WRONG_ARMS[name]}, REFERENCE, RegisteredArm(REFERENCE))


def test_the_whole_ladder_does_the_same_and_the_runs_reach_everything():
    found = verify(Contest.of(LADDER), range(300), 0, jobs=2)

    assert found.failure is None
    assert found.runs == 300
    assert found.reports > 300 * 6 * 10  # Six episodes of ten reports at the least.
    assert list(found.coverage) == list(INGREDIENTS)
    assert found.uncovered() == []


def test_an_ingredient_that_is_hardly_reached_is_an_error_of_the_model():
    coverage = dict.fromkeys(INGREDIENTS, 300) | {"rewind": 14, "sink": 15}
    enough = Verification(LADDER, REFERENCE, 0, 300, 1, None, coverage)
    few = Verification(LADDER, REFERENCE, 0, 299, 1, None, coverage)

    assert enough.uncovered() == ["rewind"]
    assert few.uncovered() == []


@pytest.mark.parametrize("name", WRONG_ARMS)
def test_a_wrong_arm_is_caught_and_its_failure_is_short(name: str):
    contest = wrong(name)

    failure = verify(contest, range(20), 7).failure

    assert failure is not None
    assert failure.difference.arm == name
    # What was shortened still fails, in the same way, and nothing of it can go.
    episode = Episode(failure.setting, failure.operations)
    assert contest.play(episode)[0] == failure.difference
    for index in range(len(failure.operations)):
        rest = failure.operations[:index] + failure.operations[index + 1 :]
        assert contest.play(Episode(failure.setting, rest))[0] is None
    # A report at the least, after a request joined.
    assert {"join", "report"} <= {operation.name for operation in failure.operations}


def test_every_wrong_arm_is_in_the_table():
    assert list(FIRST_FAILURES) == list(WRONG_ARMS)


@pytest.mark.parametrize("name", FIRST_FAILURES)
def test_the_first_failure_is_the_same_everywhere(name: str):
    failure = verify(wrong(name), range(20), 0).failure

    assert failure is not None
    found = failure.difference
    assert (failure.run, found.step, found.field) == FIRST_FAILURES[name]
    assert found.expected != found.actual


@pytest.mark.thorough
def test_the_result_does_not_depend_on_the_number_of_processes():
    contest = wrong("dummies reported under attention DP")
    alone, shared = (verify(contest, range(60), 3, jobs=jobs) for jobs in (1, 2))

    assert alone == shared
    assert alone.failure is not None
    assert find_failure(contest, alone.failure.run, 3) == alone.failure
    right = Contest.of(["incremental"])
    assert verify(right, range(60), 3, jobs=1) == verify(right, range(60), 3, jobs=2)


def test_runs_that_catch_a_wrong_arm_are_counted():
    parts = tasks(wrong("aliased lists"), range(30), 0)
    assert [len(runs) for _, runs, _ in parts] == [25, 5]
    assert list(spread(count_failing, parts, 2)) == [25, 5]
    assert count_failing(Contest.of(["incremental"]), range(3), 0) == 0


def test_an_arm_that_raises_is_reported_with_what_it_raised():
    class Raising:
        def __init__(self, _attention_dp: bool) -> None:
            pass

        def build_scheduler_output(self, *_: object) -> object:
            raise LookupError("no such page")

        def record_new_matched_tokens(self, *_: object) -> None:
            pass

        def reset_request(self, _: int) -> None:
            pass

    contest = Contest({"raising": Raising}, REFERENCE, RegisteredArm(REFERENCE))

    failure = verify(contest, range(1), 0).failure

    assert failure is not None
    assert failure.difference.step == 1
    assert failure.difference.field == "exception"
    assert failure.difference.actual == "LookupError('no such page')"


def test_a_failure_is_told_with_all_that_is_needed_to_repeat_it():
    found = verify(wrong("draft length ignored"), range(20), 1)
    failure = found.failure
    assert failure is not None

    text = render_text(found, coverage=False)

    lines = text.splitlines()
    assert lines[0] == (
        f"Different: `draft length ignored` departs from `full-copy` in run {failure.run} of "
        "seed 1."
    )
    assert lines[1].startswith("Setting: manager v")
    assert f"  1. {failure.operations[0]}" in lines
    assert f"After report {failure.difference.step}, field {failure.difference.field}:" in lines
    assert lines[-1] == (
        f"Repeat with `stepbench verify 'draft length ignored' --against full-copy --seed 1 "
        f"--run {failure.run} --provider python`."
    )
    assert f'"step": {failure.difference.step}' in render_json(found)


def test_an_arm_that_never_comes_back_is_no_harm_where_there_is_a_limit():
    hang = ArmOfSource(find_source(f"file:{SUBJECTS / 'hang.py'}"))
    contest = Contest({"hang": hang}, REFERENCE, RegisteredArm(REFERENCE))
    words = r"^runs 0 to 3: a process of play_runs hung: no result in 3 s$"
    with pytest.raises(WorkerError, match=words):
        verify(contest, range(4), 0, limit=3)


@dataclass(frozen=True)
class Elsewhere:
    """Makes a wrong arm, but not in the process that it comes from."""

    home: int

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        assert os.getpid() != self.home
        return WRONG_ARMS["aliased lists"](attention_dp)


def test_with_a_limit_nothing_is_played_here_and_the_same_is_found():
    here = wrong("aliased lists")
    found = verify(here, range(5), 0)
    assert found.failure is not None
    elsewhere = replace(here, arms={"aliased lists": Elsewhere(os.getpid())})
    assert verify(elsewhere, range(5), 0, limit=100) == found


def test_a_difference_that_does_not_come_again_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    """As where an arm looks at addresses: what was seen is told as it came."""
    contest = wrong("draft length ignored")
    seen = verify(contest, range(5), 3).failure
    monkeypatch.setattr("harness.verify.runs.find_failure", lambda *_: None)

    found = verify(contest, range(5), 3).failure

    assert seen is not None
    assert found is not None
    assert (found.run, found.difference.arm) == (seen.run, "draft length ignored")
    assert len(found.operations) > len(seen.operations)


def test_a_difference_that_hangs_while_it_is_shortened_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    def hang(*_: object) -> None:
        raise WorkerError("a process of find_failure hung")

    monkeypatch.setattr("harness.verify.runs.find_failure", hang)

    found = verify(wrong("draft length ignored"), range(5), 3).failure

    assert found is not None
    assert found.difference.field.endswith("num_scheduled_tokens")
