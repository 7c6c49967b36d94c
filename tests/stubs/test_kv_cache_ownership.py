"""Random allocations: no page has two owners, and none gets lost."""

import random
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import BAD_PAGE_INDEX, KvCache, LayerGroup
from stubs.pages import OutOfPagesError, PagePool
from stubs.request import LlmRequest

from .counting import count_free_blocks

GROUPS = (LayerGroup(), LayerGroup(window=5), LayerGroup(window=9, sink_tokens=6))
PAGES = 24
SIZE = 4


def assert_owned_once(owners: list[list[int]], free: int) -> None:
    held = list(chain.from_iterable(owners))
    assert len(set(held)) == len(held)
    assert len(held) + free == PAGES


@given(
    st.lists(
        # Which cache, its new capacity, its history; a capacity of 0 closes it.
        st.tuples(st.integers(0, 2), st.integers(0, 70), st.integers(0, 70)),
        max_size=30,
    )
)
@settings(deadline=None, max_examples=150)
def test_v2_pages(steps: list[tuple[int, int, int]]):
    pools = [PagePool(PAGES, random.Random(index)) for index in range(len(GROUPS))]
    caches = [KvCache(GROUPS, pools, SIZE, "list") for _ in range(3)]
    for which, capacity, history in steps:
        kv_cache = caches[which]
        kv_cache.history_length = history
        before = kv_cache.num_blocks
        try:
            if capacity:
                kv_cache.resize(capacity)
            else:
                kv_cache.close()
        except OutOfPagesError:
            kv_cache.close()
        for index, (group, pool) in enumerate(zip(GROUPS, pools, strict=True)):
            valid = [list(cache.get_aggregated_page_indices(index, True)) for cache in caches]
            assert_owned_once(valid, len(pool))
            pages = list(kv_cache.get_aggregated_page_indices(index))
            if kv_cache.num_blocks > before:
                begin, end = group.stale_range(history, SIZE)
                assert set(pages[begin:end]) <= {BAD_PAGE_INDEX}
    for kv_cache in caches:
        kv_cache.close()
    assert [len(pool) for pool in pools] == [PAGES] * 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 70)), max_size=30))
@settings(deadline=None, max_examples=150)
def test_v1_blocks(steps: list[tuple[int, int]]):
    manager = KVCacheManager(PAGES, tokens_per_block=SIZE, rng=random.Random(1))
    requests = [LlmRequest(index, [0]) for index in range(3)]
    for request in requests:
        manager.resize(request, 0)
    for which, capacity in steps:
        try:
            manager.resize(requests[which], capacity)
        except OutOfPagesError:
            manager.free_resources(requests[which])
            manager.resize(requests[which], 0)
        owners = [manager.get_cache_indices(request) for request in requests]
        assert_owned_once(owners, count_free_blocks(manager))
    for request in requests:
        manager.free_resources(request)
    assert count_free_blocks(manager) == PAGES
