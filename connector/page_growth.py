"""Arm ``page-growth``: pages read only when their number grew, counts kept instead of lists.

A page list that did not grow has nothing new to report, so in steady decode it is read once per
``tokens_per_block`` iterations. What was reported is remembered as two numbers a request.

What the native side would have to offer: the number of blocks of a request without its page list,
and the number of layer groups.
"""

from collections import defaultdict

from .data import RequestData, SchedulerOutput
from .interfaces import (
    AsyncRequests,
    ExtendedKVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    LlmRequestState,
    ScheduledRequests,
    get_draft_token_length,
)
from .log import warning_once


class KvCacheConnectorSchedulerOutputRequest:
    """How much of one request was reported so far. Neither count ever goes down."""

    __slots__ = ("num_blocks", "num_tokens")

    def __init__(self) -> None:
        self.num_blocks = 0
        self.num_tokens = 0

    def update_and_build_data(
        self, req: LlmRequest, kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2
    ) -> RequestData:
        """Return what is new about ``req`` since the last call, and remember it as reported."""
        from .interfaces import KVCacheManagerV2

        num_tokens = req.get_num_tokens(0)
        num_blocks = kv_cache_manager.get_num_blocks(req)
        seen, grew = self.num_blocks, num_blocks > self.num_blocks

        new_block_ids_by_layer_group: list[list[int]] = []
        block_hashes: list[int] = []
        if isinstance(kv_cache_manager, KVCacheManagerV2):
            if grew:
                page_indices = kv_cache_manager.get_page_indices_by_layer_group(req)
                new_block_ids_by_layer_group = [indices[seen:] for indices in page_indices]
            else:
                new_block_ids_by_layer_group = [
                    [] for _ in range(kv_cache_manager.num_layer_groups)
                ]
            single = len(new_block_ids_by_layer_group) == 1
            new_block_ids = new_block_ids_by_layer_group[0] if single else []
        else:
            block_hashes = kv_cache_manager.commit_and_get_block_hashes(req)
            new_block_ids = kv_cache_manager.get_cache_indices(req)[seen:] if grew else []
        if grew:
            self.num_blocks = num_blocks

        new_tokens = req.get_tokens_range(0, self.num_tokens, num_tokens)
        self.num_tokens += len(new_tokens)

        if req.state in (
            LlmRequestState.CONTEXT_INIT,
            LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS,
        ):
            computed_position = req.context_current_position
            num_scheduled_tokens = min(req.context_remaining_length, req.context_chunk_size)
        else:
            computed_position = num_tokens - 1
            num_scheduled_tokens = 1 + get_draft_token_length(req)

        priorities: list[int] | None = None
        if req.kv_cache_retention_config is not None:
            if isinstance(kv_cache_manager, KVCacheManagerV2):
                warning_once(
                    "the V2 KV cache manager honours no retention config: priorities stay unset",
                    key="v2-retention-config-ignored",
                )
            else:
                priorities = [
                    kv_cache_manager.get_priority_by_block_id(block_id)
                    for block_id in new_block_ids
                ]

        return RequestData(
            req.request_id,
            new_tokens,
            new_block_ids,
            computed_position,
            num_scheduled_tokens,
            block_hashes=block_hashes,
            priorities=priorities,
            cache_salt=req.cache_salt,
            new_block_ids_by_layer_group=new_block_ids_by_layer_group,
        )


class KvCacheConnectorSchedulerOutputManager:
    """Builds the output of each iteration from what the earlier ones reported.

    Args:
        enable_attention_dp: each rank serves requests of its own; dummy requests, which only pad a
            rank's batch, are left out of the report.
        attention_dp_rank: the rank to name in the output under attention data parallelism.
            Upstream's caller fills it in right after this call.
    """

    def __init__(
        self, *, enable_attention_dp: bool = False, attention_dp_rank: int | None = None
    ) -> None:
        self.enable_attention_dp = enable_attention_dp
        self.attention_dp_rank = attention_dp_rank if enable_attention_dp else None
        self.requests: defaultdict[int, KvCacheConnectorSchedulerOutputRequest] = defaultdict(
            KvCacheConnectorSchedulerOutputRequest
        )
        self.external_loads: dict[int, int] = {}

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration. This is the measured call."""
        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)

        for req in scheduled_batch.context_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            # A request being loaded is taken out of the batch before the forward.
            if req.request_id in new_async_requests.loading_ids:
                continue
            is_new = req.request_id not in self.requests
            data = self.requests[req.request_id].update_and_build_data(req, kv_cache_manager)
            # The connector's own matched tokens are not computed yet: it is about to load them.
            if req.request_id in self.external_loads:
                data.computed_position -= self.external_loads[req.request_id]
            if is_new:
                scheduler_output.new_requests.append(data)
            else:
                scheduler_output.cached_requests.append(data)

        for req in scheduled_batch.generation_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            data = self.requests[req.request_id].update_and_build_data(req, kv_cache_manager)
            scheduler_output.cached_requests.append(data)

        self.external_loads = {}
        return scheduler_output

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note that the connector will load the KV of ``num_new_matched_tokens`` prompt tokens."""
        self.external_loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        """Forget a request whose allocation was destroyed: its replay is reported as new."""
        self.requests.pop(request_id, None)
        self.external_loads.pop(request_id, None)
