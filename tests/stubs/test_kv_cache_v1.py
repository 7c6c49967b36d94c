import random

import pytest

from connector import interfaces
from stubs.kv_cache_v1 import KVCacheManager
from stubs.pages import OutOfPagesError
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

from .counting import count_free_blocks


@pytest.fixture
def manager(rng: random.Random) -> KVCacheManager:
    """Twenty blocks of four tokens."""
    return KVCacheManager(20, tokens_per_block=4, rng=rng)


def make_request(request_id: int, length: int) -> LlmRequest:
    return LlmRequest(request_id, range(100, 100 + length))


def test_blocks_hold_32_tokens_unless_told_otherwise(rng: random.Random):
    manager = KVCacheManager(4, rng=rng)
    request = make_request(1, 40)
    manager.resize(request, 40)
    assert manager.tokens_per_block == 32
    assert len(manager.get_cache_indices(request)) == 2


def test_it_is_told_from_v2(manager: KVCacheManager):
    assert not isinstance(manager, interfaces.KVCacheManagerV2)


@pytest.mark.parametrize(
    ("capacity", "blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (79, 20), (80, 20)]
)
def test_there_are_blocks_for_the_capacity(manager: KVCacheManager, capacity: int, blocks: int):
    request = make_request(1, 4)
    manager.resize(request, capacity)
    assert len(manager.get_cache_indices(request)) == blocks
    assert count_free_blocks(manager) == 20 - blocks


def test_growing_appends_and_shrinking_cuts_the_end(manager: KVCacheManager):
    request = make_request(1, 4)
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


def test_block_ids_are_unique_and_are_no_ordinals(rng: random.Random):
    manager = KVCacheManager(100, tokens_per_block=4, rng=rng)
    requests = [make_request(index, 4) for index in range(2)]
    for capacity in range(20, 201, 20):
        for request in requests:
            manager.resize(request, capacity)
    first, second = (manager.get_cache_indices(request) for request in requests)
    assert sorted(first + second) == list(range(100))
    for ids in (first, second):
        assert ids not in (sorted(ids), sorted(ids, reverse=True))


def test_blocks_are_freed_on_a_shrink_and_when_the_request_leaves(manager: KVCacheManager):
    request, other = make_request(1, 4), make_request(2, 4)
    manager.resize(request, 40)
    manager.resize(other, 8)
    assert count_free_blocks(manager) == 8
    manager.resize(request, 16)
    assert count_free_blocks(manager) == 14
    manager.free_resources(request)
    assert count_free_blocks(manager) == 18
    manager.free_resources(request)  # It holds nothing any more.
    assert count_free_blocks(manager) == 18
    assert len(manager.get_cache_indices(other)) == 2


def test_a_request_without_blocks_is_a_key_error(manager: KVCacheManager):
    request = make_request(1, 4)
    for call in (manager.get_cache_indices, manager.commit_and_get_block_hashes):
        with pytest.raises(KeyError):
            call(request)
    manager.resize(request, 4)
    manager.free_resources(request)
    for call in (manager.get_cache_indices, manager.commit_and_get_block_hashes):
        with pytest.raises(KeyError):
            call(request)


def test_what_was_taken_before_the_pool_ran_out_is_not_lost(manager: KVCacheManager):
    request, other = make_request(1, 4), make_request(2, 4)
    manager.resize(request, 60)
    with pytest.raises(OutOfPagesError):
        manager.resize(other, 24)
    manager.free_resources(other)
    assert count_free_blocks(manager) == 5


def test_update_history_changes_nothing(manager: KVCacheManager):
    request = make_request(1, 16)
    manager.resize(request, 16)
    blocks = manager.get_cache_indices(request)
    manager.update_history(request, 15)
    assert manager.get_cache_indices(request) == blocks


def test_the_lists_are_the_callers_own(manager: KVCacheManager):
    request = make_request(1, 8)
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


def test_the_default_priority_is_35(manager: KVCacheManager):
    request = make_request(1, 8)
    manager.resize(request, 8)
    assert priorities(manager, request) == [35, 35]
    assert manager.get_priority_by_block_id(999) == 35


def test_a_block_has_the_priority_of_its_first_token(manager: KVCacheManager):
    # Blocks begin at 0, 4, 8, 12 and 16; the prompt ends at 14, amid the fourth.
    ranges = [TokenRangeRetention(0, 5, 80), TokenRangeRetention(10, None, 10)]
    config = KvCacheRetentionConfig(ranges, decode_priority=55)
    request = LlmRequest(1, range(14), retention_config=config)
    manager.resize(request, 14)
    assert priorities(manager, request) == [80, 80, 35, 10]
    # Blocks that come later are those of generated tokens.
    manager.resize(request, 20)
    assert priorities(manager, request) == [80, 80, 35, 10, 55]


def test_the_priority_goes_with_the_block(manager: KVCacheManager):
    config = KvCacheRetentionConfig([TokenRangeRetention(0, None, 90)])
    request = LlmRequest(1, range(12), retention_config=config)
    manager.resize(request, 12)
    blocks = manager.get_cache_indices(request)
    manager.resize(request, 4)
    assert [manager.get_priority_by_block_id(block) for block in blocks] == [90, 35, 35]
    manager.free_resources(request)
    assert [manager.get_priority_by_block_id(block) for block in blocks] == [35, 35, 35]
    # The next owner of all blocks has no config.
    other = make_request(2, 80)
    manager.resize(other, 80)
    assert priorities(manager, other) == [35] * 20
