import random

import pytest

from connector import interfaces
from stubs.kv_cache_v1 import KVCacheManager
from stubs.pages import OutOfPagesError
from stubs.providers import Provider
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

from .counting import count_free_blocks


@pytest.fixture
def manager(provider: Provider, rng: random.Random) -> KVCacheManager:
    """Twenty blocks of four tokens."""
    return provider.KVCacheManager(20, tokens_per_block=4, rng=rng)


def make_request(provider: Provider, request_id: int, length: int) -> LlmRequest:
    return provider.LlmRequest(request_id, range(100, 100 + length))


def test_blocks_hold_32_tokens_unless_told_otherwise(provider: Provider, rng: random.Random):
    manager = provider.KVCacheManager(4, rng=rng)
    request = make_request(provider, 1, 40)
    manager.resize(request, 40)
    assert manager.tokens_per_block == 32
    assert len(manager.get_cache_indices(request)) == 2


def test_it_is_told_from_v2(manager: KVCacheManager):
    assert not isinstance(manager, interfaces.KVCacheManagerV2)


@pytest.mark.parametrize(
    ("capacity", "blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (79, 20), (80, 20)]
)
def test_there_are_blocks_for_the_capacity(
    provider: Provider, manager: KVCacheManager, capacity: int, blocks: int
):
    request = make_request(provider, 1, 4)
    manager.resize(request, capacity)
    assert len(manager.get_cache_indices(request)) == blocks
    assert count_free_blocks(provider, manager) == 20 - blocks


def test_growing_appends_and_shrinking_cuts_the_end(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 4)
    manager.resize(request, 12)
    three = manager.get_cache_indices(request)
    manager.resize(request, 17)
    five = manager.get_cache_indices(request)
    assert len(five) == 5
    assert five[:3] == three
    manager.resize(request, 8)
    assert manager.get_cache_indices(request) == three[:2]
    manager.resize(request, 6)  # Two blocks as before.
    assert manager.get_cache_indices(request) == three[:2]


def test_block_ids_are_unique_and_are_no_ordinals(provider: Provider, rng: random.Random):
    manager = provider.KVCacheManager(100, tokens_per_block=4, rng=rng)
    requests = [make_request(provider, index, 4) for index in range(2)]
    for capacity in range(20, 201, 20):
        for request in requests:
            manager.resize(request, capacity)
    first, second = (manager.get_cache_indices(request) for request in requests)
    assert sorted(first + second) == list(range(100))
    for ids in (first, second):
        assert ids not in (sorted(ids), sorted(ids, reverse=True))


def test_blocks_are_freed_on_a_shrink_and_when_the_request_leaves(
    provider: Provider, manager: KVCacheManager
):
    request, other = make_request(provider, 1, 4), make_request(provider, 2, 4)
    manager.resize(request, 40)
    manager.resize(other, 8)
    assert count_free_blocks(provider, manager) == 8
    manager.resize(request, 16)
    assert count_free_blocks(provider, manager) == 14
    manager.free_resources(request)
    assert count_free_blocks(provider, manager) == 18
    manager.free_resources(request)  # It holds nothing any more.
    assert count_free_blocks(provider, manager) == 18
    assert len(manager.get_cache_indices(other)) == 2


def test_a_request_without_blocks_is_a_key_error(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 4)
    calls = [
        lambda: manager.get_cache_indices(request),
        lambda: manager.commit_and_get_block_hashes(request),
        lambda: manager.get_num_blocks(request),
        lambda: manager.get_cache_indices_range(request, 0),
        lambda: manager.get_block_hashes_after(request, 0, 0),
        lambda: manager.get_batch_updates([request], [0], [0], [0], [0]),
    ]
    for call in calls:
        with pytest.raises(KeyError):
            call()
    manager.resize(request, 4)
    manager.free_resources(request)
    for call in calls:
        with pytest.raises(KeyError):
            call()


def test_a_negative_capacity_is_an_error(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 4)
    manager.resize(request, 8)
    with pytest.raises(ValueError, match="capacity must not be negative, not -1"):
        manager.resize(request, -1)
    assert manager.get_num_blocks(request) == 2


@pytest.mark.parametrize("size", [0, -4])
def test_a_block_holds_a_token(provider: Provider, rng: random.Random, size: int):
    with pytest.raises(ValueError, match=f"tokens_per_block must be at least 1, not {size}"):
        provider.KVCacheManager(4, tokens_per_block=size, rng=rng)


def test_what_was_taken_before_the_pool_ran_out_is_not_lost(
    provider: Provider, manager: KVCacheManager
):
    request, other = make_request(provider, 1, 4), make_request(provider, 2, 4)
    manager.resize(request, 60)
    with pytest.raises(OutOfPagesError):
        manager.resize(other, 24)
    manager.free_resources(other)
    assert count_free_blocks(provider, manager) == 5


def test_update_history_changes_nothing(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 16)
    manager.resize(request, 16)
    blocks = manager.get_cache_indices(request)
    manager.update_history(request, 15)
    assert manager.get_cache_indices(request) == blocks


def test_the_lists_are_the_callers_own(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 8)
    manager.resize(request, 8)
    blocks = manager.get_cache_indices(request)
    hashes = manager.commit_and_get_block_hashes(request)
    manager.get_cache_indices(request).clear()
    manager.commit_and_get_block_hashes(request).append(0)
    assert manager.get_cache_indices(request) == blocks
    assert manager.commit_and_get_block_hashes(request) == hashes


def priorities(manager: KVCacheManager, request: LlmRequest) -> list[int]:
    blocks = manager.get_cache_indices(request)
    return [manager.get_priority_by_block_id(block) for block in blocks]


def test_the_default_priority_is_35(provider: Provider, manager: KVCacheManager):
    request = make_request(provider, 1, 8)
    manager.resize(request, 8)
    assert priorities(manager, request) == [35, 35]
    assert manager.get_priority_by_block_id(999) == 35


def test_a_block_has_the_priority_of_its_first_token(provider: Provider, manager: KVCacheManager):
    # Blocks begin at 0, 4, 8, 12 and 16; the prompt ends at 14, amid the fourth.
    ranges = [TokenRangeRetention(0, 5, 80), TokenRangeRetention(10, None, 10)]
    config = KvCacheRetentionConfig(ranges, decode_priority=55)
    request = provider.LlmRequest(1, range(14), retention_config=config)
    manager.resize(request, 14)
    assert priorities(manager, request) == [80, 80, 35, 10]
    # Blocks that come later are those of generated tokens.
    manager.resize(request, 20)
    assert priorities(manager, request) == [80, 80, 35, 10, 55]


def test_the_priority_goes_with_the_block(provider: Provider, manager: KVCacheManager):
    config = KvCacheRetentionConfig([TokenRangeRetention(0, None, 90)])
    request = provider.LlmRequest(1, range(12), retention_config=config)
    manager.resize(request, 12)
    blocks = manager.get_cache_indices(request)
    manager.resize(request, 4)
    assert [manager.get_priority_by_block_id(block) for block in blocks] == [90, 35, 35]
    manager.free_resources(request)
    assert [manager.get_priority_by_block_id(block) for block in blocks] == [35, 35, 35]
    # The next owner of all blocks has no config.
    other = make_request(provider, 2, 80)
    manager.resize(other, 80)
    assert priorities(manager, other) == [35] * 20
