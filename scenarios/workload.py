"""Workloads: scenarios brought to life on the stand-ins."""

import random
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from connector.interfaces import LlmRequestState
from stepbench_core.errors import InputError
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2
from stubs.providers import DEFAULT_PROVIDER, Provider, load_provider
from stubs.request import LlmRequest

from .batching import Slot, fast_forward
from .scenario import Scenario, SteadyDecode, TraceReplay
from .traces import TraceRow, read_trace

# Bytes that a token can cost in a worker: 4 in the request, 8 in a list that an arm keeps and 32
# in the int it points to, 40 once more in the list that is being marshalled.
_BYTES_PER_TOKEN = 84
_BYTES_PER_KEPT_TOKEN = 40
# A page costs a slot in the table and one in the pool, and list entries on its way to the arm.
_BYTES_PER_PAGE = 200
# Interpreter, pyperf and the objects of a request, with room to spare: with --cells 1x1 and 10000x1
# the provenance of a table named 30 and 53 MB, on CPython 3.11.
_BYTES_PER_PROCESS = 40_000_000
_BYTES_PER_REQUEST = 6_000


class Workload(Protocol):
    """What a sampler drives and an arm reads.

    Attributes:
        manager: the KV cache manager.
        batch: the batch of the current iteration.
        async_requests: requests being loaded or saved; none here.
    """

    manager: KVCacheManager | KVCacheManagerV2
    batch: ScheduledRequests
    async_requests: AsyncRequests

    def advance(self) -> None:
        """Move on to the next iteration, up to the point where its output is built."""


class SteadyDecodeWorkload:
    """A batch of generation requests that never changes.

    Args:
        scenario: what to schedule.
        iterations: how often ``advance`` will be called; it sizes the page pool.
        seed: draws token ids, pages and what is accepted of draft tokens.
        provider: name of what plays the native side; the workload is the same on each.

    Raises:
        ProviderError: there is no such provider, or it is absent.
    """

    def __init__(
        self,
        scenario: SteadyDecode,
        iterations: int,
        seed: str,
        provider: str = DEFAULT_PROVIDER,
    ) -> None:
        native = load_provider(provider)
        self._scenario = scenario
        self._rng = random.Random(seed)
        self._growth = 1 + scenario.draft_tokens
        longest = scenario.tokens + scenario.tokens_per_block + (iterations + 3) * self._growth
        blocks = scenario.requests * (longest // scenario.tokens_per_block + 1)
        self.manager = _create_manager(scenario, blocks, self._rng, native)
        requests = []
        for index in range(scenario.requests):
            length = _prompt_length(scenario, index)
            request = native.LlmRequest(index, _random_tokens(length, self._rng))
            request.context_current_position = length
            request.state = LlmRequestState.GENERATION_IN_PROGRESS
            self.manager.resize(request, length)
            requests.append(request)
        self.batch = ScheduledRequests(generation_requests=requests)
        self.async_requests = AsyncRequests()
        # Numbers of tokens that each forward gave, not yet appended; under overlap, the last one's.
        self._unread: deque[list[int]] = deque([[0] * len(requests)] if scenario.overlap else [])

    def advance(self) -> None:
        """Append what the forward before gave, and hold blocks for what is scheduled next."""
        rng, growth = self._rng, self._growth
        requests = self.batch.generation_requests
        self._unread.append(
            [1 + rng.randrange(growth) if growth > 1 else 1 for _ in range(len(requests))]
        )
        for request, count in zip(requests, self._unread.popleft(), strict=True):
            _append(request, count, rng)
            _prepare_generation(self.manager, request, self._scenario, rng)


class TraceReplayWorkload:
    """The requests of a trace joining, generating and leaving.

    Args:
        scenario: what to replay.
        iterations: how often ``advance`` will be called.
        seed: draws the part of the trace, token ids, pages and what is accepted of draft tokens.
        provider: name of what plays the native side; the workload is the same on each.

    Raises:
        ProviderError: there is no such provider, or it is absent.
        InputError: the trace cannot be read, or is too short.
    """

    def __init__(
        self,
        scenario: TraceReplay,
        iterations: int,
        seed: str,
        provider: str = DEFAULT_PROVIDER,
    ) -> None:
        rows = read_trace(scenario.path).rows
        self._provider = load_provider(provider)
        self._scenario = scenario
        self._rng = random.Random(f"tokens {seed}")
        self._batching = fast_forward(scenario, rows, iterations, seed)
        most = sum(_longest(scenario, rows))
        blocks = most // scenario.tokens_per_block + scenario.max_batch
        self.manager = _create_manager(scenario, blocks, self._rng, self._provider)
        self._requests: dict[int, LlmRequest] = {}
        self.batch = ScheduledRequests()
        self.async_requests = AsyncRequests()

    def advance(self) -> None:
        """Free who left, admit who joins, append what was generated, and schedule."""
        batching = self._batching
        batching.step()
        slots = [*batching.context.values(), *batching.generation.values()]
        requests = {slot.row: self._requests.get(slot.row) or self._admit(slot) for slot in slots}
        for row, request in self._requests.items():
            if row not in requests:
                self.manager.free_resources(request)
        self._requests = requests
        for slot in batching.context.values():
            self._compute_context(slot, requests[slot.row])
        for slot in batching.generation.values():
            self._generate(slot, requests[slot.row])
        self.batch = ScheduledRequests(
            generation_requests=[requests[row] for row in batching.generation]
        )
        self.batch.reset_context_requests(
            requests[slot.row] for slot in batching.context.values() if slot.chunk
        )

    def _admit(self, slot: Slot) -> LlmRequest:
        request = self._provider.LlmRequest(slot.row, _random_tokens(slot.prompt, self._rng))
        self.manager.resize(request, slot.computed)  # More than 0 for those found in the batch.
        return request

    def _compute_context(self, slot: Slot, request: LlmRequest) -> None:
        request.context_current_position = slot.computed
        request.context_chunk_size = slot.chunk
        # V1 allocates the whole prompt when it admits a request, V2 chunk by chunk.
        v1 = self._scenario.manager == "v1"
        self.manager.resize(request, slot.prompt if v1 else slot.computed + slot.chunk)
        self.manager.update_history(request, slot.computed)

    def _generate(self, slot: Slot, request: LlmRequest) -> None:
        request.context_current_position = slot.prompt
        request.state = LlmRequestState.GENERATION_IN_PROGRESS
        length = slot.prompt + self._batching.known_tokens(slot)
        _append(request, length - request.get_num_tokens(0), self._rng)
        _prepare_generation(self.manager, request, self._scenario, self._rng)


def create_workload(
    scenario: SteadyDecode | TraceReplay,
    iterations: int,
    seed: str,
    provider: str = DEFAULT_PROVIDER,
) -> SteadyDecodeWorkload | TraceReplayWorkload:
    """Return the workload of ``scenario``; the arguments are those of its class."""
    if isinstance(scenario, SteadyDecode):
        return SteadyDecodeWorkload(scenario, iterations, seed, provider)
    return TraceReplayWorkload(scenario, iterations, seed, provider)


def batch_shape(batch: ScheduledRequests) -> tuple[int, int]:
    """Return the number of requests in a batch and of the tokens that their sequences hold."""
    requests = batch.context_requests + batch.generation_requests
    return len(requests), sum(request.get_num_tokens(0) for request in requests)


def peak_bytes(scenario: SteadyDecode | TraceReplay, iterations: int) -> int:
    """Return the memory in bytes that measuring ``scenario`` can take; an upper bound.

    Args:
        scenario: what to measure.
        iterations: how often its workload will be advanced.

    Raises:
        InputError: the scenario's trace cannot be read.
    """
    growth = iterations * (1 + scenario.draft_tokens)
    if isinstance(scenario, SteadyDecode):
        requests, tokens = scenario.requests, scenario.requests * (scenario.tokens + growth)
        kept = 0
    else:
        rows = read_trace(scenario.path).rows
        requests, tokens = scenario.max_batch, sum(_longest(scenario, rows))
        # An arm forgets no request: what left the batch is still in its lists. The budget bounds
        # how much can join.
        joined = sum(row.prompt + row.output for row in rows)
        kept = min(joined, iterations * scenario.max_num_tokens + tokens)
    pages = (tokens // scenario.tokens_per_block + 2 * requests) * len(scenario.layer_groups)
    return (
        _BYTES_PER_PROCESS
        + requests * _BYTES_PER_REQUEST
        + tokens * _BYTES_PER_TOKEN
        + kept * _BYTES_PER_KEPT_TOKEN
        + pages * _BYTES_PER_PAGE
    )


def check_feasible(
    scenario: SteadyDecode | TraceReplay,
    iterations: int,
    seed: str,
    available: int,
    at_once: int = 1,
) -> None:
    """Find out what would stop a measurement before it starts.

    Args:
        scenario: what to measure.
        iterations: how often its workload will be advanced.
        seed: the seed of its workload.
        available: bytes of memory that are free.
        at_once: how many such workloads are there at the same time.

    Raises:
        InputError: the trace cannot be read or is too short, or the memory would not do.
    """
    needed = at_once * peak_bytes(scenario, iterations)
    if needed > available:
        of_all = f" for {at_once} at once" if at_once > 1 else ""
        raise InputError(
            f"{scenario.name} would not fit the memory: it needs up to "
            f"{needed / 1e9:.1f} GB{of_all}, and {available / 1e9:.1f} GB are available"
        )
    if isinstance(scenario, TraceReplay):
        fast_forward(scenario, read_trace(scenario.path).rows, iterations, seed)


def _create_manager(
    scenario: Scenario, num_blocks: int, rng: random.Random, provider: Provider
) -> KVCacheManager | KVCacheManagerV2:
    if scenario.manager == "v1":
        return provider.KVCacheManager(
            num_blocks, tokens_per_block=scenario.tokens_per_block, rng=rng
        )
    return provider.KVCacheManagerV2(
        num_blocks,
        tokens_per_block=scenario.tokens_per_block,
        layer_groups=scenario.layer_groups,
        page_backend=scenario.page_backend,
        rng=rng,
    )


def _prompt_length(scenario: SteadyDecode, index: int) -> int:
    if scenario.boundaries == "aligned":
        return scenario.tokens
    block = scenario.tokens_per_block
    shortest = max(1, scenario.tokens - block // 2)
    return shortest + index * block // scenario.requests


def _prepare_generation(
    manager: KVCacheManager | KVCacheManagerV2,
    request: LlmRequest,
    scenario: Scenario,
    rng: random.Random,
) -> None:
    """Hold blocks for what this iteration computes of a generation request, and draft for it."""
    length = request.get_num_tokens(0)
    growth = 1 + scenario.draft_tokens
    # Under overlap the forward before is still running: its tokens need room as well, and its
    # KV does not count as computed.
    manager.update_history(request, length - 1)
    manager.resize(request, length + scenario.draft_tokens + (growth if scenario.overlap else 0))
    if scenario.draft_tokens:
        request.py_draft_tokens = _random_tokens(scenario.draft_tokens, rng).tolist()


def _append(request: LlmRequest, count: int, rng: random.Random) -> None:
    for _ in range(count):
        request.add_new_token(rng.getrandbits(16), 0)


def _random_tokens(count: int, rng: random.Random) -> "array[int]":
    """Return ``count`` token ids below 65,536: sixteen bits are the quickest to draw."""
    return array("i", array("H", rng.randbytes(2 * count)))


def _longest(scenario: TraceReplay, rows: Sequence[TraceRow]) -> list[int]:
    """Return the lengths that the longest requests which fit one batch reach, with look-ahead."""
    ahead = 3 * (1 + scenario.draft_tokens) + scenario.tokens_per_block
    lengths = sorted((row.prompt + row.output + ahead for row in rows), reverse=True)
    return lengths[: scenario.max_batch]
