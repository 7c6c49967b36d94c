"""Connector modules of a checkout as arms: two revisions, older ones, and a fork."""

import pickle
import types
from dataclasses import replace

import pytest

from harness.arms.loading import CLASS, ArmOfSource, Need, lacks
from harness.arms.registry import RegisteredArm
from harness.count.work import count_work
from harness.verify.episode import Difference, compare_episode
from harness.verify.runs import Contest, Verification, verify
from scenarios.operations import Episode
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import ArmError

from ..checkouts import STEADY, V1, Checkout
from ..connectors import AFTER, BEFORE, OLD, OLD_PLACE, PLACE, WRONG, changed
from ..repositories import git


def held_against(
    reference: ArmOfSource | RegisteredArm, arm: ArmOfSource | RegisteredArm, runs: int = 8
) -> Verification:
    return verify(Contest({"arm": arm}, "base", reference), range(runs), 0)


@pytest.mark.thorough
def test_two_revisions_do_the_same_with_less_work(engine: Checkout):
    before, after = engine.add(BEFORE), engine.add(AFTER)

    found = held_against(before, after)

    assert (found.failure, found.not_played, found.left_out) == (None, {}, ())
    assert found.reports > 8 * 6 * 10
    scenario = SteadyDecode(requests=2, tokens=64, manager="v1", tokens_per_block=4)
    arms = {
        "before": before,
        "full-copy": RegisteredArm("full-copy"),
        "after": after,
        "incremental": RegisteredArm("incremental"),
    }
    works = {work.arm: work.totals for work in count_work(scenario, arms)}
    # Two requests in four iterations: every token at each, or the one that is new.
    assert works["before"]["tokens"] == 2 * (66 + 67 + 68 + 69)
    assert works["after"]["tokens"] == 2 * 4
    for own, ours in (("before", "full-copy"), ("after", "incremental")):
        for figure in ("tokens", "page_indices", "hashes", "priorities"):
            assert works[own][figure] == works[ours][figure], (own, figure)


@pytest.mark.parametrize("text", [BEFORE, AFTER], ids=["before", "after"])
def test_a_checkout_does_what_this_projects_reference_does(engine: Checkout, text: str):
    found = held_against(RegisteredArm("full-copy"), engine.add(text))

    assert (found.failure, found.not_played, found.left_out) == (None, {}, ())


def test_the_work_tree_is_held_against_a_revision(engine: Checkout):
    before = engine.add(BEFORE)
    (engine.root / PLACE).write_text(WRONG)

    failure = held_against(before, engine.work_tree()).failure

    assert failure is not None
    found = failure.difference
    assert (found.arm, found.field, found.actual, found.trace) == (
        *("arm", "cached_requests[0].num_scheduled_tokens", "1", ""),
    )
    assert {operation.name for operation in failure.operations} >= {"join", "generate", "report"}


def test_an_older_revision_is_held_against_a_newer_one(engine: Checkout):
    old, new = engine.add(OLD, OLD_PLACE), engine.add(AFTER)

    assert lacks(old) == frozenset(Need)
    assert lacks(new) == frozenset()
    for reference, arm in ((new, old), (old, new), (RegisteredArm("full-copy"), old)):
        found = held_against(reference, arm)
        assert found.failure is None
        assert set(found.not_played) == {need.value for need in Need}
        assert set(found.not_played.values()) <= set(range(1, 9))
        assert found.left_out == (
            *("attention_dp_rank", "block_hashes", "cache_salt"),
            *("new_block_ids_by_layer_group", "priorities"),
        )
        assert found.uncovered() == []


def test_a_mistake_of_an_older_revision_is_found_and_shortened(engine: Checkout):
    old = engine.add(OLD, OLD_PLACE)
    text = changed(OLD, ("blocks[old_blocks:]", "blocks[old_blocks + 1:]"))
    wrong = engine.add(text, OLD_PLACE)

    failure = held_against(RegisteredArm("full-copy"), wrong).failure

    assert failure is not None
    assert failure.difference.field == "new_requests[0].new_block_ids"
    assert [operation.name for operation in failure.operations] == ["join", "chunk", "report"]
    # What cannot be played with it is none of what led there.
    assert not {operation.name for operation in failure.operations} & {"reset", "load", "external"}
    assert held_against(old, old).failure is None


def test_what_is_shortened_is_what_was_played(engine: Checkout):
    old = engine.add(OLD, OLD_PLACE)
    # Beside the old one nobody is told of a reset; alone, this one would raise at the first.
    reset = "        self.requests.pop(request_id, None)\n"
    wrong = engine.add(changed(WRONG, (reset, "        del self.requests['nobody']\n")))
    contest = Contest({"old": old, "wrong": wrong}, "base", RegisteredArm("full-copy"))

    failure = verify(contest, range(5), 0).failure

    assert failure is not None
    assert failure.difference.arm == "wrong"
    assert failure.difference.field == "cached_requests[0].num_scheduled_tokens"
    assert not {operation.name for operation in failure.operations} & {"reset", "load", "external"}
    alone = replace(contest, arms={"wrong": wrong})
    # What comes first in a run is chance: in one of five it is the reset.
    failures = [verify(alone, [run], 0).failure for run in range(5)]
    differences = [each.difference for each in failures if each is not None]
    (raised, *_) = [each for each in differences if each.actual == "KeyError('nobody')"]
    assert "self.requests['nobody']" in raised.trace


def test_two_older_revisions_leave_no_field_out(engine: Checkout):
    first = engine.add(OLD, OLD_PLACE)
    second = engine.add(OLD + "\nMORE = True\n", OLD_PLACE)

    found = held_against(first, second)
    # Both lack the same fields: of different classes, and yet nothing of one is not in the other.
    assert (found.failure, found.left_out) == (None, ())


def test_the_rank_is_filled_in_where_the_engine_does_so(engine: Checkout):
    own = changed(
        AFTER,
        (
            "(self, *, enable_attention_dp: bool = False)",
            "(self, enable_attention_dp, attention_dp_rank)",
        ),
        ("SchedulerOutput()\n", "SchedulerOutput(attention_dp_rank=7)\n"),
    )
    filled_in, by_itself = engine.add(AFTER), engine.add(own)
    episode = Episode(replace(V1, attention_dp=True), STEADY)

    def play(arm: ArmOfSource) -> Difference | None:
        return compare_episode(episode, RegisteredArm("full-copy"), {"arm": arm})[0]

    assert play(filled_in) is None
    # The one that takes the rank says itself what it is.
    assert play(by_itself) == Difference("arm", 1, "attention_dp_rank", "3", "7")


def test_what_is_timed_is_the_method_of_the_checkout_itself(engine: Checkout):
    arm = engine.add(AFTER)
    build = arm(attention_dp=False).build_scheduler_output

    assert isinstance(build, types.MethodType)
    assert build.__func__ is vars(arm.module())[CLASS].build_scheduler_output


def test_work_that_gives_no_output_is_an_error_of_the_arm(engine: Checkout):
    arm = engine.add(changed(AFTER, ("        return output\n", "        yield output\n")))

    with pytest.raises(ArmError) as caught:
        count_work(SteadyDecode(requests=2, tokens=16), {"arm": arm})
    assert str(caught.value) == (
        "cell v2-2x16, arm arm, iteration 1: "
        "TypeError: no lists new_requests and cached_requests in a generator"
    )


@pytest.mark.thorough
def test_what_an_output_weighs_does_not_depend_on_what_its_arm_is_called(engine: Checkout):
    engine.add(AFTER)
    git(engine.root, "tag", "v1.2.0")
    arms = {"by tag": engine.at("v1.2.0"), "as it is": engine.work_tree()}

    scenario = SteadyDecode(requests=2, tokens=64, tokens_per_block=4)
    first, second = count_work(scenario, arms)

    assert first.totals["pickled_bytes"] > 0
    assert first.totals == second.totals


def test_an_arm_of_a_checkout_can_be_sent_to_another_process(engine: Checkout):
    arm = engine.add(AFTER)
    contest = Contest({"arm": arm}, "base", engine.add(BEFORE))

    alone, shared = (verify(contest, range(30), 0, jobs=jobs) for jobs in (1, 2))
    assert alone == shared
    assert alone.failure is None
    assert pickle.loads(pickle.dumps(arm)) == arm  # noqa: S301
