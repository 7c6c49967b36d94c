"""What the tests of the arms drive them with."""

import random
from collections.abc import Iterable
from types import ModuleType

import connector.full_copy
import connector.incremental
from connector import interfaces
from connector.data import RequestData, SchedulerOutput
from connector.interfaces import LlmRequestState
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2
from stubs.request import LlmRequest

ARMS: dict[str, ModuleType] = {
    "full-copy": connector.full_copy,
    "incremental": connector.incremental,
}

Arm = connector.full_copy.KvCacheConnectorSchedulerOutputManager
Manager = KVCacheManager | KVCacheManagerV2

MANAGERS = {
    "v1": lambda: KVCacheManager(400, tokens_per_block=4, rng=random.Random(1)),
    "v2": lambda: KVCacheManagerV2(400, tokens_per_block=4, rng=random.Random(1)),
}


class ListedV1:
    """A V1 manager that holds what a test lists, for any request, and notes the calls."""

    def __init__(self, blocks: Iterable[int] = (), hashes: Iterable[int] = ()) -> None:
        self.blocks = list(blocks)
        self.hashes = list(hashes)
        self.priorities: dict[int, int] = {}
        self.calls: list[str] = []

    def get_cache_indices(self, request: interfaces.LlmRequest) -> list[int]:
        self.calls.append(f"indices of {request.request_id}")
        return self.blocks.copy()

    def commit_and_get_block_hashes(self, request: interfaces.LlmRequest) -> list[int]:
        self.calls.append(f"hashes of {request.request_id}")
        return self.hashes.copy()

    def get_priority_by_block_id(self, block_id: int) -> int:
        self.calls.append(f"priority of {block_id}")
        return self.priorities[block_id]


class ListedV2(interfaces.KVCacheManagerV2):
    """A V2 manager that holds what a test lists, for any request, and notes the calls."""

    def __init__(self, *pages: Iterable[int]) -> None:
        self.pages = [list(group) for group in pages]
        self.calls: list[str] = []

    def get_page_indices_by_layer_group(self, request: interfaces.LlmRequest) -> list[list[int]]:
        self.calls.append(f"pages of {request.request_id}")
        return [group.copy() for group in self.pages]


def admit(manager: Manager, request_id: int, length: int = 8, **kwargs: bool) -> LlmRequest:
    """Return a request with tokens from 100 on, and blocks for 40 tokens."""
    request = LlmRequest(request_id, range(100, 100 + length), **kwargs)
    manager.resize(request, 40)
    return request


def build(
    arm: Arm,
    manager: Manager | ListedV1 | ListedV2,
    *,
    chunking: Iterable[LlmRequest] = (),
    context: Iterable[LlmRequest] = (),
    generation: Iterable[LlmRequest] = (),
    loading: Iterable[LlmRequest] = (),
) -> SchedulerOutput:
    """Return the output of one iteration; ``context`` requests are in their last chunk."""
    batch = ScheduledRequests(list(chunking), list(context), list(generation))
    loads = AsyncRequests(loading={request.request_id: request for request in loading})
    return arm.build_scheduler_output(batch, loads, manager)


def build_one(arm: Arm, manager: Manager | ListedV1 | ListedV2, request: LlmRequest) -> RequestData:
    """Return what is reported of a request that is the whole batch."""
    generates = request.state is LlmRequestState.GENERATION_IN_PROGRESS
    phase = "generation" if generates else "context"
    output = build(arm, manager, **{phase: [request]})
    (data,) = output.new_requests + output.cached_requests
    return data


def ids(reported: list[RequestData]) -> list[int]:
    return [data.request_id for data in reported]


def start_generation(request: LlmRequest, *tokens: int) -> LlmRequest:
    """Take a request past its context phase, and append what it generated."""
    request.context_current_position = request.prompt_len
    request.state = LlmRequestState.GENERATION_IN_PROGRESS
    return extend(request, *tokens)


def extend(request: LlmRequest, *tokens: int) -> LlmRequest:
    for token in tokens:
        request.add_new_token(token, 0)
    return request


def cut(request: LlmRequest, length: int) -> LlmRequest:
    """Shorten the sequence of a generating request, as a rejected draft does.

    The stand-in's only call that shortens is ``pause``.
    """
    request.pause(length)
    return start_generation(request)
