"""Random allocations: no page has two owners, and none gets lost."""

import random
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from stubs.kv_cache_v2 import BAD_PAGE_INDEX, LayerGroup
from stubs.pages import OutOfPagesError
from stubs.providers import Provider

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
def test_v2_pages(provider: Provider, steps: list[tuple[int, int, int]]):
    manager = provider.KVCacheManagerV2(
        PAGES, tokens_per_block=SIZE, layer_groups=GROUPS, rng=random.Random(1)
    )
    requests = [provider.LlmRequest(index, [0]) for index in range(3)]
    for request in requests:
        manager.resize(request, 0)
    for which, capacity, history in steps:
        request = requests[which]
        manager.update_history(request, history)
        before = manager.get_num_blocks(request)
        try:
            if capacity:
                manager.resize(request, capacity)
            else:
                manager.free_resources(request)
        except OutOfPagesError:
            manager.free_resources(request)
        for index, (group, pool) in enumerate(zip(GROUPS, manager._pools, strict=True)):
            valid = [
                list(kv_cache.get_aggregated_page_indices(index, True))
                for kv_cache in manager.kv_cache_map.values()
            ]
            assert_owned_once(valid, len(pool))
            if manager.get_num_blocks(request) > before:
                kv_cache = manager.kv_cache_map[which]
                pages = list(kv_cache.get_aggregated_page_indices(index))
                begin, end = group.stale_range(history, SIZE)
                assert set(pages[begin:end]) <= {BAD_PAGE_INDEX}
        manager.resize(request, manager.get_num_blocks(request) * SIZE)
    for request in requests:
        manager.free_resources(request)
    assert [len(pool) for pool in manager._pools] == [PAGES] * 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 70)), max_size=30))
@settings(deadline=None, max_examples=150)
def test_v1_blocks(provider: Provider, steps: list[tuple[int, int]]):
    manager = provider.KVCacheManager(PAGES, tokens_per_block=SIZE, rng=random.Random(1))
    requests = [provider.LlmRequest(index, [0]) for index in range(3)]
    for request in requests:
        manager.resize(request, 0)
    for which, capacity in steps:
        try:
            manager.resize(requests[which], capacity)
        except OutOfPagesError:
            manager.free_resources(requests[which])
            manager.resize(requests[which], 0)
        owners = [manager.get_cache_indices(request) for request in requests]
        assert_owned_once(owners, count_free_blocks(provider, manager))
    for request in requests:
        manager.free_resources(request)
    assert count_free_blocks(provider, manager) == PAGES
