"""The clamps of ``get_tokens_range``, which a Python slice does not agree with everywhere."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stubs.providers import Provider

# Ten tokens; the token at position p is 100 + p.
ALL = list(range(100, 110))
HUGE = 10**18


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        # Nothing to clamp.
        (2, 5, [102, 103, 104]),
        (0, 10, ALL),
        (9, 10, [109]),
        (0, 0, []),
        (4, 4, []),
        (10, 10, []),
        # begin < 0 alone: no counting from the end.
        (-3, 4, [100, 101, 102, 103]),
        (-1, 1, [100]),
        (-2, 10, ALL),
        (-3, 0, []),
        # begin > n alone.
        (12, 10, []),
        (11, 10, []),
        # end < begin alone: a reversed range is empty and no error.
        (7, 3, []),
        (10, 9, []),
        (0, -1, []),
        (4, -1, []),
        # end > n alone.
        (6, 15, [106, 107, 108, 109]),
        (9, 11, [109]),
        (0, 11, ALL),
        (10, 11, []),
        # begin < 0 and end < begin.
        (-5, -2, []),
        (-2, -5, []),
        # begin < 0 and end > n.
        (-1, 99, ALL),
        # begin > n and end < begin.
        (15, 4, []),
        (15, 12, []),
        (15, -1, []),
        # begin > n and end > n.
        (12, 20, []),
        (12, 12, []),
        # Huge bounds.
        (-HUGE, HUGE, ALL),
        (HUGE, -HUGE, []),
        (HUGE, HUGE, []),
        (-HUGE, -HUGE, []),
        (8, HUGE, [108, 109]),
        (-HUGE, 2, [100, 101]),
    ],
)
def test_clamps(provider: Provider, begin: int, end: int, expected: list[int]):
    assert provider.LlmRequest(1, ALL).get_tokens_range(0, begin, end) == expected


bounds = st.integers(-15, 15) | st.integers(-(2**62), 2**62)


@given(
    prompt=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12), begin=bounds, end=bounds
)
@example(prompt=[5], begin=0, end=-1)
@example(prompt=[5, 6], begin=2, end=1)
@settings(deadline=None, max_examples=300)
def test_the_range_is_the_tokens_whose_position_lies_between_the_bounds(
    provider: Provider, prompt: list[int], begin: int, end: int
):
    expected = [token for position, token in enumerate(prompt) if begin <= position < end]
    assert provider.LlmRequest(1, prompt).get_tokens_range(0, begin, end) == expected


def test_the_range_is_that_of_the_beam_asked_for(provider: Provider):
    request = provider.LlmRequest(1, [100, 101], beam_width=2)
    request.add_new_token(7, 0)
    request.add_new_token(8, 1)
    request.add_new_token(9, 1)
    assert request.get_tokens_range(0, 1, 99) == [101, 7]
    assert request.get_tokens_range(1, 1, 99) == [101, 8, 9]


def test_the_list_is_the_callers_own(provider: Provider):
    request = provider.LlmRequest(1, ALL)
    window = request.get_tokens_range(0, 0, 10)
    window.clear()
    assert request.get_tokens_range(0, 0, 10) == ALL
    assert request.get_num_tokens(0) == 10
