"""Outputs of other types than this project's, as those of checkouts and forks are."""

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from connector.data import RequestData, SchedulerOutput
from harness.arms.outputs import field_names, overwrite
from harness.verify.episode import first_difference, left_out

EXPECTED = SchedulerOutput(cached_requests=[RequestData(3, [1, 2], [7], 5, 1)])


@dataclass(slots=True)
class Slotted:
    request_id: int = 3
    new_tokens: list[int] = field(default_factory=lambda: [1, 2])


class Named(NamedTuple):
    request_id: int = 3
    new_tokens: Any = [1, 2]  # noqa: RUF012


class Plain:
    def __init__(self) -> None:
        self.request_id = 3
        self.new_tokens = [1, 2]
        self._cache = {3: 4}


@dataclass
class Output:
    new_requests: list[Any] = field(default_factory=list)
    cached_requests: list[Any] = field(default_factory=list)


def other(request: object) -> Any:  # noqa: ANN401
    return Output(cached_requests=[request])


@pytest.mark.parametrize("make", [Slotted, Named, Plain])
def test_fields_are_compared_whatever_the_type(make: Any):  # noqa: ANN401
    assert first_difference(EXPECTED, other(make())) is None

    wrong = make()
    wrong.new_tokens[:] = [1, 3]
    found = first_difference(EXPECTED, other(wrong))
    wrong.new_tokens[:] = [1, 2]
    assert found == ("cached_requests[0].new_tokens", "[1, 2]", "[1, 3]")


@pytest.mark.parametrize("make", [Slotted, Named, Plain])
def test_what_one_side_lacks_is_left_out(make: Any):  # noqa: ANN401
    missing = {
        *("new_block_ids", "computed_position", "num_scheduled_tokens", "block_hashes"),
        *("priorities", "cache_salt", "new_block_ids_by_layer_group", "attention_dp_rank"),
    }
    assert left_out(EXPECTED, other(make())) == missing
    assert left_out(other(make()), EXPECTED) == missing
    assert left_out(EXPECTED, EXPECTED) == left_out(EXPECTED, KeyError()) == set()
    assert "_cache" in field_names(Plain())


def test_a_field_more_is_left_out_as_well():
    More = make_dataclass("More", [("iteration", int, 7)], bases=(SchedulerOutput,))  # noqa: N806
    more = More(cached_requests=EXPECTED.cached_requests)

    assert left_out(EXPECTED, more) == left_out(more, EXPECTED) == {"iteration"}
    assert first_difference(EXPECTED, more) is None


@pytest.mark.parametrize("request_like", [{"id": 3}, (3, [1, 2]), object()])
def test_where_nothing_can_be_compared_that_is_a_difference(request_like: object):
    found = first_difference(EXPECTED, other(request_like))

    wanted = ("cached_requests[0]", repr(EXPECTED.cached_requests[0]), repr(request_like))
    assert found == wanted


@pytest.mark.parametrize(
    ("one", "another", "difference"),
    [
        (np.array([1, 2]), np.array([1, 2]), None),
        (np.array([1, 2]), np.array([1, 3]), ("array([1, 2])", "array([1, 3])")),
        (np.array([1, 2]), np.array([1]), ("array([1, 2])", "array([1])")),
        # An array is no list, also where one element would compare as equal.
        ([1, 2], np.array([1, 2]), ("[1, 2]", "array([1, 2])")),
        ([1], np.array([1]), ("[1]", "array([1])")),
        ([1, 2], (1, 2), ("[1, 2]", "(1, 2)")),
        ([], None, ("[]", "None")),
    ],
)
def test_values_are_of_one_type(one: Any, another: Any, difference: tuple[str, str] | None):  # noqa: ANN401
    found = first_difference(other(Named(3, one)), other(Named(3, another)))

    wanted = None if difference is None else ("cached_requests[0].new_tokens", *difference)
    assert found == wanted


@pytest.mark.parametrize("make", [Slotted, lambda: Named(3, [1, 2]), Plain])
def test_lists_of_other_types_are_overwritten_too(make: Any):  # noqa: ANN401
    request = make()
    output = other(request)

    overwrite(output)

    kept: Sequence[int] = request.new_tokens
    assert list(kept) == [-99] * 3
    assert output.cached_requests == []
