"""A sequence that shrinks and grows again, read through every call.

The change that was first measured reads ``get_tokens_range(0, seen, length)``: after a shrink that
range is reversed, and after the sequence has grown again it begins in the middle of what is new.
"""

import random

from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import Provider
from stubs.request import LlmRequest

ALL = list(range(100, 110))


def shrunk(provider: Provider, length: int, *regrown: int) -> LlmRequest:
    request = provider.LlmRequest(1, ALL)
    request.pause(length)
    for token in regrown:
        request.add_new_token(token, 0)
    return request


def read_through_every_call(request: LlmRequest) -> list[list[int]]:
    length = request.get_num_tokens(0)
    return [
        request.get_tokens(0),
        request.get_tokens()[0],
        [request.get_token(0, position) for position in range(length)],
        request.get_tokens_range(0, 0, length),
        request.get_tokens_range(0, -5, 10**9),
        request.get_tokens_view(0).tolist(),
    ]


def test_every_call_follows_a_shrink(provider: Provider):
    for length in range(1, 11):
        request = shrunk(provider, length)
        assert request.get_num_tokens(0) == length
        assert read_through_every_call(request) == [ALL[:length]] * 6


def test_every_call_follows_a_regrowth(provider: Provider):
    request = shrunk(provider, 6, 50, 51, 52, 53, 54)
    expected = [100, 101, 102, 103, 104, 105, 50, 51, 52, 53, 54]
    assert read_through_every_call(request) == [expected] * 6


def test_what_is_new_since_before_the_shrink_is_a_reversed_range_and_empty(provider: Provider):
    request = shrunk(provider, 6)
    seen = 10
    for length in range(6, 10):
        assert request.get_num_tokens(0) == length
        assert request.get_tokens_range(0, seen, length) == []
        request.add_new_token(length, 0)
    assert request.get_tokens_range(0, seen, request.get_num_tokens(0)) == []
    request.add_new_token(77, 0)
    assert request.get_tokens_range(0, seen, request.get_num_tokens(0)) == [77]


def test_a_range_over_the_cut_is_clamped_to_the_live_length(provider: Provider):
    request = shrunk(provider, 6)
    assert request.get_tokens_range(0, 10, 10) == []
    assert request.get_tokens_range(0, 4, 10) == [104, 105]
    assert request.get_tokens_range(0, 5, 6) == [105]


def test_managers_read_the_live_tokens(provider: Provider):
    request = shrunk(provider, 6, 50)
    v1 = provider.KVCacheManager(9, tokens_per_block=4, rng=random.Random(1))
    v2 = provider.KVCacheManagerV2(
        9, tokens_per_block=4, layer_groups=[LayerGroup()], rng=random.Random(1)
    )
    for manager in (v1, v2):
        manager.resize(request, 12)
        known = [[0], [0]] if manager is v1 else []
        for seen, new in ((0, [*ALL[:6], 50]), (6, [50]), (7, []), (10, []), (99, [])):
            lengths, tokens, *_ = manager.get_batch_updates([request], [seen], [3], *known)
            assert (lengths, tokens) == ([7], [new])


def test_beams_shrink_to_the_prompt_and_grow_apart_again(provider: Provider):
    request = provider.LlmRequest(1, ALL[:2], beam_width=2)
    request.add_new_token(7, 0)
    request.pause(100)
    request.add_new_token(8, 1)
    assert request.get_tokens() == [[100, 101], [100, 101, 8]]
    assert [request.get_tokens_range(beam, 2, 3) for beam in (0, 1)] == [[], [8]]
