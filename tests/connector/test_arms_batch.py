"""Which requests every arm reports, where, and what it remembers of them."""

from types import ModuleType

import pytest

from connector.data import RequestData, SchedulerOutput
from connector.interfaces import LlmRequestState
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.request import LlmRequest

from .driving import Arm, Manager, admit, build, build_one, extend, ids, start_generation


def test_an_empty_batch(arm: Arm, manager: Manager):
    assert build(arm, manager) == SchedulerOutput([], [], None)


def test_a_request_is_new_exactly_once(arm: Arm, manager: Manager):
    request = admit(manager, 1)
    where = []
    for size in (4, 4):
        request.context_chunk_size = size
        output = build(arm, manager, chunking=[request])
        where.append((ids(output.new_requests), ids(output.cached_requests)))
        request.move_to_next_context_chunk()
    start_generation(request)
    for _ in range(2):
        output = build(arm, manager, generation=[extend(request, 1)])
        where.append((ids(output.new_requests), ids(output.cached_requests)))
    assert where == [([1], []), ([], [1]), ([], [1]), ([], [1])]


def test_requests_stand_in_the_order_of_the_batch(arm: Arm, manager: Manager):
    a, b, c, d, e = (admit(manager, request_id) for request_id in (5, 3, 9, 1, 7))
    build(arm, manager, chunking=[c, d])
    generation = [start_generation(request) for request in (admit(manager, 8), e)]
    output = build(arm, manager, chunking=[d, a], context=[b, c], generation=generation)
    assert ids(output.new_requests) == [5, 3]
    # Context requests first, chunking before last chunks, then generation requests.
    assert ids(output.cached_requests) == [1, 9, 8, 7]


def test_a_generation_request_is_cached_even_at_its_first_sight(arm: Arm, manager: Manager):
    request = start_generation(admit(manager, 1, length=2), 7)
    output = build(arm, manager, generation=[request])
    assert output.new_requests == []
    assert output.cached_requests[0].new_tokens == [100, 101, 7]


def test_paused_requests_are_not_reported(arm: Arm, manager: Manager):
    batch = ScheduledRequests(paused_requests=[admit(manager, 1)])
    assert arm.build_scheduler_output(batch, AsyncRequests(), manager) == SchedulerOutput()


def test_a_request_that_sat_out_goes_on_where_it_was(arm: Arm, manager: Manager):
    request, other = admit(manager, 1), admit(manager, 2)
    build(arm, manager, context=[request])
    build(arm, manager, context=[other])
    start_generation(request, 7)
    build(arm, manager, generation=[other])
    output = build(arm, manager, generation=[request])
    assert output.cached_requests[0].new_tokens == [7]


def test_the_cache_salt_is_passed_through(arm: Arm, manager: Manager):
    salted = LlmRequest(1, range(4), cache_salt="tenant-7")
    plain = LlmRequest(2, range(4))
    for request in (salted, plain):
        manager.resize(request, 8)
    for _ in range(2):
        output = build(arm, manager, context=[salted, plain])
        reported = output.new_requests + output.cached_requests
        assert [data.cache_salt for data in reported] == ["tenant-7", None]


@pytest.mark.parametrize(
    ("attention_dp", "new", "cached"), [(True, [1], [3]), (False, [1, 2], [3, 4])]
)
def test_dummies_are_left_out_under_attention_dp_only(
    module: ModuleType, manager: Manager, attention_dp: bool, new: list[int], cached: list[int]
):
    arm = module.KvCacheConnectorSchedulerOutputManager(enable_attention_dp=attention_dp)
    context = [admit(manager, 1), admit(manager, 2, is_dummy_request=True)]
    generation = [
        start_generation(admit(manager, 3)),
        start_generation(admit(manager, 4, is_dummy_request=True)),
    ]
    output = build(arm, manager, context=context, generation=generation)
    assert (ids(output.new_requests), ids(output.cached_requests)) == (new, cached)


@pytest.mark.parametrize(
    ("kwargs", "rank"),
    [
        ({}, None),
        ({"enable_attention_dp": True, "attention_dp_rank": 3}, 3),
        ({"enable_attention_dp": True, "attention_dp_rank": 0}, 0),
        ({"enable_attention_dp": True}, None),
        ({"enable_attention_dp": False, "attention_dp_rank": 3}, None),
    ],
)
def test_the_rank_is_named_under_attention_dp_only(
    module: ModuleType, manager: Manager, kwargs: dict[str, int], rank: int | None
):
    arm = module.KvCacheConnectorSchedulerOutputManager(**kwargs)
    for _ in range(2):
        assert build(arm, manager).attention_dp_rank == rank


def test_while_the_allocation_lives_a_second_build_is_cached_and_empty(arm: Arm, manager: Manager):
    request = admit(manager, 1)
    build(arm, manager, context=[request])
    output = build(arm, manager, context=[request])
    assert output.new_requests == []
    (data,) = output.cached_requests
    assert (data.new_tokens, data.new_block_ids) == ([], [])


def test_a_replay_after_a_reset_is_new_in_full(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(86))
    manager.resize(request, 86)
    first = build_one(arm, manager, request)
    assert len(first.new_block_ids) == 22
    start_generation(request, 7)
    build_one(arm, manager, request)

    # Paused, its allocation is destroyed: what it generated is part of the prompt of the replay.
    request.pause(1000)
    manager.free_resources(request)
    arm.reset_request(1)
    manager.resize(request, 87)
    output = build(arm, manager, context=[request])
    assert output.cached_requests == []
    (replay,) = output.new_requests
    assert replay.new_tokens == [*range(86), 7]
    assert len(replay.new_block_ids) == 22  # And not 44.
    assert (replay.computed_position, replay.num_scheduled_tokens) == (0, 87)
    assert build(arm, manager, context=[request]).cached_requests[0].new_block_ids == []


def test_a_replay_without_a_reset_is_not_new(arm: Arm, manager: Manager):
    request = start_generation(admit(manager, 1), 7)
    build_one(arm, manager, request)
    request.pause(1000)
    output = build(arm, manager, context=[request])
    assert output.new_requests == []
    (data,) = output.cached_requests
    assert (data.new_tokens, data.computed_position, data.num_scheduled_tokens) == ([], 0, 9)


def test_a_reset_drops_the_external_load_and_leaves_other_requests(arm: Arm, manager: Manager):
    requests = [admit(manager, request_id, length=12) for request_id in (1, 2)]
    build(arm, manager, context=requests)
    for request in requests:
        request.context_current_position = 8
        arm.record_new_matched_tokens(request, 5)
    arm.reset_request(1)
    arm.reset_request(99)  # Nobody knows it.
    output = build(arm, manager, context=requests)
    assert [(data.request_id, data.computed_position) for data in output.new_requests] == [(1, 8)]
    assert [(data.request_id, data.computed_position) for data in output.cached_requests] == [
        (2, 3)
    ]


def spoil(data: RequestData) -> None:
    data.new_tokens.extend([1, 2, 3])
    data.new_block_ids.clear()
    data.block_hashes.append(5)
    for group in data.new_block_ids_by_layer_group:
        group.extend([1, 2, 3])
    data.new_block_ids_by_layer_group.append([4])


def test_a_consumer_may_change_what_it_gets(module: ModuleType, manager: Manager):
    arms = [module.KvCacheConnectorSchedulerOutputManager() for _ in range(2)]
    request = LlmRequest(1, range(6))
    outputs = []
    for token in range(8):
        manager.resize(request, request.get_num_tokens(0))
        phase = "context" if request.state is LlmRequestState.CONTEXT_INIT else "generation"
        untouched, output = (build(arm, manager, **{phase: [request]}) for arm in arms)
        assert output == untouched
        outputs.append(untouched)
        for data in output.new_requests + output.cached_requests:
            spoil(data)
        output.new_requests.clear()
        output.cached_requests.append(data)
        start_generation(request, token)
    # Nor does an output change afterwards by itself.
    assert outputs[0].new_requests[0].new_tokens == list(range(6))
    assert [output.cached_requests[0].new_tokens for output in outputs[1:]] == [
        [token] for token in range(7)
    ]
