"""One episode played to all arms, and what is made of a difference."""

from collections.abc import Sequence

import pytest

from connector.data import RequestData, SchedulerOutput
from harness.arms import RegisteredArm, create_arm
from harness.equivalence import Difference, compare_episode, first_difference, shorten
from scenarios.operations import Episode, Operation, Setting
from stubs.kv_cache_v2 import LayerGroup

REFERENCE = RegisteredArm("full-copy")
REPORT = Operation("report")

# A prompt of 6 tokens in a single chunk, then two iterations of one token each.
EPISODE = Episode(
    Setting("v2", 4, (LayerGroup(),), "list", attention_dp=False, overlap=False),
    (
        Operation("join", (6, 0, 0, 0, 0, 0)),
        *(Operation("chunk", (0, 6)), REPORT),
        *(Operation("generate", (0, 1)), REPORT),
        *(Operation("generate", (0, 1)), REPORT),
    ),
)


def output(*ids: int, rank: int | None = None, **fields: object) -> SchedulerOutput:
    """An output with cached requests; ``fields`` are those of the last one."""
    requests = [RequestData(number, [1, 2], [7], 5, 1) for number in ids]
    for name, value in fields.items():
        setattr(requests[-1], name, value)
    return SchedulerOutput(cached_requests=requests, attention_dp_rank=rank)


class Wrapped:
    """The arm incremental, with a mistake that a test makes in its outputs.

    Args:
        spoil: called with the number of the report, from 1, and the output.
    """

    def __init__(self, spoil: object) -> None:
        self._arm = create_arm("incremental")
        self._spoil = spoil
        self._reports = 0
        self.record_new_matched_tokens = self._arm.record_new_matched_tokens
        self.reset_request = self._arm.reset_request

    def build_scheduler_output(self, *state: object) -> SchedulerOutput:
        self._reports += 1
        built = self._arm.build_scheduler_output(*state)
        self._spoil(self._reports, built)
        return built


def play(spoil: object) -> Difference | None:
    return compare_episode(EPISODE, REFERENCE, {"wrapped": lambda _dp: Wrapped(spoil)})[0]


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (output(3, 4), None),
        (output(3, 4, new_tokens=[1]), ("cached_requests[1].new_tokens", "[1, 2]", "[1]")),
        # Of several differences the first in the order of the fields counts.
        (
            output(3, 4, priorities=[35], computed_position=6),
            ("cached_requests[1].computed_position", "5", "6"),
        ),
        (output(3, 4, priorities=[]), ("cached_requests[1].priorities", "None", "[]")),
        (output(4, 3), ("cached_requests[0].request_id", "3", "4")),
        (output(3), ("cached_requests.request_id", "[3, 4]", "[3]")),
        (output(3, 4, 5), ("cached_requests.request_id", "[3, 4]", "[3, 4, 5]")),
        (
            SchedulerOutput(new_requests=output(3, 4).cached_requests),
            ("new_requests.request_id", "[]", "[3, 4]"),
        ),
        (output(3, 4, rank=3), ("attention_dp_rank", "None", "3")),
        (KeyError("lost"), ("exception", "none", "KeyError('lost')")),
    ],
)
def test_the_first_difference_is_named_with_both_values(
    actual: SchedulerOutput | Exception, expected: tuple[str, str, str] | None
):
    assert first_difference(output(3, 4), actual) == expected


def test_equal_arms_play_an_episode_to_its_end():
    arms = {name: RegisteredArm(name) for name in ("incremental", "page-range", "batched")}

    difference, reached = compare_episode(EPISODE, REFERENCE, arms)

    assert difference is None
    assert (reached["report"], reached["new request"], reached["cached request"]) == (3, 1, 2)
    assert (reached["join"], reached["chunk"], reached["1 new tokens"]) == (1, 1, 2)
    assert reached["manager v2"] == reached["blocks of 4"] == reached["1 layer group"] == 1
    assert reached["manager v1"] == reached["attention DP"] == reached["window"] == 0


def test_a_mistake_is_found_at_the_report_where_it_is_made():
    def one_token_too_many(report: int, built: SchedulerOutput) -> None:
        if report == 2:
            built.cached_requests[0].num_scheduled_tokens += 1

    found = play(one_token_too_many)

    assert found == Difference("wrapped", 2, "cached_requests[0].num_scheduled_tokens", "1", "2")


def test_an_arm_that_raises_differs_from_one_that_does_not():
    def fail(report: int, _built: SchedulerOutput) -> None:
        if report == 3:
            raise ZeroDivisionError("by nothing")

    expected = Difference("wrapped", 3, "exception", "none", "ZeroDivisionError('by nothing')")

    assert play(fail) == expected


def test_a_list_that_is_handed_out_twice_is_found_once_it_is_overwritten():
    kept: list[list[int]] = []

    def hand_out_one_list(report: int, built: SchedulerOutput) -> None:
        requests = built.new_requests + built.cached_requests
        if report == 1:
            kept.append(requests[0].new_block_ids)
        elif report == 2:
            # Right, had nobody changed the list: the 7 tokens still fit into two blocks of 4.
            requests[0].new_block_ids = kept[0][2:]

    found = play(hand_out_one_list)

    # How many entries the consumer made of the two blocks does not matter, only that it shows.
    assert found is not None
    assert (found.step, found.field) == (2, "cached_requests[0].new_block_ids")
    assert found.expected == "[]"
    assert set(found.actual.strip("[]").split(", ")) == {"-99"}


def test_shortening_leaves_nothing_that_can_go():
    operations = [Operation("generate", (number % 5, number)) for number in range(30)]

    def fails(rest: Sequence[Operation]) -> bool:
        # Two operations in this order, and any third one.
        numbers = [operation.numbers[1] for operation in rest]
        return 9 in numbers and 21 in numbers[numbers.index(9) :] and len(rest) >= 3

    shortest = shorten(operations, fails)

    assert fails(shortest)
    assert len(shortest) == 3
    assert not any(fails(shortest[:i] + shortest[i + 1 :]) for i in range(3))
    assert {operation.numbers[0] for operation in shortest} == {0}


def test_shortening_keeps_a_prompt_and_a_chunk_of_at_least_one_token():
    operations = [Operation("join", (8, 5, 2, 1, 1, 1)), Operation("chunk", (4, 9)), REPORT]

    assert shorten(operations, lambda rest: len(rest) == 3) == [
        Operation("join", (1, 0, 0, 0, 0, 0)),
        Operation("chunk", (0, 1)),
        REPORT,
    ]
    assert shorten(operations, lambda _rest: True) == []
