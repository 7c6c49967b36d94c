"""Arm ``batched``: one native call tells what is new about the whole batch.

Lengths, new tokens and new pages of all requests come back together, so that crossing into the
native side is paid for once an iteration and not several times a request. Output objects are built
in the same order as elsewhere.

What the native side would have to offer: ``get_batch_updates`` of the KV cache manager, which takes
the requests with what is known of each and returns what is new, in parallel lists. Nothing is left
that is called once a request: ``update_and_build_data`` has no counterpart here.
"""

from typing import TypeVar, cast

from .data import RequestData, SchedulerOutput
from .interfaces import (
    AsyncRequests,
    ExtendedKVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    LlmRequestState,
    ScheduledRequests,
)
from .log import warning_once

# Looked up once: a member of an enum class costs several dictionary lookups.
_CONTEXT_INIT = LlmRequestState.CONTEXT_INIT
_DISAGG_GENERATION_TRANS_IN_PROGRESS = LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS


class KvCacheConnectorSchedulerOutputRequest:
    """How much of one request was reported so far. Neither count ever goes down."""

    __slots__ = ("num_blocks", "num_tokens")

    def __init__(self) -> None:
        self.num_blocks = 0
        self.num_tokens = 0


class KvCacheConnectorSchedulerOutputRequestV1(KvCacheConnectorSchedulerOutputRequest):
    """The same, with the hash chain that every V1 report repeats."""

    __slots__ = ("block_hashes",)

    def __init__(self) -> None:
        super().__init__()
        self.block_hashes: list[int] = []


State = TypeVar("State", bound=KvCacheConnectorSchedulerOutputRequest)


class KvCacheConnectorSchedulerOutputManager:
    """Builds the output of each iteration from what the earlier ones reported.

    Args:
        enable_attention_dp: leave dummy requests out of the report.
        attention_dp_rank: the rank to name in the output under attention data parallelism.
    """

    def __init__(
        self, *, enable_attention_dp: bool = False, attention_dp_rank: int | None = None
    ) -> None:
        self.enable_attention_dp = enable_attention_dp
        self.attention_dp_rank = attention_dp_rank if enable_attention_dp else None
        self.requests: dict[int, KvCacheConnectorSchedulerOutputRequest] = {}
        self.external_loads: dict[int, int] = {}

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration. This is the measured call."""
        loading = new_async_requests.loading
        context = [
            req
            for chunk_requests in (
                scheduled_batch.context_requests_chunking,
                scheduled_batch.context_requests_last_chunk,
            )
            for req in chunk_requests
            if req.request_id not in loading
        ]
        generation = scheduled_batch.generation_requests
        if self.enable_attention_dp:
            context = [req for req in context if not req.is_dummy_request]
            generation = [req for req in generation if not req.is_dummy_request]

        known = [self.requests.get(req.request_id) for req in context]
        requests = [*context, *generation]
        data = self._build(requests, kv_cache_manager)

        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)
        for item, state in zip(data, known, strict=False):
            item.computed_position -= self.external_loads.get(item.request_id, 0)
            if state is None:
                scheduler_output.new_requests.append(item)
            else:
                scheduler_output.cached_requests.append(item)
        scheduler_output.cached_requests += data[len(known) :]
        self.external_loads.clear()
        return scheduler_output

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note that the connector will load the KV of ``num_new_matched_tokens`` prompt tokens."""
        self.external_loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        """Forget a request whose allocation was destroyed: its replay is reported as new."""
        self.requests.pop(request_id, None)
        self.external_loads.pop(request_id, None)

    def _build(
        self,
        requests: list[LlmRequest],
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> list[RequestData]:
        """Return the data of all requests, and remember it as reported."""
        if isinstance(kv_cache_manager, KVCacheManagerV2):
            states = self._states(requests, KvCacheConnectorSchedulerOutputRequest)
            return _build_v2(requests, states, kv_cache_manager)
        v1_states = self._states(requests, KvCacheConnectorSchedulerOutputRequestV1)
        return _build_v1(requests, v1_states, kv_cache_manager)

    def _states(self, requests: list[LlmRequest], new_state: type[State]) -> list[State]:
        states = []
        for req in requests:
            state = self.requests.get(req.request_id)
            if state is None:
                state = self.requests[req.request_id] = new_state()
            states.append(state)
        # A state meets the manager that it was chosen for: an engine has one of them.
        return cast("list[State]", states)


def _build_v2(
    requests: list[LlmRequest],
    states: list[KvCacheConnectorSchedulerOutputRequest],
    kv_cache_manager: KVCacheManagerV2,
) -> list[RequestData]:
    lengths, tokens, pages = kv_cache_manager.get_batch_updates(
        requests, [state.num_tokens for state in states], [state.num_blocks for state in states]
    )
    data = []
    for req, state, num_tokens, new_tokens, by_layer_group in zip(
        requests, states, lengths, tokens, pages, strict=True
    ):
        state.num_tokens += len(new_tokens)
        state.num_blocks += len(by_layer_group[0])
        req_state = req.state
        if req_state is _CONTEXT_INIT or req_state is _DISAGG_GENERATION_TRANS_IN_PROGRESS:
            computed_position = req.context_current_position
            num_scheduled_tokens = min(req.context_remaining_length, req.context_chunk_size)
        else:
            computed_position = num_tokens - 1
            draft_tokens = req.py_draft_tokens
            num_scheduled_tokens = 1 if draft_tokens is None else 1 + len(draft_tokens)
        if req.kv_cache_retention_config is not None:
            warning_once(
                "the V2 KV cache manager honours no retention config: priorities stay unset",
                key="v2-retention-config-ignored",
            )
        data.append(
            RequestData(
                req.request_id,
                new_tokens,
                by_layer_group[0] if len(by_layer_group) == 1 else [],
                computed_position,
                num_scheduled_tokens,
                [],
                None,
                req.cache_salt,
                by_layer_group,
            )
        )
    return data


def _build_v1(
    requests: list[LlmRequest],
    states: list[KvCacheConnectorSchedulerOutputRequestV1],
    kv_cache_manager: ExtendedKVCacheManager,
) -> list[RequestData]:
    updates = kv_cache_manager.get_batch_updates(
        requests,
        [state.num_tokens for state in states],
        [state.num_blocks for state in states],
        [len(state.block_hashes) for state in states],
        [state.block_hashes[-1] if state.block_hashes else 0 for state in states],
    )
    data = []
    for req, state, num_tokens, new_tokens, new_block_ids, valid, new_hashes in zip(
        requests, states, *updates, strict=True
    ):
        state.num_tokens += len(new_tokens)
        state.num_blocks += len(new_block_ids)
        hashes = state.block_hashes
        if new_hashes or valid < len(hashes):
            hashes[valid:] = new_hashes
        req_state = req.state
        if req_state is _CONTEXT_INIT or req_state is _DISAGG_GENERATION_TRANS_IN_PROGRESS:
            computed_position = req.context_current_position
            num_scheduled_tokens = min(req.context_remaining_length, req.context_chunk_size)
        else:
            computed_position = num_tokens - 1
            draft_tokens = req.py_draft_tokens
            num_scheduled_tokens = 1 if draft_tokens is None else 1 + len(draft_tokens)
        priorities: list[int] | None = None
        if req.kv_cache_retention_config is not None:
            priorities = list(map(kv_cache_manager.get_priority_by_block_id, new_block_ids))
        data.append(
            RequestData(
                req.request_id,
                new_tokens,
                new_block_ids,
                computed_position,
                num_scheduled_tokens,
                hashes.copy(),
                priorities,
                req.cache_salt,
                [],
            )
        )
    return data
