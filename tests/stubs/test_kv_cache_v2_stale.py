"""The stale range against a plain re-computation from what a window means."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import Provider


def is_reachable(block: int, history: int, group: LayerGroup, size: int) -> bool:
    """Return whether some token that is still to be computed attends to a token of ``block``.

    The token at position p attends to the last ``window`` positions, its own among them (to all,
    where there is no window), and to the sinks.
    """
    tokens = range(block * size, (block + 1) * size)
    if any(token < group.sink_tokens for token in tokens):
        return True
    for position in range(history, max(history, tokens[-1]) + 2):
        oldest = 0 if group.window is None else position - group.window + 1
        if any(oldest <= token <= position for token in tokens):
            return True
    return False


def stale_blocks(num_blocks: int, history: int, group: LayerGroup, size: int) -> list[int]:
    return [block for block in range(num_blocks) if not is_reachable(block, history, group, size)]


@pytest.mark.parametrize(
    ("history", "expected"),
    # Blocks of 4 and a window of 8: position 11 sees 4 to 11, so block 0 is stale at history 11.
    [(0, (0, 0)), (10, (0, 0)), (11, (0, 1)), (14, (0, 1)), (15, (0, 2)), (19, (0, 3))],
)
def test_the_range_grows_when_the_window_leaves_a_block(history: int, expected: tuple[int, int]):
    assert LayerGroup(window=8).stale_range(history, 4) == expected


@pytest.mark.parametrize(
    ("sink_tokens", "expected"),
    [(0, (0, 3)), (1, (1, 3)), (4, (1, 3)), (5, (2, 3)), (12, (3, 3)), (13, (4, 4)), (99, (5, 5))],
)
def test_a_block_with_a_sink_token_never_goes_stale(sink_tokens: int, expected: tuple[int, int]):
    assert LayerGroup(window=8, sink_tokens=sink_tokens).stale_range(19, 4) == expected


@pytest.mark.parametrize("sink_tokens", [0, 5])
def test_nothing_is_stale_with_full_attention(sink_tokens: int):
    for history in range(100):
        begin, end = LayerGroup(sink_tokens=sink_tokens).stale_range(history, 4)
        assert begin == end


@pytest.mark.parametrize("size", [1, 3, 4, 8])
@pytest.mark.parametrize("window", [None, 1, 2, 3, 4, 5, 8, 9, 17])
def test_the_range_is_that_of_unreachable_blocks(size: int, window: int | None):
    for sink_tokens, history in itertools.product([0, 1, 4, 5, 12], range(50)):
        group = LayerGroup(window, sink_tokens)
        expected = stale_blocks(history // size + 3, history, group, size)
        assert list(range(*group.stale_range(history, size))) == expected, (group, history)


groups = st.builds(LayerGroup, st.none() | st.integers(1, 80), st.integers(0, 40))


@given(groups, st.integers(0, 300), st.sampled_from([1, 2, 5, 16, 32]))
@settings(deadline=None, max_examples=150)
def test_the_range_is_that_of_unreachable_blocks_at_random(
    group: LayerGroup, history: int, size: int
):
    expected = stale_blocks(history // size + 3, history, group, size)
    assert list(range(*group.stale_range(history, size))) == expected


@given(
    st.lists(groups, min_size=1, max_size=3),
    st.sampled_from([1, 4, 16]),
    # Tokens computed, tokens that there is room for beyond them, and which call comes first.
    st.lists(
        st.tuples(st.integers(0, 25), st.integers(1, 20), st.booleans()), min_size=1, max_size=12
    ),
)
@settings(deadline=None, max_examples=150)
def test_the_mask_hides_exactly_the_unreachable_blocks(
    provider: Provider,
    layer_groups: list[LayerGroup],
    size: int,
    steps: list[tuple[int, int, bool]],
):
    managers = [
        provider.KVCacheManagerV2(
            400,
            tokens_per_block=size,
            layer_groups=layer_groups,
            page_backend=backend,
            rng=random.Random(3),
        )
        for backend in ("list", "generator")
    ]
    request = provider.LlmRequest(1, [0])
    seen: list[dict[int, int]] = [{} for _ in layer_groups]
    history = 0
    for manager in managers:
        manager.resize(request, 0)
    capacity = 0
    for computed, room, grows_first in steps:
        history += computed
        capacity = max(capacity, history + room)
        for manager in managers:
            if grows_first:
                manager.resize(request, capacity)
            manager.update_history(request, history)
            manager.resize(request, capacity)
        lists = managers[0].get_page_indices_by_layer_group(request)
        assert managers[1].get_page_indices_by_layer_group(request) == lists
        # The mask of the calls that are native wherever the provider is.
        assert managers[0].get_page_indices_range(request, 0) == lists
        assert managers[1].get_batch_updates([request], [0], [0])[2] == [lists]
        num_blocks = -(-capacity // size)
        for group, pages, known in zip(layer_groups, lists, seen, strict=True):
            assert len(pages) == num_blocks
            masked = [block for block, page in enumerate(pages) if page == -1]
            assert masked == stale_blocks(num_blocks, history, group, size)
            for block, page in enumerate(pages):
                if page != -1:
                    # A block keeps its page for as long as it can be read.
                    assert known.setdefault(block, page) == page
            readable = [page for page in pages if page != -1]
            assert len(set(readable)) == len(readable)
