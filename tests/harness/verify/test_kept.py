"""A consumer that keeps outputs, or writes into them."""

from collections import namedtuple
from dataclasses import replace

import pytest

from connector.data import RequestData, SchedulerOutput
from harness.verify.kept import Change, Consumer

Named = namedtuple("Named", ["request_id", "new_tokens", "hashes"])


def output(*requests: RequestData) -> SchedulerOutput:
    return SchedulerOutput(cached_requests=list(requests))


def data(number: int = 0, **fields: object) -> RequestData:
    return replace(RequestData(number, [1, 2], [7], 5, 1, [8, 9]), **fields)


def test_outputs_that_nobody_touches_are_kept_and_then_overwritten():
    consumer = Consumer()
    first = output(data())
    assert consumer.take(first, 1, 2) is None
    assert consumer.take(output(data()), 2, 0) is None
    assert first.cached_requests[0].new_tokens == [1, 2]
    assert consumer.take(output(data()), 3, 0) is None
    assert first.cached_requests == []


def test_an_output_that_is_not_kept_is_overwritten_at_once():
    own = data()
    assert Consumer().take(output(own), 1, 0) is None
    assert own.new_tokens == [-99, -99, -99]


def first(kept: SchedulerOutput) -> RequestData:
    return kept.cached_requests[0]


BY_GROUP = "new_block_ids_by_layer_group"


@pytest.mark.parametrize(
    ("change", "field", "before", "after"),
    [
        (
            lambda kept: first(kept).block_hashes.append(3),
            "[0].block_hashes",
            "[8, 9]",
            "[8, 9, 3]",
        ),
        (lambda kept: setattr(first(kept), "cache_salt", "x"), "[0].cache_salt", "None", "'x'"),
        (
            lambda kept: kept.cached_requests[1].new_block_ids_by_layer_group[1].clear(),
            f"[1].{BY_GROUP}",
            "[[1], [2]]",
            "[[1], []]",
        ),
        (lambda kept: kept.cached_requests.pop(), "", "2 entries", "1 entries"),
    ],
)
def test_a_kept_output_that_changes_is_found_with_both_values(
    change: object, field: str, before: str, after: str
):
    consumer = Consumer()
    kept = output(data(), data(1, new_block_ids_by_layer_group=[[1], [2]]))
    assert consumer.take(kept, 4, 3) is None
    assert consumer.take(output(), 5, 0) is None

    change(kept)

    assert consumer.take(output(), 6, 0) == Change(4, f"cached_requests{field}", before, after)


def test_an_output_that_shares_a_list_with_a_kept_one_is_found_when_it_is_overwritten():
    shared: list[int] = []
    consumer = Consumer()
    assert consumer.take(output(data(new_tokens=shared)), 1, 2) is None

    found = consumer.take(output(data(new_tokens=shared)), 2, 0)

    assert found == Change(1, "cached_requests[0].new_tokens", "[]", "[-99]")


SHARED: list[int] = []


@pytest.mark.parametrize(
    ("requests", "field", "other"),
    [
        (
            [data(new_tokens=SHARED), data(new_block_ids=SHARED)],
            "cached_requests[1].new_block_ids",
            "cached_requests[0].new_tokens",
        ),
        (
            [data(new_block_ids_by_layer_group=[SHARED, SHARED])],
            "cached_requests[0].new_block_ids_by_layer_group[1]",
            "cached_requests[0].new_block_ids_by_layer_group[0]",
        ),
        (
            [Named(0, {0: SHARED, 1: [2]}, ()), Named(1, SHARED, ())],
            "cached_requests[1].new_tokens",
            "cached_requests[0].new_tokens[0]",
        ),
        ([data()] * 2, "cached_requests[1]", "cached_requests[0]"),
    ],
)
def test_a_list_that_stands_in_two_places_is_found(
    requests: list[RequestData], field: str, other: str
):
    found = Consumer().take(output(*requests), 3, 1)

    assert found == Change(3, field, "its own", f"shared with {other}")


def test_the_flat_list_of_a_request_may_be_that_of_its_only_layer_group():
    own = [1]
    single = data(new_block_ids=own, new_block_ids_by_layer_group=[own])
    assert Consumer().take(output(single), 1, 1) is None


def test_of_what_an_arm_raised_there_is_nothing_to_read():
    assert Consumer().take(KeyError("lost"), 1, 2) is None
