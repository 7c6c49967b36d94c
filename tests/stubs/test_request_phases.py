"""What takes a request through its context phase and back: chunks, pause, retention."""

import pytest

from connector.interfaces import LlmRequestState
from stubs.providers import Provider
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

CONTEXT_STATES = [
    LlmRequestState.CONTEXT_INIT,
    LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS,
]
OTHER_STATES = [
    LlmRequestState.GENERATION_IN_PROGRESS,
    LlmRequestState.GENERATION_COMPLETE,
    LlmRequestState.DISAGG_CONTEXT_TRANS_IN_PROGRESS,
]


def generated(
    provider: Provider, prompt: list[int], *tokens: int, beam_width: int = 1
) -> LlmRequest:
    request = provider.LlmRequest(1, prompt, beam_width=beam_width)
    request.move_to_next_context_chunk()
    request.state = LlmRequestState.GENERATION_IN_PROGRESS
    for token in tokens:
        request.add_new_token(token, 0)
    return request


def test_the_states_are_all_covered_here():
    assert {*CONTEXT_STATES, *OTHER_STATES} == set(LlmRequestState)


@pytest.mark.parametrize("state", CONTEXT_STATES)
def test_the_chunk_size_can_be_used_in_a_context_type_state(
    provider: Provider, state: LlmRequestState
):
    request = provider.LlmRequest(1, range(8))
    request.state = state
    assert request.context_chunk_size == 8
    request.context_chunk_size = 3
    assert request.context_chunk_size == 3
    request.move_to_next_context_chunk()
    assert request.context_current_position == 3


@pytest.mark.parametrize("state", OTHER_STATES)
def test_the_chunk_size_is_an_error_in_any_other_state(provider: Provider, state: LlmRequestState):
    request = provider.LlmRequest(1, range(8))
    request.state = state
    with pytest.raises(RuntimeError, match=f"undefined in state {state.name}"):
        _ = request.context_chunk_size
    with pytest.raises(RuntimeError, match=f"cannot be set in state {state.name}"):
        request.context_chunk_size = 3
    with pytest.raises(RuntimeError, match=state.name):
        request.move_to_next_context_chunk()
    assert request.context_current_position == 0
    assert request.context_remaining_length == 8  # Readable everywhere.
    request.state = LlmRequestState.CONTEXT_INIT
    assert request.context_chunk_size == 8


@pytest.mark.parametrize(
    ("position", "size", "expected"),
    [(0, 0, 0), (0, 5, 5), (0, 8, 8), (0, 9, 8), (0, 10**9, 8), (6, 1, 1), (6, 4, 2), (8, 4, 0)],
)
def test_the_chunk_size_is_clamped_to_what_remains(
    provider: Provider, position: int, size: int, expected: int
):
    request = provider.LlmRequest(1, range(8))
    request.context_current_position = position
    request.context_chunk_size = size
    assert request.context_chunk_size == expected


def test_a_negative_chunk_size_is_an_error(provider: Provider):
    request = provider.LlmRequest(1, range(8))
    with pytest.raises(ValueError, match="context_chunk_size must not be negative, not -1"):
        request.context_chunk_size = -1
    assert request.context_chunk_size == 8


def test_chunks_lead_through_the_prompt(provider: Provider):
    request = provider.LlmRequest(1, range(8))
    request.context_chunk_size = 5
    request.move_to_next_context_chunk()
    assert (request.context_current_position, request.context_remaining_length) == (5, 3)
    # The next chunk has no size until it is given one.
    assert request.context_chunk_size == 0
    request.move_to_next_context_chunk()
    assert request.context_current_position == 5
    request.context_chunk_size = 100
    request.move_to_next_context_chunk()
    assert (request.context_current_position, request.context_remaining_length) == (8, 0)


@pytest.mark.parametrize(
    ("max_input_len", "tokens"),
    [
        (100, [10, 11, 12, 20, 21]),
        (6, [10, 11, 12, 20, 21]),
        (5, [10, 11, 12, 20, 21]),
        (4, [10, 11, 12, 20]),
        (3, [10, 11, 12]),
        (2, [10, 11]),
    ],
)
def test_pause_makes_prompt_and_generated_tokens_the_new_prompt(
    provider: Provider, max_input_len: int, tokens: list[int]
):
    request = generated(provider, [10, 11, 12], 20, 21)
    request.pause(max_input_len)
    assert request.get_tokens(0) == tokens
    assert request.prompt_len == len(tokens)
    assert request.state is LlmRequestState.CONTEXT_INIT
    assert request.context_current_position == 0
    assert request.context_remaining_length == len(tokens)
    assert request.context_chunk_size == len(tokens)


def test_pause_amid_the_context_phase_starts_it_again(provider: Provider):
    request = provider.LlmRequest(1, range(8))
    request.context_chunk_size = 5
    request.move_to_next_context_chunk()
    request.pause(100)
    assert request.get_tokens(0) == list(range(8))
    assert (request.context_current_position, request.context_chunk_size) == (0, 8)


@pytest.mark.parametrize("max_input_len", [2, 100])
def test_pause_with_several_beams_falls_back_to_the_old_prompt(
    provider: Provider, max_input_len: int
):
    request = generated(provider, [10, 11, 12], 20, 21, beam_width=2)
    request.add_new_token(30, 1)
    request.pause(max_input_len)
    assert request.get_tokens() == [[10, 11, 12], [10, 11, 12]]
    assert request.prompt_len == 3
    assert (request.context_current_position, request.context_chunk_size) == (0, 3)
    assert request.state is LlmRequestState.CONTEXT_INIT
    request.add_new_token(31, 1)
    assert request.get_tokens() == [[10, 11, 12], [10, 11, 12, 31]]


def test_a_sequence_shrinks_and_grows_again(provider: Provider):
    request = generated(provider, [10, 11, 12], 20, 21)
    request.pause(4)
    request.add_new_token(50, 0)
    request.add_new_token(51, 0)
    assert request.get_num_tokens(0) == 6
    assert request.get_tokens(0) == [10, 11, 12, 20, 50, 51]
    assert request.get_tokens_range(0, 4, 6) == [50, 51]
    request.pause(100)
    assert request.prompt_len == 6


def make_config() -> KvCacheRetentionConfig:
    ranges = [TokenRangeRetention(0, 8, 80), TokenRangeRetention(12, None, 10)]
    return KvCacheRetentionConfig(ranges, decode_priority=55)


def values(config: KvCacheRetentionConfig) -> tuple[list[tuple[int, int | None, int]], int]:
    ranges = [(span.begin, span.end, span.priority) for span in config.ranges]
    return ranges, config.decode_priority


def test_the_retention_config_comes_by_value(provider: Provider):
    given = make_config()
    request = provider.LlmRequest(1, range(14), retention_config=given)
    given.ranges[0].priority = 1  # The request took a copy.
    expected = [(0, 8, 80), (12, None, 10)], 55
    config = request.kv_cache_retention_config
    assert values(config) == expected
    assert config is not request.kv_cache_retention_config
    config.ranges[1].end = 13
    config.ranges.pop(0)
    config.ranges = []
    config.decode_priority = 0
    assert values(config) == ([], 0)
    assert values(request.kv_cache_retention_config) == expected


@pytest.mark.parametrize(
    ("position", "priority"),
    # A prompt of 14 tokens: a range, the gap between ranges, a range without end, generated tokens.
    [(0, 80), (7, 80), (8, 35), (11, 35), (12, 10), (13, 10), (14, 55), (1000, 55)],
)
def test_the_priority_is_that_of_the_range_at_the_position(position: int, priority: int):
    assert make_config().priority_at(position, 14) == priority


def test_the_first_of_overlapping_ranges_counts_and_defaults_are_35():
    config = KvCacheRetentionConfig(
        [TokenRangeRetention(4, 8, 70), TokenRangeRetention(0, None, 20)]
    )
    assert [config.priority_at(position, 12) for position in (3, 4, 8, 12)] == [20, 70, 20, 35]
    assert KvCacheRetentionConfig().priority_at(0, 12) == 35
