"""Arguments that nobody should pass: an exception or a clamped answer, and nothing changes."""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from stubs.kv_cache_v2 import LayerGroup
from stubs.pages import OutOfPagesError
from stubs.providers import Provider

NO_INTS = [None, "0", b"1", 1.5, float("nan"), [], {}, ..., int]
BAD_INTS = [-1, -(2**31) - 1, 2**31, 2**32, -(2**63) - 1, 2**63, 2**64, -(10**30), 10**30]
# What is nowhere a number of tokens; the stand-ins in Python let some floats pass for one.
NO_NUMBERS = [None, "0", b"1", [], {}, ..., *(x for x in BAD_INTS if x < 0)]
HOSTILE = NO_INTS + BAD_INTS
REFUSALS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


class Arena:
    """A request of ten tokens that both managers hold, in blocks of four, partly hashed."""

    def __init__(self, provider: Provider) -> None:
        self.request = provider.LlmRequest(5, range(100, 110), beam_width=2)
        self.v1 = provider.KVCacheManager(9, tokens_per_block=4, rng=random.Random(1))
        self.v2 = provider.KVCacheManagerV2(
            9, tokens_per_block=4, layer_groups=[LayerGroup(), LayerGroup(4)], rng=random.Random(1)
        )
        for manager in (self.v1, self.v2):
            manager.resize(self.request, 10)
            manager.update_history(self.request, 9)

    def observe(self) -> list[Any]:
        request, v1, v2 = self.request, self.v1, self.v2
        return [
            request.get_tokens(),
            (request.prompt_len, request.context_current_position, request.context_chunk_size),
            (request.state, request.context_remaining_length),
            v1.get_cache_indices(request),
            v1.commit_and_get_block_hashes(request),
            v1.get_batch_updates([request], [0], [0], [0], [0]),
            v2.get_page_indices_by_layer_group(request),
            v2.get_batch_updates([request], [0], [0]),
            *(self.build(manager) for manager in (v1, v2)),
        ]

    def build(self, manager: Any, place: int = 5, value: object = None) -> object:  # noqa: ANN401
        """Return what is told of the request, with one argument given unless it is None."""
        arguments: list[object] = [
            manager.create_reported_requests(lambda *values: values, False),
            *([], [self.request], [], {}, {}),
        ]
        if value is not None:
            arguments[place] = value
        return manager.build_request_data(*arguments)


READS: dict[str, Callable[[Arena, Any], object]] = {
    "get_num_tokens": lambda a, x: a.request.get_num_tokens(x),
    "get_tokens": lambda a, x: a.request.get_tokens(x),
    "get_token beam": lambda a, x: a.request.get_token(x, 0),
    "get_token pos": lambda a, x: a.request.get_token(0, x),
    "get_tokens_range beam": lambda a, x: a.request.get_tokens_range(x, 0, 1),
    "get_tokens_range begin": lambda a, x: a.request.get_tokens_range(0, x, 9),
    "get_tokens_range end": lambda a, x: a.request.get_tokens_range(0, 0, x),
    "get_tokens_view": lambda a, x: a.request.get_tokens_view(x),
    "v1 get_cache_indices": lambda a, x: a.v1.get_cache_indices(x),
    "v1 commit_and_get_block_hashes": lambda a, x: a.v1.commit_and_get_block_hashes(x),
    "v1 get_priority_by_block_id": lambda a, x: a.v1.get_priority_by_block_id(x),
    "v1 get_num_blocks": lambda a, x: a.v1.get_num_blocks(x),
    "v1 get_cache_indices_range": lambda a, x: a.v1.get_cache_indices_range(x, 0),
    "v1 get_cache_indices_range begin": lambda a, x: a.v1.get_cache_indices_range(a.request, x),
    "v1 get_block_hashes_after": lambda a, x: a.v1.get_block_hashes_after(x, 0, 0),
    "v1 get_block_hashes_after count": lambda a, x: a.v1.get_block_hashes_after(a.request, x, 0),
    "v1 get_block_hashes_after last": lambda a, x: a.v1.get_block_hashes_after(a.request, 1, x),
    "v2 get_page_indices_by_layer_group": lambda a, x: a.v2.get_page_indices_by_layer_group(x),
    "v2 get_num_blocks": lambda a, x: a.v2.get_num_blocks(x),
    "v2 get_page_indices_range": lambda a, x: a.v2.get_page_indices_range(x, 0),
    "v2 get_page_indices_range begin": lambda a, x: a.v2.get_page_indices_range(a.request, x),
    "v2 get_aggregated_page_indices": lambda a, x: a.v2.kv_cache_map[5].get_aggregated_page_indices(
        x
    ),
}


def batch_call(
    manager: str, known: int, place: int, as_list: bool
) -> Callable[[Arena, Any], object]:
    """Return ``get_batch_updates`` with one argument given, or the only entry of its list."""

    def call(arena: Arena, value: object) -> object:
        arguments: list[Any] = [[arena.request], *([0] for _ in range(known))]
        arguments[place] = [value] if as_list else value
        return getattr(arena, manager).get_batch_updates(*arguments)

    return call


for manager, known in (("v1", 4), ("v2", 2)):
    for place in range(known + 1):
        for as_list in (True, False):
            name = f"{manager} get_batch_updates {place}{' entry' if as_list else ''}"
            READS[name] = batch_call(manager, known, place, as_list)


def report_call(manager: str, place: int, wrap: Callable[[Any], object]) -> Callable[..., object]:
    """Return ``build_request_data`` with one argument given, as ``wrap`` returns it."""
    return lambda arena, value: arena.build(getattr(arena, manager), place, wrap(value))


for manager in ("v1", "v2"):
    for place in range(6):
        name = f"{manager} build_request_data {place}"
        READS[name] = report_call(manager, place, lambda value: value)
    READS[f"{manager} build_request_data 1 entry"] = report_call(manager, 1, lambda value: [value])
    READS[f"{manager} build_request_data 5 entry"] = report_call(
        manager, 5, lambda value: {5: value}
    )


@pytest.mark.parametrize("name", READS)
def test_a_read_answers_or_refuses_and_changes_nothing(provider: Provider, name: str):
    arena = Arena(provider)
    before = arena.observe()
    for value in HOSTILE:
        with contextlib.suppress(*REFUSALS):
            READS[name](arena, value)
        assert arena.observe() == before, value


# What no provider takes.
WRITES: dict[str, tuple[Callable[[Arena, Any], object], list[Any]]] = {
    "add_new_token": (
        lambda a, x: a.request.add_new_token(x, 0),
        [*NO_INTS, *(x for x in BAD_INTS if x != -1)],
    ),
    "add_new_token beam": (lambda a, x: a.request.add_new_token(1, x), HOSTILE),
    "pause": (lambda a, x: a.request.pause(x), NO_NUMBERS),
    "context_chunk_size": (
        lambda a, x: setattr(a.request, "context_chunk_size", x),
        NO_NUMBERS,
    ),
    "v1 resize": (lambda a, x: a.v1.resize(x, 4), HOSTILE),
    "v2 resize": (lambda a, x: a.v2.resize(x, 4), HOSTILE),
    "v1 resize capacity": (
        lambda a, x: a.v1.resize(a.request, x),
        [*NO_NUMBERS, 40.0],
    ),
    "v2 resize capacity": (
        lambda a, x: a.v2.resize(a.request, x),
        [*NO_NUMBERS, 40.0],
    ),
    "v2 update_history": (
        lambda a, x: a.v2.update_history(a.request, x),
        NO_NUMBERS,
    ),
    "v1 free_resources": (lambda a, x: a.v1.free_resources(x), HOSTILE),
    "v2 free_resources": (lambda a, x: a.v2.free_resources(x), HOSTILE),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_refuses_and_changes_nothing(provider: Provider, name: str):
    arena = Arena(provider)
    before = arena.observe()
    call, values = WRITES[name]
    for value in values:
        with pytest.raises(REFUSALS):
            call(arena, value)
        assert arena.observe() == before, value


@pytest.mark.parametrize("value", [x for x in HOSTILE if x != -1], ids=repr)
def test_a_prompt_holds_int32s(provider: Provider, value: object):
    with pytest.raises((OverflowError, TypeError)):
        provider.LlmRequest(1, [1, value, 2])


@pytest.mark.parametrize("value", [x for x in NO_INTS if x not in ([], {}, b"1")], ids=repr)
def test_a_prompt_is_iterable(provider: Provider, value: object):
    with pytest.raises((TypeError, ValueError)):
        provider.LlmRequest(1, value)


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_a_beam_width_is_a_small_number(provider: Provider, value: object):
    with pytest.raises((OverflowError, TypeError, ValueError)):
        provider.LlmRequest(1, [1], beam_width=value)


@pytest.mark.parametrize("capacity", [10**9, 2**31, 2**63, 10**30])
def test_a_capacity_beyond_the_pool_takes_what_there_is(provider: Provider, capacity: int):
    arena = Arena(provider)
    for manager in (arena.v1, arena.v2):
        with pytest.raises(OutOfPagesError):
            manager.resize(arena.request, capacity)
        assert manager.get_num_blocks(arena.request) == 9
