import inspect
import random

import pytest

from connector import interfaces
from stubs.kv_cache_v2 import BAD_PAGE_INDEX, KVCacheManagerV2, LayerGroup, PageBackend
from stubs.pages import OutOfPagesError
from stubs.providers import Provider

from .counting import count_free_blocks

FULL, SLIDING = LayerGroup(), LayerGroup(window=4)
BOTH_BACKENDS = pytest.mark.parametrize("backend", ["list", "generator"])


def make_manager(
    provider: Provider,
    *layer_groups: LayerGroup,
    num_blocks: int = 20,
    backend: PageBackend = "list",
    seed: int = 7,
) -> KVCacheManagerV2:
    """Blocks of four tokens."""
    return provider.KVCacheManagerV2(
        num_blocks,
        tokens_per_block=4,
        layer_groups=layer_groups or (FULL,),
        page_backend=backend,
        rng=random.Random(seed),
    )


class Allocation:
    """One request in a manager of ten pages a layer group, blocks of four tokens."""

    def __init__(
        self, provider: Provider, *layer_groups: LayerGroup, backend: PageBackend = "list"
    ) -> None:
        self.manager = make_manager(provider, *layer_groups, num_blocks=10, backend=backend)
        self.request = provider.LlmRequest(1, [0])
        self.resize(0)

    @property
    def kv_cache(self):
        return self.manager.kv_cache_map[1]

    def resize(self, capacity: int) -> None:
        self.manager.resize(self.request, capacity)

    def update_history(self, history: int) -> None:
        self.manager.update_history(self.request, history)

    def close(self) -> None:
        self.manager.free_resources(self.request)

    def free_pages(self) -> list[int]:
        return [len(pool) for pool in self.manager._pools]

    def pages(self, layer_group: int) -> list[int]:
        return list(self.kv_cache.get_aggregated_page_indices(layer_group))


def test_a_manager_has_blocks_of_32_tokens_and_one_full_layer_group_by_default(
    provider: Provider,
    rng: random.Random,
):
    manager = provider.KVCacheManagerV2(4, rng=rng)
    assert manager.tokens_per_block == 32
    assert manager.layer_groups == (LayerGroup(window=None, sink_tokens=0),)
    assert isinstance(manager, interfaces.KVCacheManagerV2)


def test_a_manager_needs_a_layer_group(provider: Provider, rng: random.Random):
    with pytest.raises(ValueError, match="a manager needs at least one layer group"):
        provider.KVCacheManagerV2(4, layer_groups=[], rng=rng)


@pytest.mark.parametrize("capacity", [0, 1, 4, 5, 8, 40])
def test_there_is_a_list_per_group_and_a_page_per_block(provider: Provider, capacity: int):
    manager = make_manager(provider, FULL, FULL, FULL)
    request = provider.LlmRequest(1, [0])
    manager.resize(request, capacity)
    lists = manager.get_page_indices_by_layer_group(request)
    blocks = {0: 0, 1: 1, 4: 1, 5: 2, 8: 2, 40: 10}[capacity]
    assert [len(indices) for indices in lists] == [blocks] * 3
    assert manager.kv_cache_map[1].num_blocks == blocks


def test_without_a_cache_there_is_an_empty_list_per_group(provider: Provider):
    manager = make_manager(provider, FULL, SLIDING)
    request = provider.LlmRequest(1, [0])
    first = manager.get_page_indices_by_layer_group(request)
    assert first == [[], []]
    first[0].append(3)
    assert manager.get_page_indices_by_layer_group(request) == [[], []]
    manager.resize(request, 8)
    manager.free_resources(request)
    assert manager.get_page_indices_by_layer_group(request) == [[], []]


@BOTH_BACKENDS
def test_the_lists_are_the_callers_own(provider: Provider, backend: PageBackend):
    manager = make_manager(provider, FULL, SLIDING, backend=backend)
    request = provider.LlmRequest(1, [0])
    manager.resize(request, 20)
    manager.update_history(request, 15)
    before = manager.get_page_indices_by_layer_group(request)
    spoilt = manager.get_page_indices_by_layer_group(request)
    spoilt[0].clear()
    spoilt[1][0] = 99
    spoilt.pop()
    assert manager.get_page_indices_by_layer_group(request) == before


def test_the_backends_return_what_they_are_named_for(provider: Provider):
    allocations = [Allocation(provider, FULL, backend=backend) for backend in ("list", "generator")]
    for allocation in allocations:
        allocation.resize(12)
    whole, generator = (
        allocation.kv_cache.get_aggregated_page_indices(0) for allocation in allocations
    )
    assert isinstance(whole, list)
    assert len(whole) == 3
    assert inspect.isgenerator(generator)
    assert list(generator) == whole
    assert list(generator) == []  # It runs once.


@BOTH_BACKENDS
def test_valid_only_leaves_out_blocks_without_a_page(provider: Provider, backend: PageBackend):
    allocation = Allocation(provider, SLIDING, backend=backend)
    allocation.resize(12)
    three = allocation.pages(0)
    allocation.update_history(12)
    allocation.resize(16)
    assert allocation.pages(0)[:3] == [-1, -1, three[2]]
    valid = allocation.kv_cache.get_aggregated_page_indices(0, valid_only=True)
    assert list(valid) == allocation.pages(0)[2:]


@BOTH_BACKENDS
def test_masking_is_in_place_and_never_shortens_the_list(provider: Provider, backend: PageBackend):
    manager = make_manager(
        provider, FULL, SLIDING, LayerGroup(window=4, sink_tokens=2), backend=backend
    )
    request = provider.LlmRequest(1, [0])
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


def test_a_stale_range_past_the_last_block_masks_what_there_is(provider: Provider):
    manager = make_manager(provider, SLIDING)
    request = provider.LlmRequest(1, [0])
    manager.resize(request, 8)
    manager.update_history(request, 100)
    assert manager.get_page_indices_by_layer_group(request) == [[-1, -1]]
    assert manager.get_page_indices_range(request, 0) == [[-1, -1]]
    assert manager.get_page_indices_range(request, 1) == [[-1]]
    assert manager.get_batch_updates([request], [0], [0]) == ([1], [[0]], [[[-1, -1]]])


def test_a_stale_block_has_its_page_until_the_next_growth(provider: Provider):
    manager = make_manager(provider, SLIDING)
    request = provider.LlmRequest(1, [0])
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


def test_page_slots_are_unique_and_are_no_ordinals(provider: Provider):
    manager = make_manager(provider, num_blocks=100)
    requests = [provider.LlmRequest(index, [0]) for index in range(2)]
    for capacity in range(20, 201, 20):
        for request in requests:
            manager.resize(request, capacity)
    first, second = (manager.get_page_indices_by_layer_group(request)[0] for request in requests)
    assert sorted(first + second) == list(range(100))
    for slots in (first, second):
        assert slots not in (sorted(slots), sorted(slots, reverse=True))


def test_a_negative_capacity_or_history_is_an_error(provider: Provider):
    allocation = Allocation(provider, SLIDING)
    allocation.resize(16)
    allocation.update_history(9)
    before = allocation.manager.get_page_indices_by_layer_group(allocation.request)
    with pytest.raises(ValueError, match="capacity must not be negative, not -1"):
        allocation.resize(-1)
    with pytest.raises(ValueError, match="history must not be negative, not -1"):
        allocation.update_history(-1)
    assert allocation.manager.get_page_indices_by_layer_group(allocation.request) == before


@pytest.mark.parametrize("size", [0, -4])
def test_a_block_holds_a_token(provider: Provider, rng: random.Random, size: int):
    with pytest.raises(ValueError, match=f"tokens_per_block must be at least 1, not {size}"):
        provider.KVCacheManagerV2(4, tokens_per_block=size, rng=rng)


def test_each_group_has_a_pool_of_its_own(provider: Provider):
    manager = make_manager(provider, FULL, FULL, num_blocks=10)
    request = provider.LlmRequest(1, [0])
    manager.resize(request, 40)
    first, second = manager.get_page_indices_by_layer_group(request)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_pages_are_freed_on_a_shrink_and_when_the_request_leaves(provider: Provider):
    manager = make_manager(provider, FULL, SLIDING)
    request, other = provider.LlmRequest(1, [0]), provider.LlmRequest(2, [0])
    manager.resize(request, 40)
    manager.resize(other, 8)
    assert count_free_blocks(provider, manager) == 8
    manager.resize(request, 16)
    assert count_free_blocks(provider, manager) == 14
    manager.free_resources(request)
    manager.free_resources(request)  # It holds nothing any more.
    assert count_free_blocks(provider, manager) == 18
    assert sorted(manager.kv_cache_map) == [2]


def test_what_was_taken_before_a_pool_ran_out_is_not_lost(provider: Provider):
    manager = make_manager(provider, FULL, FULL)
    request, other = provider.LlmRequest(1, [0]), provider.LlmRequest(2, [0])
    manager.resize(request, 60)
    with pytest.raises(OutOfPagesError):
        manager.resize(other, 24)
    manager.free_resources(other)
    assert count_free_blocks(provider, manager) == 5


def test_pages_that_went_stale_are_freed_by_the_next_growth(provider: Provider):
    allocation = Allocation(provider, FULL, SLIDING)
    allocation.resize(16)
    allocation.update_history(12)  # Position 12 sees 9 to 12: blocks 0 and 1 are behind.
    allocation.resize(16)
    assert allocation.free_pages() == [6, 6]
    allocation.resize(20)
    assert allocation.free_pages() == [5, 7]
    assert [page == -1 for page in allocation.pages(1)] == [True, True, False, False, False]
    assert allocation.kv_cache.num_blocks == 5


def test_a_shrink_frees_the_pages_at_the_end_and_a_close_all(provider: Provider):
    allocation = Allocation(provider, FULL, SLIDING)
    allocation.resize(16)
    allocation.update_history(12)
    allocation.resize(20)
    allocation.resize(12)  # Blocks 3 and 4 of both; the sliding group is left with one page.
    assert allocation.free_pages() == [7, 9]
    allocation.resize(8)
    assert allocation.free_pages() == [8, 10]
    assert allocation.pages(1) == [-1, -1]
    allocation.close()
    assert allocation.free_pages() == [10, 10]
    assert allocation.manager.get_num_blocks(allocation.request) == 0


def test_a_block_that_is_stale_from_the_start_gets_no_page(provider: Provider):
    allocation = Allocation(provider, FULL, LayerGroup(window=4, sink_tokens=1))
    allocation.update_history(15)  # Computed elsewhere, for example.
    allocation.resize(20)
    assert allocation.free_pages() == [5, 7]
    assert [page == -1 for page in allocation.pages(1)] == [False, True, True, False, False]


def test_freed_pages_find_a_new_owner(provider: Provider):
    allocation = Allocation(provider, SLIDING)
    # 25 blocks from a pool of ten pages: no more than three are readable at once.
    for capacity in range(4, 101, 4):
        allocation.update_history(capacity - 4)
        allocation.resize(capacity)
    assert allocation.kv_cache.num_blocks == 25
    assert allocation.free_pages()[0] >= 7
