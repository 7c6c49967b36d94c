"""Tokens, positions and scheduled tokens that every arm reports."""

from typing import Any, cast

import pytest

from connector import interfaces
from connector.interfaces import LlmRequestState
from stubs.kv_cache_v1 import KVCacheManager
from stubs.request import LlmRequest

from .driving import ARMS, Arm, Manager, build, build_one, cut, extend, start_generation


class CountingRequest:
    """A request that counts the tokens that cross into Python."""

    def __init__(self, native: LlmRequest) -> None:
        self.native = native
        self.crossed = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # Whatever the native side has.
        return getattr(self.native, name)

    def get_tokens(self, beam: int) -> list[int]:
        return self._count(self.native.get_tokens(beam))

    def get_tokens_range(self, beam: int, begin: int, end: int) -> list[int]:
        return self._count(self.native.get_tokens_range(beam, begin, end))

    def _count(self, tokens: list[int]) -> list[int]:
        self.crossed += len(tokens)
        return tokens


@pytest.fixture
def hash_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let V1 hash the native request: tokens that it reads do not cross into Python."""
    commit = KVCacheManager.commit_and_get_block_hashes

    def commit_natively(self: KVCacheManager, request: interfaces.LlmRequest) -> list[int]:
        return commit(self, getattr(request, "native", request))

    monkeypatch.setattr(KVCacheManager, "commit_and_get_block_hashes", commit_natively)


@pytest.mark.usefixtures("hash_natively")
@pytest.mark.parametrize(
    ("name", "copied", "after_rewind"),
    # Full copies are 64 + 65 + 65 + 68 tokens, and 66 after the rewind.
    [("full-copy", [64, 129, 194, 262], 328), ("incremental", [64, 65, 65, 68], 68)],
)
def test_copies_only_new_tokens(manager: Manager, name: str, copied: list[int], after_rewind: int):
    arm = ARMS[name].KvCacheConnectorSchedulerOutputManager()
    prompt = list(range(1000, 1064))
    request = LlmRequest(1, prompt)
    counting = CountingRequest(request)
    manager.resize(request, 80)
    steps: list[tuple[list[int], int]] = []
    crossed = []

    def step() -> None:
        # A wrapper stands for the request, and for its type as well.
        data = build_one(arm, manager, cast(LlmRequest, counting))
        steps.append((data.new_tokens, data.computed_position))
        crossed.append(counting.crossed)

    step()
    start_generation(request, 1)
    step()
    step()
    extend(request, 2, 3, 4)
    step()
    assert steps == [(prompt, 0), ([1], 64), ([], 64), ([2, 3, 4], 67)]
    assert crossed == copied
    assert [token for tokens, _ in steps for token in tokens] == request.get_tokens(0)
    assert request.get_num_tokens(0) == 68

    # A rewind by two tokens: nothing is new, and the position follows the live length.
    cut(request, 66)
    step()
    assert steps[-1] == ([], 65)
    assert crossed[-1] == after_rewind


def test_after_a_shrink_only_what_passes_the_high_water_mark_is_new(arm: Arm, manager: Manager):
    request = start_generation(LlmRequest(1, [10, 11, 12]), 20, 21, 22)
    manager.resize(request, 20)
    assert build_one(arm, manager, request).new_tokens == [10, 11, 12, 20, 21, 22]

    steps = []
    for change in (
        lambda: cut(request, 4),
        lambda: extend(request, 30),
        lambda: extend(request, 31),  # Back at the mark: six tokens.
        lambda: extend(request, 32, 33),
        lambda: cut(request, 2),
        lambda: extend(request, *range(40, 48)),
    ):
        change()
        data = build_one(arm, manager, request)
        steps.append((data.new_tokens, data.computed_position))
    assert steps == [
        ([], 3),
        ([], 4),
        ([], 5),
        ([32, 33], 7),
        ([], 1),
        ([46, 47], 9),
    ]


def test_other_tokens_below_the_mark_are_not_reported(arm: Arm, manager: Manager):
    request = start_generation(LlmRequest(1, [10, 11]), 20, 21)
    manager.resize(request, 20)
    build_one(arm, manager, request)
    extend(cut(request, 2), 30, 31, 32)
    assert build_one(arm, manager, request).new_tokens == [32]


def test_under_overlap_an_iteration_can_have_no_new_token(arm: Arm, manager: Manager):
    # The token of iteration n-1 is appended after the output of n is built.
    request = LlmRequest(1, [10, 11, 12])
    manager.resize(request, 20)
    assert build_one(arm, manager, request).new_tokens == [10, 11, 12]
    start_generation(request)
    steps = []
    for token in (20, 21):
        data = build_one(arm, manager, request)
        steps.append((data.new_tokens, data.computed_position, data.num_scheduled_tokens))
        extend(request, token)
    assert steps == [([], 2, 1), ([20], 3, 1)]


@pytest.mark.parametrize(
    ("draft_tokens", "scheduled"), [(None, 1), ([], 1), ([7], 2), ([7, 8, 9], 4)]
)
def test_draft_tokens_are_scheduled_along(
    arm: Arm, manager: Manager, draft_tokens: list[int] | None, scheduled: int
):
    request = LlmRequest(1, [10, 11, 12], draft_tokens=draft_tokens)
    manager.resize(request, 20)
    data = build_one(arm, manager, start_generation(request, 20))
    assert data.num_scheduled_tokens == scheduled
    assert data.computed_position == 3
    assert data.new_tokens == [10, 11, 12, 20]  # Draft tokens are not part of the sequence.


def test_draft_tokens_do_not_count_in_the_context_phase(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(8), draft_tokens=[7, 8, 9])
    manager.resize(request, 20)
    assert build_one(arm, manager, request).num_scheduled_tokens == 8


def test_context_chunks(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(10))
    manager.resize(request, 10)
    steps = []
    for size in (4, 4, 100):
        request.context_chunk_size = size
        data = build_one(arm, manager, request)
        steps.append((data.computed_position, data.num_scheduled_tokens, len(data.new_tokens)))
        request.move_to_next_context_chunk()
    # All prompt tokens are reported with the first chunk.
    assert steps == [(0, 4, 10), (4, 4, 0), (8, 2, 0)]


def test_a_chunk_that_outgrew_what_remains_is_cut(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(10))
    manager.resize(request, 10)
    assert request.context_chunk_size == 10
    request.context_current_position = 7  # A prefix was found in the cache after the chunk was set.
    data = build_one(arm, manager, request)
    assert (data.computed_position, data.num_scheduled_tokens) == (7, 3)


def test_a_trimmed_chunk_is_reported_as_trimmed(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(1442))
    manager.resize(request, 1442)
    request.context_chunk_size = 512  # The token budget, before the report is built.
    output = build(arm, manager, chunking=[request])
    assert output.new_requests[0].num_scheduled_tokens == 512


def test_a_transfer_to_a_generation_server_counts_as_context(arm: Arm, manager: Manager):
    request = LlmRequest(1, range(10), draft_tokens=[7, 8])
    manager.resize(request, 10)
    request.state = LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS
    request.context_chunk_size = 6
    output = build(arm, manager, context=[request])
    data = output.new_requests[0]
    assert (data.computed_position, data.num_scheduled_tokens) == (0, 6)


@pytest.mark.parametrize(
    "state",
    [
        LlmRequestState.GENERATION_IN_PROGRESS,
        LlmRequestState.GENERATION_COMPLETE,
        LlmRequestState.DISAGG_CONTEXT_TRANS_IN_PROGRESS,
    ],
)
def test_any_other_state_counts_as_generation(arm: Arm, manager: Manager, state: LlmRequestState):
    request = LlmRequest(1, range(10), draft_tokens=[7, 8])
    manager.resize(request, 10)
    request.state = state
    output = build(arm, manager, generation=[request])
    data = output.cached_requests[0]
    assert (data.computed_position, data.num_scheduled_tokens) == (9, 3)


def test_only_the_first_beam_is_reported(arm: Arm, manager: Manager):
    request = start_generation(LlmRequest(1, [10, 11], beam_width=2), 20)
    request.add_new_token(30, 1)
    request.add_new_token(31, 1)
    manager.resize(request, 8)
    data = build_one(arm, manager, request)
    assert (data.new_tokens, data.computed_position) == ([10, 11, 20], 2)
