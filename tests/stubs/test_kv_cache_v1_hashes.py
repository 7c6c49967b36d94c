import random

import pytest

from connector.interfaces import LlmRequestState
from stubs.kv_cache_v1 import KVCacheManager
from stubs.providers import Provider
from stubs.request import LlmRequest

PROMPT = list(range(100, 116))  # Four blocks of four tokens.


def make_manager(provider: Provider, seed: int = 1) -> KVCacheManager:
    return provider.KVCacheManager(64, tokens_per_block=4, rng=random.Random(seed))


def hashes_of(
    provider: Provider, tokens: list[int], request_id: int = 1, seed: int = 1
) -> list[int]:
    manager = make_manager(provider, seed)
    request = provider.LlmRequest(request_id, tokens)
    manager.resize(request, len(tokens))
    return manager.commit_and_get_block_hashes(request)


@pytest.mark.parametrize(
    ("length", "full"), [(1, 0), (3, 0), (4, 1), (5, 1), (7, 1), (8, 2), (15, 3), (16, 4)]
)
def test_only_full_blocks_have_a_hash(provider: Provider, length: int, full: int):
    assert hashes_of(provider, PROMPT[:length]) == hashes_of(provider, PROMPT)[:full]
    assert len(hashes_of(provider, PROMPT[:length])) == full


def test_only_blocks_that_are_held_have_a_hash(provider: Provider):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT)
    manager.resize(request, 8)
    assert manager.commit_and_get_block_hashes(request) == hashes_of(provider, PROMPT)[:2]
    manager.resize(request, 0)
    assert manager.commit_and_get_block_hashes(request) == []


def test_hashes_join_as_the_sequence_grows(provider: Provider):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT[:6])
    manager.resize(request, 16)
    counts = []
    for token in PROMPT[6:]:
        counts.append(len(manager.commit_and_get_block_hashes(request)))
        request.add_new_token(token, 0)
    assert counts == [1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert manager.commit_and_get_block_hashes(request) == hashes_of(provider, PROMPT)


def test_a_hash_depends_on_tokens_alone(provider: Provider):
    assert hashes_of(provider, PROMPT, request_id=2, seed=5) == hashes_of(provider, PROMPT)


@pytest.mark.parametrize("position", range(16))
def test_a_token_changes_its_blocks_hash_and_those_after(provider: Provider, position: int):
    changed = PROMPT.copy()
    changed[position] += 1
    block = position // 4
    before, after = hashes_of(provider, PROMPT), hashes_of(provider, changed)
    assert after[:block] == before[:block]
    assert all(new != old for new, old in zip(after[block:], before[block:], strict=True))


def test_equal_blocks_at_different_places_have_different_hashes(provider: Provider):
    assert len(set(hashes_of(provider, [7] * 16))) == 4


def test_equal_prefixes_have_equal_hashes_in_one_manager(provider: Provider):
    manager = make_manager(provider)
    requests = [provider.LlmRequest(1, PROMPT), provider.LlmRequest(2, [*PROMPT[:9], 1, 2, 3, 4])]
    for request in requests:
        manager.resize(request, 16)
    first, second = map(manager.commit_and_get_block_hashes, requests)
    assert first[:2] == second[:2]
    assert len(second) == 3
    assert first[2] != second[2]


def rewind_and_change(request: LlmRequest, length: int, tokens: list[int]) -> None:
    request.pause(length)
    request.state = LlmRequestState.GENERATION_IN_PROGRESS
    for token in tokens:
        request.add_new_token(token, 0)


def test_a_committed_hash_stays(provider: Provider):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT[:8])
    manager.resize(request, 16)
    committed = manager.commit_and_get_block_hashes(request)
    # Blocks 1 and 2 with other tokens: block 1 has its hash already, and block 2's builds on it.
    rewind_and_change(request, 4, [1, 2, 3, 4])
    assert (
        manager.commit_and_get_block_hashes(request) == committed == hashes_of(provider, PROMPT)[:2]
    )


def test_a_rewound_sequence_shows_the_hashes_of_its_full_blocks_and_keeps_the_rest(
    provider: Provider,
):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT)
    manager.resize(request, 16)
    committed = manager.commit_and_get_block_hashes(request)
    rewind_and_change(request, 10, [])
    assert manager.commit_and_get_block_hashes(request) == committed[:2]
    rewind_and_change(request, 10, PROMPT[10:])
    assert manager.commit_and_get_block_hashes(request) == committed


def test_the_hash_of_a_freed_block_is_forgotten(provider: Provider):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT[:8])
    manager.resize(request, 8)
    manager.commit_and_get_block_hashes(request)
    manager.resize(request, 4)
    rewind_and_change(request, 4, [1, 2, 3, 4])
    manager.resize(request, 8)
    assert manager.commit_and_get_block_hashes(request) == hashes_of(
        provider, [*PROMPT[:4], 1, 2, 3, 4]
    )


def test_a_request_that_comes_back_is_hashed_anew(provider: Provider):
    manager = make_manager(provider)
    request = provider.LlmRequest(1, PROMPT[:8])
    manager.resize(request, 8)
    manager.commit_and_get_block_hashes(request)
    manager.free_resources(request)
    again = provider.LlmRequest(1, PROMPT[8:])
    manager.resize(again, 8)
    assert manager.commit_and_get_block_hashes(again) == hashes_of(provider, PROMPT[8:])
