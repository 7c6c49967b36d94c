"""Arm ``full-copy``: the path before TensorRT-LLM pull request #22092.

Every iteration copies each request's whole token list into Python to learn its last token. The
waste is upstream's and is kept, since this arm is the reference that others are held against: the
import inside the method, the lists that grow with the context, a new set for each context
request. ``connector/incremental.py`` differs from this file in the token copy and in nothing else.
"""

from collections import defaultdict

from .data import RequestData, SchedulerOutput
from .interfaces import (
    AsyncRequests,
    KVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    LlmRequestState,
    ScheduledRequests,
    get_draft_token_length,
)
from .log import warning_once


class KvCacheConnectorSchedulerOutputRequest:
    """What was reported of one request so far."""

    def __init__(self) -> None:
        self.block_ids: list[int] = []
        self.block_ids_by_layer_group: list[list[int]] = []
        self.tokens: list[int] = []

    def update_and_build_data(
        self, req: LlmRequest, kv_cache_manager: KVCacheManager | KVCacheManagerV2
    ) -> RequestData:
        """Return what is new about ``req`` since the last call, and remember it as reported."""
        # Upstream imports here, at every call, to avoid an import cycle.
        from .interfaces import KVCacheManagerV2

        tokens = req.get_tokens(0)
        num_tokens = len(tokens)

        new_block_ids_by_layer_group: list[list[int]] = []
        block_hashes: list[int] = []
        if isinstance(kv_cache_manager, KVCacheManagerV2):
            page_indices = kv_cache_manager.get_page_indices_by_layer_group(req)
            while len(self.block_ids_by_layer_group) < len(page_indices):
                self.block_ids_by_layer_group.append([])
            for seen, indices in zip(self.block_ids_by_layer_group, page_indices, strict=True):
                new_indices = indices[len(seen) :]
                seen.extend(new_indices)
                new_block_ids_by_layer_group.append(new_indices)
            # A page index is scoped to its group, so only a single group can be reported flat.
            new_block_ids = new_block_ids_by_layer_group[0] if len(page_indices) == 1 else []
        else:
            block_ids = kv_cache_manager.get_cache_indices(req)
            block_hashes = kv_cache_manager.commit_and_get_block_hashes(req)
            new_block_ids = block_ids[len(self.block_ids) :]
        self.block_ids.extend(new_block_ids)

        new_tokens = tokens[len(self.tokens) :]
        self.tokens.extend(new_tokens)

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
        kv_cache_manager: KVCacheManager | KVCacheManagerV2,
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
