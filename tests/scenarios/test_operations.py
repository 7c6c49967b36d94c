import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.operations import Operation, random_run
from scenarios.world import World

RUNS = [random_run(0, number) for number in range(20)]


def test_a_run_is_the_same_on_every_machine_and_python():
    assert random_run(0, 3) == RUNS[3]
    assert random_run(1, 3) != RUNS[3]
    digest = hashlib.sha256("\n".join(map(repr, RUNS)).encode()).hexdigest()
    assert digest == "56d9ecd91059bf1f178b61099ddee6045b66e93408b909c37721021da46f0874"


def test_a_run_shares_out_what_excludes_each_other():
    for episodes in RUNS:
        settings = [episode.setting for episode in episodes]
        assert {setting.manager for setting in settings} == {"v1", "v2"}
        assert {setting.attention_dp for setting in settings} == {True, False}
        assert max(len(setting.layer_groups) for setting in settings) > 1


@given(st.integers(0, 19), st.integers(0, 5), st.data())
def test_any_part_of_an_operation_list_can_be_played(run: int, number: int, data: st.DataObject):
    episode = RUNS[run][number]
    kept = data.draw(st.lists(st.booleans(), min_size=len(episode.operations)))
    world = World(episode.setting, [])
    reports = 0
    for operation, keep in zip(episode.operations, kept, strict=False):
        if keep and world.apply(operation):
            reports += 1
            world.finish_iteration()
    names = Counter(op.name for op, keep in zip(episode.operations, kept, strict=False) if keep)
    assert reports == names["report"]


def test_an_operation_is_printed_as_a_call():
    assert str(Operation("generate", (1, 3))) == "generate(1, 3)"
    assert str(Operation("report")) == "report()"


@pytest.mark.parametrize("told", [0, 1])
def test_the_arms_are_told_of_resets_and_of_external_loads(told: int):
    class Observer:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def record_new_matched_tokens(self, request: object, count: int) -> None:
            self.seen.append((request.request_id, count))

        def reset_request(self, request_id: int) -> None:
            self.seen.append(request_id)

    observer = Observer()
    world = World(RUNS[0][0].setting, [observer])
    for operation in (
        Operation("join", (9, 0, 0, 0, 0, 0)),
        Operation("chunk", (0, 5)),
        Operation("external", (0, 4)),
        Operation("trim", (0, 1)),
        Operation("reset", (0,)),
        Operation("leave", (0, told)),
    ):
        world.apply(operation)
    assert observer.seen == [(0, 4), 0, *([0] if told else [])]
