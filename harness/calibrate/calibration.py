"""What the calls of the stand-ins cost, in one process of one provider."""

from __future__ import annotations

import functools
import gc
import random
import statistics
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connector.interfaces import LlmRequestState
from stubs.providers import Provider

# Lengths at which a token's cost is shown; beyond the caches it rises.
LENGTHS = (256, 1_024, 4_096, 16_384, 32_768, 65_536, 131_072)
# A repetition times about this many tokens or calls, so that two clock readings weigh little.
_TOKENS_PER_REPETITION = 131_072
_CALLS_PER_REPETITION = 1_000
_REPETITIONS = 15
_BATCH = 64
_TOKENS_PER_BLOCK = 32
_LENGTH = 8_192  # Of the requests whose other calls are timed.


@dataclass(frozen=True)
class Cost:
    """What one call costs in one process.

    Attributes:
        call: the call, as an arm writes it.
        unit: what the cost is per: ``token``, ``page index``, ``hash``, ``request`` or ``call``.
        size: tokens, page indices or hashes that one call returns; None where that is not the
            point.
        nanoseconds: median over repetitions.
    """

    call: str
    unit: str
    size: int | None
    nanoseconds: float


def calibrate(
    provider: Provider,
    *,
    clock: Callable[[], int] = time.perf_counter_ns,
    lengths: Sequence[int] = LENGTHS,
) -> list[Cost]:
    """Time the calls of a provider's stand-ins, in this process, with the collector off.

    Freeing what a call returns is part of its cost, as it is in an arm that copies a whole list.

    Args:
        provider: where the stand-ins come from.
        clock: nanoseconds since some moment.
        lengths: lengths in tokens of the requests that are copied whole.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return [
            *_token_costs(provider, clock, lengths),
            *_request_costs(provider, clock),
            *_v2_costs(provider, clock, lengths),
            *_v1_costs(provider, clock, lengths),
        ]
    finally:
        if was_enabled:
            gc.enable()


def _token_costs(
    provider: Provider, clock: Callable[[], int], lengths: Sequence[int]
) -> list[Cost]:
    costs = []
    for length in lengths:
        request = _request(provider, 0, length)
        cost = _time(functools.partial(request.get_tokens, 0), length, clock)
        costs.append(Cost("get_tokens(0)", "token", length, cost / length))
    return costs


def _request_costs(provider: Provider, clock: Callable[[], int]) -> list[Cost]:
    request = _request(provider, 0, _LENGTH)
    calls = {
        "get_num_tokens(0)": lambda: request.get_num_tokens(0),
        "get_token(0, pos)": lambda: request.get_token(0, _LENGTH - 1),
        "get_tokens_range(0, n - 1, n)": lambda: request.get_tokens_range(0, _LENGTH - 1, _LENGTH),
        "request_id": lambda: request.request_id,
        "state": lambda: request.state,
        "kv_cache_retention_config": lambda: request.kv_cache_retention_config,
    }
    return _per_call(calls, clock)


def _v2_costs(provider: Provider, clock: Callable[[], int], lengths: Sequence[int]) -> list[Cost]:
    costs = []
    for length in lengths:
        pages = length // _TOKENS_PER_BLOCK
        for backend in ("list", "generator"):
            manager, (request,) = _manager(provider, "v2", 1, length, page_backend=backend)
            call = functools.partial(manager.get_page_indices_by_layer_group, request)
            name = f"V2 get_page_indices_by_layer_group(request), {backend} backend"
            costs.append(Cost(name, "page index", pages, _time(call, pages, clock) / pages))
    manager, requests = _manager(provider, "v2", _BATCH, _LENGTH)
    pages = _LENGTH // _TOKENS_PER_BLOCK
    calls = {
        "V2 get_num_blocks(request)": lambda: manager.get_num_blocks(requests[0]),
        "V2 get_page_indices_range(request, n)": lambda: manager.get_page_indices_range(
            requests[0], pages
        ),
    }
    costs += _per_call(calls, clock)
    known = [_LENGTH - 1] * _BATCH, [pages] * _BATCH
    batch = _time(lambda: manager.get_batch_updates(requests, *known), _BATCH, clock)
    costs.append(Cost(f"V2 get_batch_updates, {_BATCH} requests", "request", None, batch / _BATCH))
    return costs


def _v1_costs(provider: Provider, clock: Callable[[], int], lengths: Sequence[int]) -> list[Cost]:
    costs = []
    for length in lengths:
        pages = length // _TOKENS_PER_BLOCK
        manager, (request,) = _manager(provider, "v1", 1, length)
        for name, unit in (
            ("get_cache_indices", "page index"),
            ("commit_and_get_block_hashes", "hash"),
        ):
            call = functools.partial(getattr(manager, name), request)
            call()  # The first call commits the hashes.
            cost = _time(call, pages, clock) / pages
            costs.append(Cost(f"V1 {name}(request)", unit, pages, cost))
    manager, requests = _manager(provider, "v1", _BATCH, _LENGTH)
    pages = _LENGTH // _TOKENS_PER_BLOCK
    last = [manager.commit_and_get_block_hashes(request)[-1] for request in requests]
    block = manager.get_cache_indices(requests[0])[0]
    calls = {
        "V1 get_priority_by_block_id(block)": lambda: manager.get_priority_by_block_id(block),
        "V1 get_cache_indices_range(request, n)": lambda: manager.get_cache_indices_range(
            requests[0], pages
        ),
        "V1 get_block_hashes_after(request, n, last)": lambda: manager.get_block_hashes_after(
            requests[0], pages, last[0]
        ),
    }
    costs += _per_call(calls, clock)
    known = [_LENGTH - 1] * _BATCH, [pages] * _BATCH, [pages] * _BATCH, last
    batch = _time(lambda: manager.get_batch_updates(requests, *known), _BATCH, clock)
    costs.append(Cost(f"V1 get_batch_updates, {_BATCH} requests", "request", None, batch / _BATCH))
    return costs


def _per_call(calls: Mapping[str, Callable[[], object]], clock: Callable[[], int]) -> list[Cost]:
    return [Cost(name, "call", None, _time(call, 1, clock)) for name, call in calls.items()]


def _time(call: Callable[[], object], size: int, clock: Callable[[], int]) -> float:
    """Return the nanoseconds of one call, which returns ``size`` values: the median.

    The cost of the loop and of the function around the call is taken off.
    """
    calls = max(1, min(_CALLS_PER_REPETITION, _TOKENS_PER_REPETITION // size))
    with_call = statistics.median(_repetition(call, calls, clock) for _ in range(_REPETITIONS))
    without = statistics.median(_repetition(_nothing, calls, clock) for _ in range(_REPETITIONS))
    return max(0.0, with_call - without) / calls


def _nothing() -> None:
    """Do nothing, for what a loop and a function around a call cost."""


def _repetition(call: Callable[[], object], calls: int, clock: Callable[[], int]) -> int:
    start = clock()
    for _ in range(calls):
        call()
    return clock() - start


def _request(provider: Provider, request_id: int, length: int) -> Any:  # noqa: ANN401
    rng = random.Random(length)
    tokens = array("i", array("H", rng.randbytes(2 * length)))
    request = provider.LlmRequest(request_id, tokens)
    request.context_current_position = length
    request.state = LlmRequestState.GENERATION_IN_PROGRESS
    return request


def _manager(
    provider: Provider,
    kind: str,
    count: int,
    length: int,
    **settings: Any,  # noqa: ANN401
) -> tuple[Any, list[Any]]:
    requests = [_request(provider, index, length) for index in range(count)]
    blocks = count * (length // _TOKENS_PER_BLOCK + 1)
    create = provider.KVCacheManager if kind == "v1" else provider.KVCacheManagerV2
    manager = create(blocks, tokens_per_block=_TOKENS_PER_BLOCK, rng=random.Random(0), **settings)
    for request in requests:
        manager.resize(request, length)
        manager.update_history(request, length - 1)
    return manager, requests
