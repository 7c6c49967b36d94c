"""Prompt tokens that the connector loads itself, before the forward or meanwhile."""

from stubs.batch import AsyncRequests, ScheduledRequests

from .driving import Arm, Manager, admit, build, build_one, ids, start_generation


def test_external_loads_are_subtracted_once(arm: Arm, manager: Manager):
    request, other = admit(manager, 1, length=12), admit(manager, 2, length=12)
    # Of its eight cached tokens the connector is about to load five.
    request.context_current_position = other.context_current_position = 8
    arm.record_new_matched_tokens(request, 5)
    output = build(arm, manager, context=[request, other])
    assert [data.computed_position for data in output.new_requests] == [3, 8]
    assert [data.num_scheduled_tokens for data in output.new_requests] == [4, 4]
    assert arm.external_loads == {}
    output = build(arm, manager, context=[request, other])
    assert [data.computed_position for data in output.cached_requests] == [8, 8]


def test_the_last_external_load_of_a_request_counts(arm: Arm, manager: Manager):
    request = admit(manager, 1, length=12)
    request.context_current_position = 8
    arm.record_new_matched_tokens(request, 5)
    arm.record_new_matched_tokens(request, 2)
    assert build_one(arm, manager, request).computed_position == 6


def test_an_external_load_is_subtracted_from_a_cached_context_request(arm: Arm, manager: Manager):
    request = admit(manager, 1, length=12)
    build(arm, manager, chunking=[request])
    request.context_current_position = 8
    arm.record_new_matched_tokens(request, 5)
    output = build(arm, manager, context=[request])
    assert output.cached_requests[0].computed_position == 3


def test_an_external_load_does_not_touch_a_generation_request(arm: Arm, manager: Manager):
    request = start_generation(admit(manager, 1))
    arm.record_new_matched_tokens(request, 5)
    assert build_one(arm, manager, request).computed_position == 7


def test_external_loads_do_not_outlive_an_iteration(arm: Arm, manager: Manager):
    request = admit(manager, 1, length=12)
    request.context_current_position = 8
    arm.record_new_matched_tokens(request, 5)
    build(arm, manager)  # The request is not in the batch.
    assert build_one(arm, manager, request).computed_position == 8


def test_a_request_that_is_being_loaded_is_left_out(arm: Arm, manager: Manager):
    loading, other = admit(manager, 1, length=12), admit(manager, 2)
    loading.context_current_position = 8
    arm.record_new_matched_tokens(loading, 8)
    output = build(arm, manager, context=[loading, other], loading=[loading])
    assert (ids(output.new_requests), output.cached_requests) == ([2], [])
    # When it is there, it is new, in full, and its tokens count as computed.
    output = build(arm, manager, context=[other, loading])
    assert (ids(output.new_requests), ids(output.cached_requests)) == ([1], [2])
    data = output.new_requests[0]
    assert data.new_tokens == list(range(100, 112))
    assert data.computed_position == 8


def test_loading_leaves_out_no_generation_request(arm: Arm, manager: Manager):
    request = start_generation(admit(manager, 1))
    output = build(arm, manager, generation=[request], loading=[request])
    assert ids(output.cached_requests) == [1]


def test_saving_leaves_out_nothing(arm: Arm, manager: Manager):
    request = admit(manager, 1)
    batch = ScheduledRequests(context_requests_last_chunk=[request])
    output = arm.build_scheduler_output(batch, AsyncRequests(saving={1: request}), manager)
    assert ids(output.new_requests) == [1]
