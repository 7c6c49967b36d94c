"""Arm ``native-output``: one native call builds what is told of the whole batch.

What was reported of each request is kept on the native side as well, so that nothing is handed over
to say it, and nothing is left that Python does once a request. The output type is the engine's: the
native side is handed the class once, and calls it with its arguments by position (a vectorcall).
Every list is new. A consumer may write to any of them, keep it or pickle it, so there is none that
two reports could share, not even an empty one.

What the native side would have to offer: ``build_request_data`` of the KV cache manager, and what
it keeps from one report to the next. It reads the request's Python attributes, ``cache_salt`` and
``py_draft_tokens``, so it has to be handed the Python objects, as a binding is.
"""

from .data import RequestData, SchedulerOutput
from .interfaces import (
    AsyncRequests,
    ExtendedKVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    ReportedRequests,
    ScheduledRequests,
)
from .log import warning_once

# The order in which the native side fills in the fields.
_FIELDS = (
    *("request_id", "new_tokens", "new_block_ids", "computed_position", "num_scheduled_tokens"),
    *("block_hashes", "priorities", "cache_salt", "new_block_ids_by_layer_group"),
)


class KvCacheConnectorSchedulerOutputManager:
    """Builds the output of each iteration from what the earlier ones reported.

    Args:
        enable_attention_dp: leave dummy requests out of the report.
        attention_dp_rank: the rank to name in the output under attention data parallelism.

    Raises:
        TypeError: ``RequestData`` does not take its fields by position, in the order known here.
    """

    def __init__(
        self, *, enable_attention_dp: bool = False, attention_dp_rank: int | None = None
    ) -> None:
        if getattr(RequestData, "__match_args__", ())[: len(_FIELDS)] != _FIELDS:
            raise TypeError(
                "RequestData takes other fields by position than the native side fills in, which "
                f"are {', '.join(_FIELDS)}"
            )
        self.enable_attention_dp = enable_attention_dp
        self.attention_dp_rank = attention_dp_rank if enable_attention_dp else None
        self.reported: ReportedRequests | None = None
        self.external_loads: dict[int, int] = {}

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration. This is the measured call."""
        reported = self.reported
        if reported is None:
            reported = self.reported = kv_cache_manager.create_reported_requests(
                RequestData, self.enable_attention_dp
            )
        new_requests, cached_requests, ignored_retention = kv_cache_manager.build_request_data(
            reported,
            scheduled_batch.context_requests_chunking,
            scheduled_batch.context_requests_last_chunk,
            scheduled_batch.generation_requests,
            new_async_requests.loading,
            self.external_loads,
        )
        if ignored_retention:
            warning_once(
                "the V2 KV cache manager honours no retention config: priorities stay unset",
                key="v2-retention-config-ignored",
            )
        self.external_loads.clear()
        return SchedulerOutput(new_requests, cached_requests, self.attention_dp_rank)

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note that the connector will load the KV of ``num_new_matched_tokens`` prompt tokens."""
        self.external_loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        """Forget a request whose allocation was destroyed: its replay is reported as new."""
        if self.reported is not None:
            self.reported.forget(request_id)
        self.external_loads.pop(request_id, None)
