"""Workloads of trace replay."""

from collections.abc import Iterator
from typing import Any

import pytest

from connector import full_copy, incremental
from connector.interfaces import LlmRequestState
from scenarios.batching import ContinuousBatching, fast_forward
from scenarios.scenario import TraceReplay
from scenarios.traces import TraceRow
from scenarios.workload import TraceReplayWorkload
from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup
from stubs.request import LlmRequest

from .conftest import WriteTrace

ROWS = [(1 + (37 * index) % 150, 1 + (11 * index) % 40) for index in range(400)]
TIGHT = {"max_batch": 8, "max_num_tokens": 96, "tokens_per_block": 16}
TWO_GROUPS = (LayerGroup(), LayerGroup(window=40, sink_tokens=8))
MANAGERS = [{"manager": "v1"}, {"manager": "v2"}, {"layer_groups": TWO_GROUPS}]
ORDERS = [{}, {"overlap": True}, {"draft_tokens": 3}, {"draft_tokens": 2, "overlap": True}]


def run(
    path: str,
    iterations: int = 200,
    seed: str = "0",
    **settings: Any,  # noqa: ANN401
) -> Iterator[tuple[TraceReplayWorkload, ContinuousBatching]]:
    """Yield a workload after each ``advance``, and the batching that it should follow."""
    scenario = TraceReplay(path=path, **{**TIGHT, **settings})
    workload = TraceReplayWorkload(scenario, iterations, seed)
    batching = fast_forward(scenario, [TraceRow(*row) for row in ROWS], iterations, seed)
    for _ in range(iterations):
        workload.advance()
        batching.step()
        yield workload, batching


def num_pages(workload: TraceReplayWorkload, request: LlmRequest) -> int:
    if isinstance(workload.manager, KVCacheManagerV2):
        groups = workload.manager.get_page_indices_by_layer_group(request)
        assert len({len(group) for group in groups}) == 1
        return len(groups[0])
    return len(workload.manager.get_cache_indices(request))


@pytest.mark.parametrize("order", ORDERS)
def test_a_sequence_is_its_prompt_and_what_it_generated(
    write_trace: WriteTrace, order: dict[str, Any]
):
    for workload, batching in run(write_trace(ROWS), **order):
        requests = workload.batch.generation_requests
        assert [request.request_id for request in requests] == list(batching.generation)
        for request, slot in zip(requests, batching.generation.values(), strict=True):
            assert request.state is LlmRequestState.GENERATION_IN_PROGRESS
            assert request.prompt_len == request.context_current_position == slot.prompt
            assert request.get_num_tokens(0) == slot.prompt + batching.known_tokens(slot)
            drafts = order.get("draft_tokens", 0)
            assert len(request.py_draft_tokens or []) == drafts


def test_a_context_request_has_the_chunk_that_was_scheduled(write_trace: WriteTrace):
    kinds = set()
    for workload, batching in run(write_trace(ROWS)):
        batch = workload.batch
        scheduled = [slot for slot in batching.context.values() if slot.chunk]
        last = [s.row for s in scheduled if s.computed + s.chunk == s.prompt]
        chunking = [s.row for s in scheduled if s.computed + s.chunk < s.prompt]
        assert [r.request_id for r in batch.context_requests_last_chunk] == last
        assert [r.request_id for r in batch.context_requests_chunking] == chunking
        for request in batch.context_requests:
            slot = batching.context[request.request_id]
            assert request.state is LlmRequestState.CONTEXT_INIT
            assert request.get_num_tokens(0) == request.prompt_len == slot.prompt
            assert request.context_current_position == slot.computed
            assert request.context_chunk_size == slot.chunk
            kinds.add((slot.computed > 0, slot.computed + slot.chunk == slot.prompt))
    # First, middle, last and only chunks: the trace makes them all.
    assert len(kinds) == 4


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("order", ORDERS)
def test_there_are_pages_for_all_that_is_scheduled(
    write_trace: WriteTrace, manager: dict[str, Any], order: dict[str, Any]
):
    growth = 1 + order.get("draft_tokens", 0)
    for workload, _ in run(write_trace(ROWS), 60, **manager, **order):
        for request in workload.batch.generation_requests:
            ahead = growth - 1 + (growth if order.get("overlap") else 0)
            held = request.get_num_tokens(0) + ahead
            assert num_pages(workload, request) == (held + 15) // 16
        for request in workload.batch.context_requests:
            chunked = request.context_current_position + request.context_chunk_size
            # V1 allocates the whole prompt at once.
            held = request.prompt_len if manager == {"manager": "v1"} else chunked
            assert num_pages(workload, request) == (held + 15) // 16


def test_the_history_is_what_earlier_forwards_computed(write_trace: WriteTrace):
    for workload, _ in run(write_trace(ROWS), 60):
        assert isinstance(workload.manager, KVCacheManagerV2)
        caches = workload.manager.kv_cache_map
        for request in workload.batch.generation_requests:
            history = caches[request.request_id].history_length
            assert history == request.get_num_tokens(0) - 1
        for request in workload.batch.context_requests:
            history = caches[request.request_id].history_length
            assert history == request.context_current_position


def test_a_request_stays_the_same_object_until_it_leaves(write_trace: WriteTrace):
    known: dict[int, LlmRequest] = {}
    gone: set[int] = set()
    for workload, batching in run(write_trace(ROWS)):
        present = {**batching.context, **batching.generation}
        gone |= known.keys() - present.keys()
        for request in workload.batch.context_requests + workload.batch.generation_requests:
            assert known.setdefault(request.request_id, request) is request
            assert request.request_id not in gone
    assert len(gone) > 50


@pytest.mark.parametrize("manager", MANAGERS)
def test_the_pages_of_a_request_that_left_return_to_the_pool(
    write_trace: WriteTrace, manager: dict[str, Any]
):
    totals = set()
    for workload, batching in run(write_trace(ROWS), **manager):
        kv_cache = workload.manager
        present = {**batching.context, **batching.generation}
        # Free pages and held pages together stay the same number in each layer group.
        if isinstance(kv_cache, KVCacheManagerV2):
            assert set(kv_cache.kv_cache_map) == set(present)
            held = [
                [
                    page
                    for cache in kv_cache.kv_cache_map.values()
                    for page in cache.get_aggregated_page_indices(group, valid_only=True)
                ]
                for group in range(len(kv_cache.layer_groups))
            ]
            free = [len(pool) for pool in kv_cache._pools]
        else:
            assert set(kv_cache._sequences) == set(present)
            held = [[page for seq in kv_cache._sequences.values() for page in seq.blocks]]
            free = [len(kv_cache._pool)]
        assert all(len(set(pages)) == len(pages) for pages in held)
        totals.add(tuple(len(pages) + n for pages, n in zip(held, free, strict=True)))
    assert len(totals) == 1


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("order", ORDERS)
def test_both_arms_report_the_same(
    write_trace: WriteTrace, manager: dict[str, Any], order: dict[str, Any]
):
    arms = [m.KvCacheConnectorSchedulerOutputManager() for m in (full_copy, incremental)]
    seen: set[int] = set()
    joined = 0
    for workload, _ in run(write_trace(ROWS), **manager, **order):
        arguments = workload.batch, workload.async_requests, workload.manager
        found, other = (arm.build_scheduler_output(*arguments) for arm in arms)
        assert found == other

        # New is a context request that was not seen before, in the order of the batch.
        context = [request.request_id for request in workload.batch.context_requests]
        new = [request for request in context if request not in seen]
        assert [data.request_id for data in found.new_requests] == new
        generation = [request.request_id for request in workload.batch.generation_requests]
        old = [request for request in context if request in seen]
        assert [data.request_id for data in found.cached_requests] == old + generation
        seen.update(context, generation)
        joined += len(new)
    assert joined > 50


def test_a_seed_decides_the_part_of_the_trace_and_all_tokens(write_trace: WriteTrace):
    path = write_trace(ROWS)

    def contents(seed: str) -> list[list[int]]:
        return [
            request.get_tokens(0)
            for workload, _ in run(path, 10, seed, draft_tokens=1)
            for request in workload.batch.generation_requests
        ]

    assert contents("0") == contents("0")
    assert contents("0") != contents("1")


def test_a_trace_that_is_too_short_or_missing_is_refused(write_trace: WriteTrace):
    path = write_trace(ROWS[:20])

    with pytest.raises(InputError, match=r"/trace\.csv: its 20 requests keep a batch of 8 steady"):
        TraceReplayWorkload(TraceReplay(path=path, **TIGHT), 200, "0")
    with pytest.raises(InputError, match=r"/none\.csv: No such file or directory$"):
        TraceReplayWorkload(TraceReplay(path="/none.csv", **TIGHT), 1, "0")
