from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.request import LlmRequest


def make_request(request_id: int, chunk: int) -> LlmRequest:
    request = LlmRequest(request_id, range(8))
    request.context_chunk_size = chunk
    return request


def test_context_requests_are_the_chunking_ones_then_those_in_their_last_chunk():
    chunking = [make_request(1, 4), make_request(2, 4)]
    last = [make_request(3, 8)]
    batch = ScheduledRequests(context_requests_chunking=chunking, context_requests_last_chunk=last)
    assert batch.context_requests == [*chunking, *last]


def test_context_requests_is_a_new_list_at_every_access():
    batch = ScheduledRequests(context_requests_last_chunk=[make_request(1, 8)])
    first = batch.context_requests
    assert batch.context_requests is not first
    first.clear()
    assert [request.request_id for request in batch.context_requests] == [1]
    assert [request.request_id for request in batch.context_requests_last_chunk] == [1]


def test_a_batch_is_empty_at_first_and_shares_no_list_with_another():
    batch, other = ScheduledRequests(), ScheduledRequests()
    batch.generation_requests.append(make_request(1, 8))
    batch.paused_requests.append(make_request(2, 8))
    assert batch.context_requests == []
    assert other == ScheduledRequests([], [], [], [])


def test_reset_context_requests_sorts_by_what_remains_and_keeps_the_order():
    requests = [make_request(1, 8), make_request(2, 3), make_request(3, 8), make_request(4, 7)]
    # Position 5 of 8: a chunk of 3 is the last one.
    requests[1].context_current_position = 5
    batch = ScheduledRequests()
    batch.reset_context_requests(requests)
    assert [r.request_id for r in batch.context_requests_chunking] == [4]
    assert [r.request_id for r in batch.context_requests_last_chunk] == [1, 2, 3]


def test_reset_context_requests_replaces_those_before_and_leaves_the_others():
    batch = ScheduledRequests(
        context_requests_chunking=[make_request(1, 4)],
        context_requests_last_chunk=[make_request(2, 8)],
        generation_requests=[make_request(3, 8)],
    )
    batch.reset_context_requests(iter([make_request(4, 8)]))
    assert [r.request_id for r in batch.context_requests] == [4]
    assert [r.request_id for r in batch.generation_requests] == [3]
    batch.reset_context_requests([])
    assert batch.context_requests == []


def test_async_ids_are_a_new_set_at_every_access():
    request, other = make_request(1, 8), make_request(2, 8)
    asynchronous = AsyncRequests(saving={1: request}, loading={1: request, 2: other})
    saving, loading = asynchronous.saving_ids, asynchronous.loading_ids
    assert (saving, loading) == ({1}, {1, 2})
    assert asynchronous.saving_ids is not saving
    assert asynchronous.loading_ids is not loading
    saving.clear()
    loading.clear()
    assert (asynchronous.saving_ids, asynchronous.loading_ids) == ({1}, {1, 2})


def test_async_ids_follow_the_requests():
    asynchronous = AsyncRequests()
    assert (asynchronous.saving_ids, asynchronous.loading_ids) == (set(), set())
    asynchronous.loading[5] = make_request(5, 8)
    assert asynchronous.loading_ids == {5}
    del asynchronous.loading[5]
    assert asynchronous.loading_ids == set()
