import inspect
import random

import pytest

from connector import interfaces
from stubs.kv_cache_v2 import BAD_PAGE_INDEX, KvCache, KVCacheManagerV2, LayerGroup, PageBackend
from stubs.pages import OutOfPagesError, PagePool
from stubs.request import LlmRequest

from .counting import count_free_blocks

FULL, SLIDING = LayerGroup(), LayerGroup(window=4)
BOTH_BACKENDS = pytest.mark.parametrize("backend", ["list", "generator"])


def make_manager(
    *layer_groups: LayerGroup, num_blocks: int = 20, backend: PageBackend = "list", seed: int = 7
) -> KVCacheManagerV2:
    """Blocks of four tokens."""
    return KVCacheManagerV2(
        num_blocks,
        tokens_per_block=4,
        layer_groups=layer_groups or (FULL,),
        page_backend=backend,
        rng=random.Random(seed),
    )


def make_cache(
    *layer_groups: LayerGroup, backend: PageBackend = "list"
) -> tuple[KvCache, list[PagePool]]:
    """Blocks of four tokens, ten pages a layer group."""
    pools = [PagePool(10, random.Random(7)) for _ in layer_groups]
    return KvCache(layer_groups, pools, 4, backend), pools


def free_pages(pools: list[PagePool]) -> list[int]:
    return [len(pool) for pool in pools]


def pages(kv_cache: KvCache, layer_group: int) -> list[int]:
    return list(kv_cache.get_aggregated_page_indices(layer_group))


def test_a_manager_has_blocks_of_32_tokens_and_one_full_layer_group_by_default(
    rng: random.Random,
):
    manager = KVCacheManagerV2(4, rng=rng)
    assert manager.tokens_per_block == 32
    assert manager.layer_groups == (LayerGroup(window=None, sink_tokens=0),)
    assert isinstance(manager, interfaces.KVCacheManagerV2)


def test_a_manager_needs_a_layer_group(rng: random.Random):
    with pytest.raises(ValueError, match="a manager needs at least one layer group"):
        KVCacheManagerV2(4, layer_groups=[], rng=rng)


@pytest.mark.parametrize("capacity", [0, 1, 4, 5, 8, 40])
def test_there_is_a_list_per_group_and_a_page_per_block(capacity: int):
    manager = make_manager(FULL, FULL, FULL)
    request = LlmRequest(1, [0])
    manager.resize(request, capacity)
    lists = manager.get_page_indices_by_layer_group(request)
    blocks = {0: 0, 1: 1, 4: 1, 5: 2, 8: 2, 40: 10}[capacity]
    assert [len(indices) for indices in lists] == [blocks] * 3
    assert manager.kv_cache_map[1].num_blocks == blocks


def test_without_a_cache_there_is_an_empty_list_per_group():
    manager = make_manager(FULL, SLIDING)
    request = LlmRequest(1, [0])
    first = manager.get_page_indices_by_layer_group(request)
    assert first == [[], []]
    first[0].append(3)
    assert manager.get_page_indices_by_layer_group(request) == [[], []]
    manager.resize(request, 8)
    manager.free_resources(request)
    assert manager.get_page_indices_by_layer_group(request) == [[], []]


@BOTH_BACKENDS
def test_the_lists_are_the_callers_own(backend: PageBackend):
    manager = make_manager(FULL, SLIDING, backend=backend)
    request = LlmRequest(1, [0])
    manager.resize(request, 20)
    manager.update_history(request, 15)
    before = manager.get_page_indices_by_layer_group(request)
    spoilt = manager.get_page_indices_by_layer_group(request)
    spoilt[0].clear()
    spoilt[1][0] = 99
    spoilt.pop()
    assert manager.get_page_indices_by_layer_group(request) == before


def test_the_backends_return_what_they_are_named_for():
    caches = {backend: make_cache(FULL, backend=backend)[0] for backend in ("list", "generator")}
    for kv_cache in caches.values():
        kv_cache.resize(12)
    assert isinstance(caches["list"].get_aggregated_page_indices(0), list)
    generator = caches["generator"].get_aggregated_page_indices(0)
    assert inspect.isgenerator(generator)
    assert list(generator) == caches["list"].get_aggregated_page_indices(0)
    assert list(generator) == []  # It runs once.


@BOTH_BACKENDS
def test_valid_only_leaves_out_blocks_without_a_page(backend: PageBackend):
    kv_cache, _ = make_cache(SLIDING, backend=backend)
    kv_cache.resize(12)
    three = pages(kv_cache, 0)
    kv_cache.history_length = 12
    kv_cache.resize(16)
    assert pages(kv_cache, 0)[:3] == [-1, -1, three[2]]
    valid = kv_cache.get_aggregated_page_indices(0, valid_only=True)
    assert list(valid) == pages(kv_cache, 0)[2:]


@BOTH_BACKENDS
def test_masking_is_in_place_and_never_shortens_the_list(backend: PageBackend):
    manager = make_manager(FULL, SLIDING, LayerGroup(window=4, sink_tokens=2), backend=backend)
    request = LlmRequest(1, [0])
    manager.resize(request, 20)
    full, sliding, sink = manager.get_page_indices_by_layer_group(request)
    manager.update_history(request, 15)  # Position 15 sees 12 to 15: blocks 0 to 2 are behind.
    bad = BAD_PAGE_INDEX
    assert bad == -1
    assert manager.get_page_indices_by_layer_group(request) == [
        full,
        [bad, bad, bad, *sliding[3:]],
        [sink[0], bad, bad, *sink[3:]],
    ]


def test_a_stale_range_past_the_last_block_masks_what_there_is():
    manager = make_manager(SLIDING)
    request = LlmRequest(1, [0])
    manager.resize(request, 8)
    manager.update_history(request, 100)
    assert manager.get_page_indices_by_layer_group(request) == [[-1, -1]]


def test_a_stale_block_has_its_page_until_the_next_growth():
    manager = make_manager(SLIDING)
    request = LlmRequest(1, [0])
    manager.resize(request, 16)
    (before,) = manager.get_page_indices_by_layer_group(request)
    manager.update_history(request, 15)
    manager.update_history(request, 7)  # A rewind: blocks 1 and 2 can be read again.
    assert manager.get_page_indices_by_layer_group(request) == [[-1, *before[1:]]]
    manager.update_history(request, 15)
    manager.resize(request, 20)
    manager.update_history(request, 7)  # Now their pages are gone.
    (after,) = manager.get_page_indices_by_layer_group(request)
    assert after[:4] == [-1, -1, -1, before[3]]


def test_page_slots_are_unique_and_are_no_ordinals():
    manager = make_manager(num_blocks=100)
    requests = [LlmRequest(index, [0]) for index in range(2)]
    for capacity in range(20, 201, 20):
        for request in requests:
            manager.resize(request, capacity)
    first, second = (manager.get_page_indices_by_layer_group(request)[0] for request in requests)
    assert sorted(first + second) == list(range(100))
    for slots in (first, second):
        assert slots not in (sorted(slots), sorted(slots, reverse=True))


def test_each_group_has_a_pool_of_its_own():
    manager = make_manager(FULL, FULL, num_blocks=10)
    request = LlmRequest(1, [0])
    manager.resize(request, 40)
    first, second = manager.get_page_indices_by_layer_group(request)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_pages_are_freed_on_a_shrink_and_when_the_request_leaves():
    manager = make_manager(FULL, SLIDING)
    request, other = LlmRequest(1, [0]), LlmRequest(2, [0])
    manager.resize(request, 40)
    manager.resize(other, 8)
    assert count_free_blocks(manager) == 8
    manager.resize(request, 16)
    assert count_free_blocks(manager) == 14
    manager.free_resources(request)
    manager.free_resources(request)  # It holds nothing any more.
    assert count_free_blocks(manager) == 18
    assert sorted(manager.kv_cache_map) == [2]


def test_what_was_taken_before_a_pool_ran_out_is_not_lost():
    manager = make_manager(FULL, FULL)
    request, other = LlmRequest(1, [0]), LlmRequest(2, [0])
    manager.resize(request, 60)
    with pytest.raises(OutOfPagesError):
        manager.resize(other, 24)
    manager.free_resources(other)
    assert count_free_blocks(manager) == 5


def test_pages_that_went_stale_are_freed_by_the_next_growth():
    kv_cache, pools = make_cache(FULL, SLIDING)
    kv_cache.resize(16)
    kv_cache.history_length = 12  # Position 12 sees 9 to 12: blocks 0 and 1 are behind.
    kv_cache.resize(16)
    assert free_pages(pools) == [6, 6]
    kv_cache.resize(20)
    assert free_pages(pools) == [5, 7]
    assert [page == -1 for page in pages(kv_cache, 1)] == [True, True, False, False, False]
    assert kv_cache.num_blocks == 5


def test_a_shrink_frees_the_pages_at_the_end_and_a_close_all():
    kv_cache, pools = make_cache(FULL, SLIDING)
    kv_cache.resize(16)
    kv_cache.history_length = 12
    kv_cache.resize(20)
    kv_cache.resize(12)  # Blocks 3 and 4 of both; the sliding group is left with one page.
    assert free_pages(pools) == [7, 9]
    kv_cache.resize(8)
    assert free_pages(pools) == [8, 10]
    assert pages(kv_cache, 1) == [-1, -1]
    kv_cache.close()
    assert free_pages(pools) == [10, 10]
    assert kv_cache.num_blocks == 0


def test_a_block_that_is_stale_from_the_start_gets_no_page():
    kv_cache, pools = make_cache(FULL, LayerGroup(window=4, sink_tokens=1))
    kv_cache.history_length = 15  # Computed elsewhere, for example.
    kv_cache.resize(20)
    assert free_pages(pools) == [5, 7]
    assert [page == -1 for page in pages(kv_cache, 1)] == [False, True, True, False, False]


def test_freed_pages_find_a_new_owner():
    kv_cache, pools = make_cache(SLIDING)
    # 25 blocks from a pool of ten pages: no more than three are readable at once.
    for capacity in range(4, 101, 4):
        kv_cache.history_length = capacity - 4
        kv_cache.resize(capacity)
    assert kv_cache.num_blocks == 25
    assert len(pools[0]) >= 7
