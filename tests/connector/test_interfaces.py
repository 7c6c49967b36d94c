import pytest

from connector import interfaces
from connector.interfaces import KVCacheManagerV2, LlmRequestState, get_draft_token_length
from stubs.request import LlmRequest


@pytest.mark.parametrize(("draft_tokens", "length"), [(None, 0), ([], 0), ([5], 1), ((5, 6, 7), 3)])
def test_draft_token_length(draft_tokens: list[int] | None, length: int):
    assert get_draft_token_length(LlmRequest(1, [3], draft_tokens=draft_tokens)) == length


def test_the_v2_base_has_no_pages_of_its_own():
    with pytest.raises(NotImplementedError):
        KVCacheManagerV2().get_page_indices_by_layer_group(LlmRequest(1, [3]))


def test_v2_is_told_by_inheritance_and_not_by_its_methods():
    class Inherits(interfaces.KVCacheManagerV2):
        pass

    class LooksAlike:
        get_page_indices_by_layer_group = KVCacheManagerV2.get_page_indices_by_layer_group

    assert isinstance(Inherits(), KVCacheManagerV2)
    assert not isinstance(LooksAlike(), KVCacheManagerV2)


@pytest.mark.parametrize("call", ["get_cache_indices", "commit_and_get_block_hashes"])
def test_v2_has_none_of_the_v1_calls(call: str):
    assert not hasattr(KVCacheManagerV2, call)


def test_the_states_have_upstreams_names():
    assert {state.name for state in LlmRequestState} >= {
        "CONTEXT_INIT",
        "GENERATION_IN_PROGRESS",
        "DISAGG_CONTEXT_TRANS_IN_PROGRESS",
        "DISAGG_GENERATION_TRANS_IN_PROGRESS",
    }
