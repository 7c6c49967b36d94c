"""The same calls on two providers: equal answers, and errors of equal types, whatever the order."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.interfaces import LlmRequestState
from stubs.kv_cache_v2 import LayerGroup
from stubs.pages import OutOfPagesError
from stubs.providers import PROVIDERS, Provider, absent, load_provider
from stubs.request import KvCacheRetentionConfig, TokenRangeRetention

# Those at hand, but for the one that they are held against.
OTHERS = [name for name in PROVIDERS if name != "python" and absent(name) is None]
ERRORS = (IndexError, KeyError, OutOfPagesError, RuntimeError, ValueError)
GROUPS = (LayerGroup(), LayerGroup(5), LayerGroup(9, 6))
RETENTION = KvCacheRetentionConfig([TokenRangeRetention(2, 9, 80)], decode_priority=20)


class Side:
    """Two requests and both managers of one provider, blocks of four tokens."""

    def __init__(self, provider: Provider, beams: int) -> None:
        self.provider = provider
        self.requests = [
            provider.LlmRequest(0, range(100, 110), beam_width=beams, retention_config=RETENTION),
            provider.LlmRequest(1, [7, -7]),
        ]
        self.v1 = provider.KVCacheManager(24, tokens_per_block=4, rng=random.Random(1))
        self.v2 = provider.KVCacheManagerV2(
            24, tokens_per_block=4, layer_groups=GROUPS, rng=random.Random(1)
        )
        self.managers = (self.v1, self.v2)
        self.reported = [
            manager.create_reported_requests(lambda *values: values, False)  # type: ignore[arg-type, return-value]
            for manager in self.managers
        ]

    def chunk(self, which: int, size: int) -> None:
        self.requests[which].context_chunk_size = size

    def move_to(self, which: int, position: int) -> None:
        self.requests[which].context_current_position = position % 2**31

    def set_state(self, which: int, number: int) -> None:
        self.requests[which].state = list(LlmRequestState)[number % len(LlmRequestState)]

    def forget(self, which: int) -> None:
        for reported in self.reported:
            reported.forget(which)

    def build(self, version: int, which: int, x: int, y: int) -> object:
        """Return what is told of both requests, one of each phase, as the fields by position."""
        requests = self.requests[which : which + 1], self.requests[1 - which : 2 - which]
        loading = {x % 4: self.requests[0]}
        return self.managers[version].build_request_data(
            self.reported[version], [], *requests, loading, {which: y % 99}
        )

    def read(self, which: int, x: int, y: int) -> list[object]:
        request = self.requests[which]
        reads: list[Callable[[], object]] = [
            request.get_tokens,
            lambda: request.get_tokens(x),
            lambda: request.get_num_tokens(x),
            lambda: request.get_token(x, y),
            lambda: request.get_tokens_range(0, x, y),
            lambda: request.get_tokens_view(0).tolist(),
            lambda: request.state,
            lambda: (request.prompt_len, request.context_current_position),
            lambda: request.context_remaining_length,
            lambda: request.context_chunk_size,
            lambda: self.v1.get_num_blocks(request),
            lambda: self.v1.get_cache_indices(request),
            lambda: list(map(self.v1.get_priority_by_block_id, range(24))),
            lambda: self.v1.get_cache_indices_range(request, x),
            lambda: self.v1.commit_and_get_block_hashes(request),
            lambda: self.v1.get_block_hashes_after(request, x, y % 2**64),
            lambda: self.v1.get_batch_updates(self.requests, [x, y], [y, x], [x, y], [0, 0]),
            lambda: self.v2.get_num_blocks(request),
            lambda: self.v2.get_page_indices_by_layer_group(request),
            lambda: self.v2.get_page_indices_range(request, x),
            lambda: self.v2.get_batch_updates(self.requests, [x, y], [y, x]),
            lambda: self.build(0, which, x, y),
            lambda: self.build(1, which, x, y),
        ]
        return [attempt(read) for read in reads]


def attempt(call: Callable[..., object], *arguments: object) -> object:
    """Return the value of a call, or the type of its error."""
    try:
        return call(*arguments)
    except ERRORS as error:
        return type(error)


OPERATIONS: dict[str, Callable[[Side, int, int, int], object]] = {
    "grow": lambda side, which, x, y: [
        side.requests[which].add_new_token(x % 2**31, y % 3) for _ in range(x % 7)
    ],
    "pause": lambda side, which, x, _y: side.requests[which].pause(x),
    "chunk": lambda side, which, x, _y: side.chunk(which, x),
    "next chunk": lambda side, which, _x, _y: side.requests[which].move_to_next_context_chunk(),
    "move": lambda side, which, x, _y: side.move_to(which, x),
    "state": lambda side, which, x, _y: side.set_state(which, x),
    "resize v1": lambda side, which, x, _y: side.v1.resize(side.requests[which], x),
    "resize v2": lambda side, which, x, _y: side.v2.resize(side.requests[which], x),
    "history": lambda side, which, x, _y: side.v2.update_history(side.requests[which], x % 2**31),
    "forget": lambda side, which, _x, _y: side.forget(which),
    "free v1": lambda side, which, _x, _y: side.v1.free_resources(side.requests[which]),
    "free v2": lambda side, which, _x, _y: side.v2.free_resources(side.requests[which]),
}

NUMBERS = st.integers(-3, 100) | st.sampled_from([-(2**63), -(2**31), 2**31, 2**63 - 1])


@pytest.mark.parametrize("other", OTHERS)
@given(
    beams=st.integers(1, 2),
    steps=st.lists(
        st.tuples(st.sampled_from(list(OPERATIONS)), st.integers(0, 1), NUMBERS, NUMBERS),
        max_size=25,
    ),
)
@settings(max_examples=200)
def test_two_providers_give_the_same_answers(
    other: str, beams: int, steps: list[tuple[str, int, int, int]]
):
    sides = [Side(load_provider(name), beams) for name in ("python", other)]
    for name, which, x, y in steps:
        expected, actual = (attempt(OPERATIONS[name], side, which, x, y) for side in sides)
        assert actual == expected, name
        assert sides[1].read(which, x, y) == sides[0].read(which, x, y), name
