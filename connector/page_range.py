"""Arm ``page-range``: only what is new crosses, for pages as well as for tokens.

An iteration of steady decode costs the same whatever the context length. The kind of manager is
looked up once a batch instead of once a request; no set or list is copied to be read once; counts
are kept instead of lists. The exception is V1's hash chain, which every report repeats whole: it
is kept here, and read only from where it changed.

What the native side would have to offer: page lists from a given block on, beside the token range
that it has, and for V1 the hash chain past a prefix named by its length and last hash.
"""

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
    """How much of one request was reported so far, V2. Neither count ever goes down."""

    __slots__ = ("num_blocks", "num_tokens")

    def __init__(self) -> None:
        self.num_blocks = 0
        self.num_tokens = 0

    def update_and_build_data(
        self, req: LlmRequest, kv_cache_manager: KVCacheManagerV2
    ) -> RequestData:
        """Return what is new about ``req`` since the last call, and remember it as reported."""
        num_tokens = req.get_num_tokens(0)
        new_tokens = req.get_tokens_range(0, self.num_tokens, num_tokens)
        self.num_tokens += len(new_tokens)
        by_layer_group = kv_cache_manager.get_page_indices_range(req, self.num_blocks)
        self.num_blocks += len(by_layer_group[0])
        state = req.state
        if state is _CONTEXT_INIT or state is _DISAGG_GENERATION_TRANS_IN_PROGRESS:
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
        return RequestData(
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


class KvCacheConnectorSchedulerOutputRequestV1:
    """How much of one request was reported so far, V1, and its hash chain."""

    __slots__ = ("block_hashes", "num_blocks", "num_tokens")

    def __init__(self) -> None:
        self.block_hashes: list[int] = []
        self.num_blocks = 0
        self.num_tokens = 0

    def update_and_build_data(
        self, req: LlmRequest, kv_cache_manager: ExtendedKVCacheManager
    ) -> RequestData:
        """Return what is new about ``req`` since the last call, and remember it as reported."""
        num_tokens = req.get_num_tokens(0)
        new_tokens = req.get_tokens_range(0, self.num_tokens, num_tokens)
        self.num_tokens += len(new_tokens)
        new_block_ids = kv_cache_manager.get_cache_indices_range(req, self.num_blocks)
        self.num_blocks += len(new_block_ids)
        hashes = self.block_hashes
        valid, new_hashes = kv_cache_manager.get_block_hashes_after(
            req, len(hashes), hashes[-1] if hashes else 0
        )
        if new_hashes or valid < len(hashes):
            hashes[valid:] = new_hashes
        state = req.state
        if state is _CONTEXT_INIT or state is _DISAGG_GENERATION_TRANS_IN_PROGRESS:
            computed_position = req.context_current_position
            num_scheduled_tokens = min(req.context_remaining_length, req.context_chunk_size)
        else:
            computed_position = num_tokens - 1
            draft_tokens = req.py_draft_tokens
            num_scheduled_tokens = 1 if draft_tokens is None else 1 + len(draft_tokens)
        priorities: list[int] | None = None
        if req.kv_cache_retention_config is not None:
            priorities = list(map(kv_cache_manager.get_priority_by_block_id, new_block_ids))
        return RequestData(
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
        self.requests: dict[
            int, KvCacheConnectorSchedulerOutputRequest | KvCacheConnectorSchedulerOutputRequestV1
        ] = {}
        self.external_loads: dict[int, int] = {}

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration. This is the measured call."""
        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)
        skip_dummies = self.enable_attention_dp
        loading = new_async_requests.loading
        states = self.requests
        new_state = (
            KvCacheConnectorSchedulerOutputRequest
            if isinstance(kv_cache_manager, KVCacheManagerV2)
            else KvCacheConnectorSchedulerOutputRequestV1
        )

        for chunk_requests in (
            scheduled_batch.context_requests_chunking,
            scheduled_batch.context_requests_last_chunk,
        ):
            for req in chunk_requests:
                request_id = req.request_id
                if (skip_dummies and req.is_dummy_request) or request_id in loading:
                    continue
                state = states.get(request_id)
                reported = scheduler_output.cached_requests
                if state is None:
                    state = states[request_id] = new_state()
                    reported = scheduler_output.new_requests
                # A state meets the manager that it was chosen for: an engine has one of them.
                data = state.update_and_build_data(req, kv_cache_manager)  # type: ignore[arg-type]
                data.computed_position -= self.external_loads.get(request_id, 0)
                reported.append(data)

        report = scheduler_output.cached_requests.append
        for req in scheduled_batch.generation_requests:
            if skip_dummies and req.is_dummy_request:
                continue
            state = states.get(req.request_id)
            if state is None:
                state = states[req.request_id] = new_state()
            report(state.update_and_build_data(req, kv_cache_manager))  # type: ignore[arg-type]

        self.external_loads.clear()
        return scheduler_output

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note that the connector will load the KV of ``num_new_matched_tokens`` prompt tokens."""
        self.external_loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        """Forget a request whose allocation was destroyed: its replay is reported as new."""
        self.requests.pop(request_id, None)
        self.external_loads.pop(request_id, None)
