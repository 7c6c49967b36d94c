"""One episode played to all arms, and what is made of a difference."""

import pytest

from connector.data import RequestData, SchedulerOutput
from harness.arms.registry import RegisteredArm, create_arm
from harness.verify.episode import Difference, compare_episode, first_difference
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

    found = play(fail)

    assert found is not None
    words = ("wrapped", 3, "exception", "none", "ZeroDivisionError('by nothing')")
    assert (found.arm, found.step, found.field, found.expected, found.actual) == words
    check_trace(found.trace, ["build_scheduler_output", "fail"], "ZeroDivisionError: by nothing")


def check_trace(trace: str, functions: list[str], last: str) -> None:
    """A traceback begins in the arm, not in what called it."""
    lines = trace.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == last
    named = [line.rpartition(", in ")[2] for line in lines if line.startswith("  File ")]
    assert named == functions


def test_a_reference_that_raises_is_the_difference_itself():
    def fail(report: int, _built: SchedulerOutput) -> None:
        if report == 2:
            raise ZeroDivisionError("by nothing")

    arms = {"incremental": RegisteredArm("incremental")}
    found, reached = compare_episode(EPISODE, lambda _dp: Wrapped(fail), arms, "the base")

    assert found is not None
    words = ("the base", 2, "exception", "none", "ZeroDivisionError('by nothing')")
    assert (found.arm, found.step, found.field, found.expected, found.actual) == words
    check_trace(found.trace, ["build_scheduler_output", "fail"], "ZeroDivisionError: by nothing")
    assert reached["report"] == 1


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        (Operation("reset", (0,)), "reset_request"),
        (Operation("leave", (0, 1)), "reset_request"),
        (Operation("external", (0, 2)), "record_new_matched_tokens"),
    ],
)
def test_an_arm_that_raises_when_it_is_told_something_differs(operation: Operation, call: str):
    class Deaf(Wrapped):
        def __init__(self) -> None:
            super().__init__(lambda *_: None)
            setattr(self, call, self.refuse)

        def refuse(self, *_: object) -> None:
            raise SystemExit("not me")

    # After the first report, or before it, where the prompt is scheduled.
    at = 2 if call == "record_new_matched_tokens" else 3
    operations = (*EPISODE.operations[:at], operation, *EPISODE.operations[at:])
    episode = Episode(EPISODE.setting, operations)

    found, _ = compare_episode(episode, REFERENCE, {"deaf": lambda _dp: Deaf()})

    assert found is not None
    assert (found.arm, found.step) == ("deaf", 1 if at == 2 else 2)
    assert (found.field, found.actual) == ("exception", "SystemExit('not me')")
    check_trace(found.trace, ["refuse"], "SystemExit: not me")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (None, "TypeError('no lists new_requests and cached_requests in a NoneType')"),
        (
            SchedulerOutput(cached_requests=None),  # type: ignore[arg-type]
            "TypeError('no lists new_requests and cached_requests in a SchedulerOutput')",
        ),
    ],
)
def test_what_is_no_output_is_a_difference(output: SchedulerOutput | None, words: str):
    class Empty(Wrapped):
        def build_scheduler_output(self, *_: object) -> SchedulerOutput | None:
            return output

    found, _ = compare_episode(EPISODE, REFERENCE, {"empty": lambda _dp: Empty(None)})

    assert found == Difference("empty", 1, "exception", "none", words, words_alone(words))


def words_alone(text: str) -> str:
    """The text of an exception as a traceback has it, where nothing led to it."""
    return text.replace("('", ": ").removesuffix("')")


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
