from collections.abc import Callable

import numpy as np
import pytest

from connector.interfaces import LlmRequestState
from stubs.providers import Provider
from stubs.request import LlmRequest


def make_beams(provider: Provider) -> LlmRequest:
    """Two beams: 10, 11, 12, 20 and 10, 11, 12, 30, 31."""
    request = provider.LlmRequest(1, [10, 11, 12], beam_width=2)
    request.add_new_token(20, 0)
    request.add_new_token(30, 1)
    request.add_new_token(31, 1)
    return request


def test_a_new_request_is_at_the_start_of_its_context_phase(provider: Provider):
    request = provider.LlmRequest(42, (token for token in [3, 4]))
    assert request.request_id == 42
    assert request.state is LlmRequestState.CONTEXT_INIT
    assert request.context_current_position == 0
    assert request.prompt_len == 2
    assert request.py_draft_tokens is None
    assert request.cache_salt is None
    assert request.is_dummy_request is False
    assert request.kv_cache_retention_config is None
    assert request.get_tokens() == [[3, 4]]


def test_a_request_keeps_what_it_is_given(provider: Provider):
    request = provider.LlmRequest(
        1, [3], draft_tokens=[8, 9], cache_salt="salt", is_dummy_request=True
    )
    assert request.py_draft_tokens == [8, 9]
    assert request.cache_salt == "salt"
    assert request.is_dummy_request is True


@pytest.mark.parametrize("beam_width", [0, -1])
def test_a_request_needs_a_beam(provider: Provider, beam_width: int):
    with pytest.raises(ValueError, match=f"beam_width must be at least 1, not {beam_width}"):
        provider.LlmRequest(1, [3], beam_width=beam_width)


def test_a_request_has_no_more_beams_than_a_search_has(provider: Provider):
    assert len(provider.LlmRequest(1, [3], beam_width=1024).get_tokens()) == 1024
    with pytest.raises(ValueError, match="beam_width must be at most 1024, not 1025"):
        provider.LlmRequest(1, [3], beam_width=1025)


def test_a_request_needs_a_prompt(provider: Provider):
    with pytest.raises(ValueError, match="a request needs at least one prompt token"):
        provider.LlmRequest(1, [])


def test_each_beam_has_tokens_of_its_own(provider: Provider):
    request = make_beams(provider)
    assert request.get_num_tokens(0) == 4
    assert request.get_num_tokens(1) == 5
    assert request.get_tokens(0) == [10, 11, 12, 20]
    assert request.get_tokens(1) == [10, 11, 12, 30, 31]
    assert request.get_tokens() == [[10, 11, 12, 20], [10, 11, 12, 30, 31]]
    assert [request.get_token(beam, 3) for beam in (0, 1)] == [20, 30]


def test_get_token_reaches_from_the_first_to_the_last_position(provider: Provider):
    request = provider.LlmRequest(1, [10, 11, 12])
    assert [request.get_token(0, position) for position in range(3)] == [10, 11, 12]


@pytest.mark.parametrize("position", [-1, -3, 3, 10**9])
def test_get_token_out_of_range_is_an_error(provider: Provider, position: int):
    with pytest.raises(IndexError, match=rf"position {position} is outside \[0, 3\)"):
        provider.LlmRequest(1, [10, 11, 12]).get_token(0, position)


@pytest.mark.parametrize("beam", [-1, -2, -3, 2, 10**9])
@pytest.mark.parametrize(
    "call",
    [
        lambda request, beam: request.get_num_tokens(beam),
        lambda request, beam: request.get_tokens(beam),
        lambda request, beam: request.get_token(beam, 0),
        lambda request, beam: request.get_tokens_range(beam, 0, 1),
        lambda request, beam: request.get_tokens_view(beam),
        lambda request, beam: request.add_new_token(7, beam),
    ],
    ids=["num_tokens", "tokens", "token", "tokens_range", "tokens_view", "add_new_token"],
)
def test_a_bad_beam_is_an_index_error(
    provider: Provider, call: Callable[[LlmRequest, int], object], beam: int
):
    request = make_beams(provider)
    with pytest.raises(IndexError, match=rf"^beam {beam} is outside \[0, 2\)$"):
        call(request, beam)
    assert request.get_tokens() == [[10, 11, 12, 20], [10, 11, 12, 30, 31]]


def test_returned_lists_are_the_callers_own(provider: Provider):
    request = make_beams(provider)
    request.get_tokens(0).append(99)
    beams = request.get_tokens()
    beams[1].clear()
    beams.pop()
    assert request.get_tokens() == [[10, 11, 12, 20], [10, 11, 12, 30, 31]]
    assert request.get_tokens(0) is not request.get_tokens(0)


def test_the_prompt_is_copied(provider: Provider):
    prompt = [10, 11]
    request = provider.LlmRequest(1, prompt)
    prompt.append(12)
    prompt[0] = 99
    assert request.get_tokens(0) == [10, 11]


def test_the_view_has_the_tokens_as_int32_and_is_read_only(provider: Provider):
    view = make_beams(provider).get_tokens_view(1)
    assert view.dtype == np.int32
    assert view.shape == (5,)
    assert view.tolist() == [10, 11, 12, 30, 31]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_the_view_cannot_be_made_writable(provider: Provider):
    request = make_beams(provider)
    view = request.get_tokens_view(0)
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_the_view_is_no_copy(provider: Provider):
    request = make_beams(provider)
    views = [request.get_tokens_view(0), request.get_tokens_view(0)]
    assert not views[0].flags.owndata
    assert np.shares_memory(*views)
    assert not np.shares_memory(views[0], request.get_tokens_view(1))


def test_a_view_outlives_a_growing_request_without_harm(provider: Provider):
    request = provider.LlmRequest(1, [10, 11])
    view = request.get_tokens_view(0)
    # Enough tokens that the storage would have to move.
    for token in range(1000):
        request.add_new_token(token, 0)
    assert view.tolist() == [10, 11]
    assert request.get_num_tokens(0) == 1002
    assert request.get_tokens_range(0, 0, 4) == [10, 11, 0, 1]
    fresh = request.get_tokens_view(0)
    assert fresh.tolist() == [10, 11, *range(1000)]
    assert not np.shares_memory(view, fresh)


def test_a_view_outlives_its_request(provider: Provider):
    view = provider.LlmRequest(1, range(5000)).get_tokens_view(0)
    others = [provider.LlmRequest(1, [7] * 5000) for _ in range(20)]
    assert view.tolist() == list(range(5000))
    assert len(others) == 20


def test_growth_of_one_beam_leaves_the_views_of_others(provider: Provider):
    request = make_beams(provider)
    views = [request.get_tokens_view(0), request.get_tokens_view(1)]
    request.add_new_token(21, 0)
    assert np.shares_memory(views[1], request.get_tokens_view(1))
    assert not np.shares_memory(views[0], request.get_tokens_view(0))
    assert [view.tolist() for view in views] == [[10, 11, 12, 20], [10, 11, 12, 30, 31]]


def test_a_view_outlives_a_pause(provider: Provider):
    request = provider.LlmRequest(1, [10, 11, 12])
    view = request.get_tokens_view(0)
    request.pause(2)
    request.add_new_token(99, 0)
    assert view.tolist() == [10, 11, 12]
    assert request.get_tokens(0) == [10, 11, 99]


@pytest.mark.parametrize("token", [-(2**31), -1, 0, 2**31 - 1])
def test_a_token_is_an_int32(provider: Provider, token: int):
    request = provider.LlmRequest(1, [token])
    request.add_new_token(token, 0)
    assert request.get_tokens(0) == [token, token]
    assert request.get_token(0, 1) == token
    assert request.get_tokens_view(0).tolist() == [token, token]


def test_what_the_scheduler_sets_is_there_to_read(provider: Provider):
    request = provider.LlmRequest(1, range(8))
    request.context_current_position = 5
    request.state = LlmRequestState.GENERATION_COMPLETE
    request.is_dummy_request = True
    request.py_draft_tokens = [1, 2]
    request.cache_salt = "salt"
    assert (request.context_current_position, request.context_remaining_length) == (5, 3)
    assert request.state is LlmRequestState.GENERATION_COMPLETE
    assert (request.is_dummy_request, request.cache_salt) == (True, "salt")
    assert request.py_draft_tokens == [1, 2]
