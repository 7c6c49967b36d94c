"""What the arms beyond incremental would have the native side offer: the same, from a point on."""

import random

import pytest

from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import Provider


@pytest.mark.parametrize("backend", ["list", "generator"])
def test_a_range_of_pages_is_the_rest_of_the_masked_lists(provider: Provider, backend: str):
    groups = (LayerGroup(), LayerGroup(window=6, sink_tokens=3))
    manager = provider.KVCacheManagerV2(
        50, tokens_per_block=2, layer_groups=groups, page_backend=backend, rng=random.Random(1)
    )
    request = provider.LlmRequest(5, range(20))
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


def test_ranges_of_v1_are_the_rest_of_its_lists(provider: Provider):
    manager = provider.KVCacheManager(50, tokens_per_block=2, rng=random.Random(1))
    request = provider.LlmRequest(5, range(9))
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


@pytest.mark.parametrize("begin", [-1, -3, -(2**40)])
def test_a_negative_begin_is_the_first_block_and_token(provider: Provider, begin: int):
    v1 = provider.KVCacheManager(50, tokens_per_block=2, rng=random.Random(1))
    v2 = provider.KVCacheManagerV2(
        50, tokens_per_block=2, layer_groups=[LayerGroup(window=2)], rng=random.Random(1)
    )
    request = provider.LlmRequest(5, range(9))
    for manager in (v1, v2):
        manager.resize(request, 9)
        manager.update_history(request, 6)
    blocks, hashes = v1.get_cache_indices(request), v1.commit_and_get_block_hashes(request)
    pages = v2.get_page_indices_by_layer_group(request)
    assert pages[0].count(-1) == 2
    assert v1.get_cache_indices_range(request, begin) == blocks
    assert v1.get_block_hashes_after(request, begin, hashes[-1]) == (0, hashes)
    assert v2.get_page_indices_range(request, begin) == pages
    everything = [9], [list(range(9))]
    assert v2.get_batch_updates([request], [begin], [begin]) == (*everything, [pages])
    updates = v1.get_batch_updates([request], [begin], [begin], [begin], [0])
    assert updates == (*everything, [blocks], [0], [hashes])


def test_an_empty_batch_has_empty_updates(provider: Provider, rng: random.Random):
    v1 = provider.KVCacheManager(4, rng=rng)
    v2 = provider.KVCacheManagerV2(4, rng=rng)
    assert v1.get_batch_updates([], [], [], [], []) == ([], [], [], [], [])
    assert v2.get_batch_updates([], [], []) == ([], [], [])


def test_the_lists_of_a_batch_call_have_an_entry_for_each_request(
    provider: Provider, rng: random.Random
):
    v1 = provider.KVCacheManager(4, rng=rng)
    v2 = provider.KVCacheManagerV2(4, rng=rng)
    request = provider.LlmRequest(5, range(9))
    for manager, known in ((v1, 4), (v2, 2)):
        manager.resize(request, 9)
        for short in range(known):
            arguments = [[0]] * known
            arguments[short] = []
            with pytest.raises(ValueError):  # noqa: PT011 - the words are each provider's own
                manager.get_batch_updates([request], *arguments)


def test_the_lists_of_every_call_are_the_callers_own(provider: Provider):
    v1 = provider.KVCacheManager(50, tokens_per_block=2, rng=random.Random(1))
    v2 = provider.KVCacheManagerV2(50, tokens_per_block=2, rng=random.Random(1))
    request = provider.LlmRequest(5, range(9))
    v1.resize(request, 9)
    v2.resize(request, 9)
    for call in (
        lambda: v1.get_cache_indices_range(request, 1),
        lambda: v1.get_block_hashes_after(request, 0, 0)[1],
        lambda: v1.get_batch_updates([request], [0], [0], [0], [0])[1][0],
        lambda: v1.get_batch_updates([request], [0], [0], [0], [0])[2][0],
        lambda: v1.get_batch_updates([request], [0], [0], [0], [0])[4][0],
        lambda: v2.get_page_indices_range(request, 1)[0],
        lambda: v2.get_batch_updates([request], [0], [0])[1][0],
        lambda: v2.get_batch_updates([request], [0], [0])[2][0][0],
    ):
        before = call()
        assert len(before) >= 4
        call().clear()
        assert call() == before
