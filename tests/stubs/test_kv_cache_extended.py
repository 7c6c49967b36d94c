"""What the arms beyond incremental would have the native side offer: the same, from a point on."""

import random

import pytest

from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup
from stubs.request import LlmRequest


@pytest.mark.parametrize("backend", ["list", "generator"])
def test_a_range_of_pages_is_the_rest_of_the_masked_lists(backend: str):
    groups = (LayerGroup(), LayerGroup(window=6, sink_tokens=3))
    manager = KVCacheManagerV2(
        50, tokens_per_block=2, layer_groups=groups, page_backend=backend, rng=random.Random(1)
    )
    request = LlmRequest(5, range(20))
    assert manager.num_layer_groups == 2
    assert manager.get_num_blocks(request) == 0
    assert manager.get_page_indices_range(request, 0) == [[], []]

    manager.resize(request, 20)
    for history in range(21):
        manager.update_history(request, history)
        whole = manager.get_page_indices_by_layer_group(request)
        assert manager.get_num_blocks(request) == 10
        for begin in range(12):
            expected = [indices[begin:] for indices in whole]
            assert manager.get_page_indices_range(request, begin) == expected
            updates = manager.get_batch_updates([request, request], [18, 21], [begin, 0])
            assert updates == ([20, 20], [[18, 19], []], [expected, whole])


def test_ranges_of_v1_are_the_rest_of_its_lists():
    manager = KVCacheManager(50, tokens_per_block=2, rng=random.Random(1))
    request = LlmRequest(5, range(9))
    manager.resize(request, 9)
    blocks, hashes = (
        manager.get_cache_indices(request),
        manager.commit_and_get_block_hashes(request),
    )

    assert manager.get_num_blocks(request) == 5
    assert manager.get_cache_indices_range(request, 3) == blocks[3:]
    assert manager.get_cache_indices_range(request, 7) == []
    assert manager.get_block_hashes_after(request, 0, 0) == (0, hashes)
    assert manager.get_block_hashes_after(request, 3, hashes[2]) == (3, hashes[3:])
    assert manager.get_block_hashes_after(request, 4, hashes[3]) == (4, [])
    # Another hash, or more hashes than there are full blocks: nothing of the chain holds.
    assert manager.get_block_hashes_after(request, 3, hashes[2] + 1) == (0, hashes)
    assert manager.get_block_hashes_after(request, 5, hashes[3]) == (0, hashes)
    assert manager.get_batch_updates(
        [request, request], [7, 0], [4, 0], [2, 1], [hashes[1], hashes[1]]
    ) == (
        [9, 9],
        [[7, 8], list(range(9))],
        [blocks[4:], blocks],
        [2, 0],
        [hashes[2:], hashes],
    )
