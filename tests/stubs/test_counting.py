"""The counting wrappers alone: what each call and each read adds to the count."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from connector import interfaces
from connector.data import RequestData
from connector.interfaces import LlmRequestState
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.counting import (
    CountingAsyncRequests,
    CountingBatch,
    CountingRequest,
    Crossings,
    counting_manager,
)
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

NOTHING = {"tokens": 0, "page_indices": 0, "hashes": 0, "priorities": 0}
RETENTION = KvCacheRetentionConfig([TokenRangeRetention(0, None, 80)])


def make_request(request_id: int = 7, tokens: int = 10) -> LlmRequest:
    return LlmRequest(
        request_id,
        range(100, 100 + tokens),
        draft_tokens=[1, 2],
        retention_config=RETENTION,
        cache_salt="salt",
    )


def make_v1(rng: random.Random, *requests: LlmRequest) -> KVCacheManager:
    """Blocks of four tokens, as many as the requests need: three for ten tokens."""
    manager = KVCacheManager(50, tokens_per_block=4, rng=rng)
    for request in requests:
        manager.resize(request, request.get_num_tokens(0))
    return manager


def make_v2(rng: random.Random, *requests: LlmRequest, groups: int = 1) -> KVCacheManagerV2:
    manager = KVCacheManagerV2(
        50, tokens_per_block=4, layer_groups=(LayerGroup(),) * groups, rng=rng
    )
    for request in requests:
        manager.resize(request, request.get_num_tokens(0))
    return manager


@pytest.mark.parametrize(
    ("call", "arguments", "value", "tokens", "objects"),
    [
        # An int; a list and its ten or two ints; a list, the beam's list and its ten ints.
        ("get_num_tokens", (0,), 10, 0, 1),
        ("get_tokens", (0,), list(range(100, 110)), 10, 11),
        ("get_tokens", (), [list(range(100, 110))], 10, 12),
        ("get_tokens_range", (0, 8, 99), [108, 109], 2, 3),
        ("get_tokens_range", (0, 10, 10), [], 0, 1),
        # As forks read them: one by one.
        ("get_token", (0, 3), 103, 1, 1),
    ],
)
def test_calls_of_a_request(
    call: str, arguments: tuple[int, ...], value: object, tokens: int, objects: int
):
    crossings = Crossings()

    assert getattr(CountingRequest(make_request(), crossings), call)(*arguments) == value

    assert crossings.calls == {f"{call}()": 1}
    assert crossings.marshalled == NOTHING | {"tokens": tokens}
    assert crossings.objects == objects


@pytest.mark.parametrize(
    ("name", "objects"),
    [
        ("request_id", 1),
        ("context_current_position", 1),
        ("context_remaining_length", 1),
        ("context_chunk_size", 1),
        ("kv_cache_retention_config", 1),  # A copy by value.
        ("state", 0),  # One of a few members that live for ever.
        ("is_dummy_request", 0),  # As are True and False.
    ],
)
def test_reads_of_native_attributes(name: str, objects: int):
    crossings, bare = Crossings(), make_request()
    request = CountingRequest(bare, crossings)

    values = getattr(request, name), getattr(request, name)

    assert values == (getattr(bare, name),) * 2
    assert crossings.calls == {name: 2}
    assert crossings.objects == 2 * objects
    assert crossings.marshalled == NOTHING


def test_reads_hand_no_arguments_over():
    crossings = Crossings()
    request = CountingRequest(make_request(), crossings)
    assert (request.request_id, request.context_chunk_size) == (7, 10)
    assert crossings.arguments == 0


@pytest.mark.parametrize(
    ("call", "arguments", "named", "numbers"),
    [
        ("get_tokens", (), {}, 0),
        ("get_tokens", (0,), {}, 1),
        ("get_num_tokens", (0,), {}, 1),
        ("get_tokens_range", (0, 8, 10), {}, 3),
        ("get_tokens_range", (0,), {"begin": 8, "end": 10}, 3),
    ],
)
def test_arguments_of_a_requests_calls(
    call: str, arguments: tuple[int, ...], named: dict[str, int], numbers: int
):
    crossings = Crossings()
    request = CountingRequest(make_request(), crossings)
    for _ in range(2):
        getattr(request, call)(*arguments, **named)
    assert crossings.arguments == 2 * numbers


def test_no_retention_config_is_a_read_that_builds_nothing():
    crossings = Crossings()
    assert CountingRequest(LlmRequest(1, [5]), crossings).kv_cache_retention_config is None
    assert crossings.calls == {"kv_cache_retention_config": 1}
    assert crossings.objects == 0


def test_python_attributes_of_upstreams_class_cross_nothing():
    crossings = Crossings()
    request = CountingRequest(make_request(), crossings)

    assert (request.py_draft_tokens, request.cache_salt) == ([1, 2], "salt")
    assert interfaces.get_draft_token_length(request) == 2

    assert crossings.calls == {}
    assert crossings.objects == 0


def test_the_state_is_the_member_itself():
    request = CountingRequest(make_request(), Crossings())
    assert request.state is LlmRequestState.CONTEXT_INIT


def test_errors_of_the_native_side_come_through():
    request = CountingRequest(make_request(), Crossings())
    with pytest.raises(IndexError, match="beam 1 is outside"):
        request.get_tokens(1)
    with pytest.raises(AttributeError, match="no_such_thing"):
        request.no_such_thing  # noqa: B018


def test_calls_may_name_their_arguments():
    # The interface names them, so an arm may; it cannot tell the wrapper from what it wraps.
    request = make_request()
    wrapped = CountingRequest(request, Crossings())
    assert wrapped.get_tokens_range(beam=0, begin=8, end=10) == [108, 109]


# Three blocks of four for ten tokens, two of them full. Objects: the lists, and an int for each
# number in them.
V1_CALLS = [
    ("get_num_blocks", (), {}, 1),
    ("get_cache_indices", (), {"page_indices": 3}, 4),
    ("get_cache_indices_range", (1,), {"page_indices": 2}, 3),
    ("commit_and_get_block_hashes", (), {"hashes": 2}, 3),
    ("get_block_hashes_after", (0, 0), {"hashes": 2}, 5),  # A tuple of a number and a list of two.
]
V2_CALLS = [
    ("get_num_blocks", (), {}, 1),
    ("get_page_indices_by_layer_group", (), {"page_indices": 6}, 9),
    ("get_page_indices_range", (2,), {"page_indices": 2}, 5),
    ("get_page_indices_range", (3,), {}, 3),
]


@pytest.mark.parametrize(
    ("version", "call", "arguments", "marshalled", "objects"),
    # What is handed over beside the request is one number each.
    [("v1", *case) for case in V1_CALLS] + [("v2", *case) for case in V2_CALLS],
)
def test_calls_of_a_manager(
    rng: random.Random,
    version: str,
    call: str,
    arguments: tuple[int, ...],
    marshalled: dict[str, int],
    objects: int,
):
    request, crossings = make_request(), Crossings()
    bare = make_v1(rng, request) if version == "v1" else make_v2(rng, request, groups=2)
    manager = counting_manager(bare, crossings)

    value = getattr(manager, call)(CountingRequest(request, crossings), *arguments)

    assert value == getattr(bare, call)(request, *arguments)
    # What the manager asks of the request in turn stays on the native side.
    assert crossings.calls == {f"{call}()": 1}
    assert crossings.marshalled == NOTHING | marshalled
    assert crossings.objects == objects
    assert crossings.arguments == len(arguments)


def test_the_number_of_layer_groups_is_read_and_not_called(rng: random.Random):
    crossings = Crossings()
    assert counting_manager(make_v2(rng, groups=3), crossings).num_layer_groups == 3
    assert crossings.calls == {"num_layer_groups": 1}
    assert crossings.objects == 1


@pytest.mark.parametrize("make", [make_v1, make_v2])
def test_the_block_size_is_an_attribute_of_python(make: Callable[..., Any], rng: random.Random):
    crossings = Crossings()

    assert counting_manager(make(rng), crossings).tokens_per_block == 4

    assert (crossings.calls, crossings.objects) == ({}, 0)


def test_priorities_are_counted_one_by_one(rng: random.Random):
    request, crossings = make_request(), Crossings()
    bare = make_v1(rng, request)
    manager = counting_manager(bare, crossings)

    assert list(map(manager.get_priority_by_block_id, bare.get_cache_indices(request))) == [80] * 3

    assert crossings.calls == {"get_priority_by_block_id()": 3}
    assert crossings.marshalled == NOTHING | {"priorities": 3}
    assert crossings.objects == 3
    assert crossings.arguments == 3


def test_the_batch_call_of_v2_hands_over_tokens_and_pages(rng: random.Random):
    requests, crossings = [make_request(1, 10), make_request(2, 3)], Crossings()
    bare = make_v2(rng, *requests, groups=2)
    wrapped = [CountingRequest(request, crossings) for request in requests]

    value = counting_manager(bare, crossings).get_batch_updates(wrapped, [8, 3], [1, 1])

    pages = bare.get_page_indices_range(requests[0], 1)
    assert value == ([10, 3], [[108, 109], []], [pages, [[], []]])
    assert crossings.calls == {"get_batch_updates()": 1}
    assert crossings.marshalled == NOTHING | {"tokens": 2, "page_indices": 4}
    # The tuple; two lengths in a list; three lists of two tokens; seven lists of four pages.
    assert crossings.objects == 1 + 3 + 5 + 11
    assert crossings.arguments == 2 + 2


def test_the_batch_call_of_v1_hands_over_hashes_as_well(rng: random.Random):
    requests, crossings = [make_request(1, 10), make_request(2, 3)], Crossings()
    bare = make_v1(rng, *requests)
    first = bare.commit_and_get_block_hashes(requests[0])
    wrapped = [CountingRequest(request, crossings) for request in requests]

    value = counting_manager(bare, crossings).get_batch_updates(
        wrapped, [10, 0], [2, 0], [1, 0], [first[0], 0]
    )

    blocks = [bare.get_cache_indices_range(requests[0], 2), bare.get_cache_indices(requests[1])]
    assert value == ([10, 3], [[], [100, 101, 102]], blocks, [1, 0], [first[1:], []])
    assert crossings.calls == {"get_batch_updates()": 1}
    # Lengths and the numbers of hashes that still hold are no more than bookkeeping.
    assert crossings.marshalled == {"tokens": 3, "page_indices": 2, "hashes": 1, "priorities": 0}
    # The tuple; lengths; tokens; blocks; numbers of valid hashes; hashes.
    assert crossings.objects == 1 + 3 + 6 + 5 + 3 + 4
    assert crossings.arguments == 2 + 2 + 2 + 2


def test_an_empty_batch(rng: random.Random):
    crossings = Crossings()
    value = counting_manager(make_v2(rng), crossings).get_batch_updates([], [], [])
    assert value == ([], [], [])
    assert (crossings.marshalled, crossings.objects) == (NOTHING, 4)
    assert crossings.arguments == 0


def test_what_is_told_of_a_batch_of_v2_is_counted_as_built(rng: random.Random):
    requests, crossings = [make_request(1, 10), make_request(2, 3)], Crossings()
    manager = counting_manager(make_v2(rng, *requests, groups=2), crossings)
    reported = manager.create_reported_requests(RequestData, False)
    crossings.objects = 0  # It is made once.

    manager.build_request_data(
        reported, [CountingRequest(requests[0], crossings)], [], [requests[1]], {}, {1: 4}
    )

    assert crossings.calls == {"create_reported_requests()": 1, "build_request_data()": 1}
    # Three blocks and one, in two groups.
    assert crossings.marshalled == NOTHING | {"tokens": 13, "page_indices": 8}
    # A tuple of two lists; data, three numbers and six lists each; 13 tokens, 8 pages.
    assert crossings.objects == 1 + 2 + 2 * (1 + 3 + 6) + 13 + 8
    assert crossings.arguments == 2


def test_what_is_told_of_a_batch_of_v1_has_priorities_and_new_hashes(rng: random.Random):
    request = make_request(1, 10)
    manager = make_v1(rng, request)
    reported = counting_manager(manager, Crossings()).create_reported_requests(RequestData, False)

    def report() -> Crossings:
        crossings = Crossings()
        counting_manager(manager, crossings).build_request_data(reported, [], [], [request], {}, {})
        return crossings

    # Three blocks, two of them full. A tuple of two lists; data, three numbers and five lists.
    first = report()
    assert first.marshalled == {"tokens": 10, "page_indices": 3, "hashes": 2, "priorities": 3}
    assert first.objects == 1 + 2 + (1 + 3 + 5) + 10 + 3 + 2 + 3

    # The chain is reported again, and its numbers are those of the first time.
    again = report()
    assert again.marshalled == NOTHING
    assert again.objects == 1 + 2 + (1 + 3 + 5)

    reported.forget(1)
    whole = report()
    assert (whole.marshalled, whole.objects) == (first.marshalled, first.objects)


def test_v1_and_v2_are_told_apart_by_isinstance(rng: random.Random):
    v1, v2 = (counting_manager(make(rng), Crossings()) for make in (make_v1, make_v2))
    assert isinstance(v2, interfaces.KVCacheManagerV2)
    assert not isinstance(v1, interfaces.KVCacheManagerV2)


def test_a_batch_hands_out_its_requests_in_order_and_counts_new_lists():
    chunking, last, generating, paused = (make_request(number) for number in range(4))
    crossings = Crossings()
    batch = CountingBatch(ScheduledRequests([chunking], [last], [generating], [paused]), crossings)

    assert [request._request for request in batch.context_requests] == [chunking, last]
    assert batch.context_requests is not batch.context_requests
    assert crossings.objects == 3
    lists = [batch.context_requests_chunking, batch.context_requests_last_chunk]
    lists += [batch.generation_requests, batch.paused_requests]
    assert [[request._request for request in requests] for requests in lists] == [
        [chunking],
        [last],
        [generating],
        [paused],
    ]
    assert (crossings.objects, crossings.calls) == (3, {})
    assert batch.generation_requests[0].request_id == 2
    assert crossings.calls == {"request_id": 1}


def test_sets_of_ids_are_counted_when_they_are_built():
    crossings, request = Crossings(), make_request()
    requests = CountingAsyncRequests(AsyncRequests({1: request}, {7: request}), crossings)

    assert 7 in requests.loading
    assert 1 in requests.saving
    assert crossings.objects == 0
    assert (requests.loading_ids, requests.saving_ids) == ({7}, {1})
    assert (crossings.objects, crossings.calls) == (2, {})
