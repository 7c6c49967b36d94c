"""``floor``: no arm, but the cost of building the output objects from values that are ready.

Python code with this output type builds these objects, so that no arm which builds them in Python
can be faster. What is timed copies the ready lists and creates the data classes; where the values
come from is prepared untimed.
"""

from connector.data import RequestData, SchedulerOutput
from connector.interfaces import (
    AsyncRequests,
    ExtendedKVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    ScheduledRequests,
)
from connector.page_range import KvCacheConnectorSchedulerOutputManager as Source


class KvCacheConnectorSchedulerOutputManager:
    """Builds the output that ``page-range`` would, without finding anything out.

    Args: as for the arms.
    """

    def __init__(
        self, *, enable_attention_dp: bool = False, attention_dp_rank: int | None = None
    ) -> None:
        self._source = Source(
            enable_attention_dp=enable_attention_dp, attention_dp_rank=attention_dp_rank
        )
        self._ready = SchedulerOutput()

    def prepare(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> None:
        """Find out the values of this iteration's output. Called before each timed call."""
        self._ready = self._source.build_scheduler_output(
            scheduled_batch, new_async_requests, kv_cache_manager
        )

    def build_scheduler_output(
        self,
        _scheduled_batch: ScheduledRequests,
        _new_async_requests: AsyncRequests,
        _kv_cache_manager: ExtendedKVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return a copy of the prepared output that shares nothing with it that can change."""
        ready = self._ready
        return SchedulerOutput(
            [_copy(data) for data in ready.new_requests],
            [_copy(data) for data in ready.cached_requests],
            ready.attention_dp_rank,
        )

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Hand it on to where the values come from."""
        self._source.record_new_matched_tokens(request, num_new_matched_tokens)

    def reset_request(self, request_id: int) -> None:
        """Hand it on to where the values come from."""
        self._source.reset_request(request_id)


def _copy(data: RequestData) -> RequestData:
    by_layer_group = [indices.copy() for indices in data.new_block_ids_by_layer_group]
    # As in the arms, a single group's list is also the flat one.
    flat = by_layer_group[0] if len(by_layer_group) == 1 else data.new_block_ids.copy()
    priorities = data.priorities
    return RequestData(
        data.request_id,
        data.new_tokens.copy(),
        flat,
        data.computed_position,
        data.num_scheduled_tokens,
        data.block_hashes.copy(),
        None if priorities is None else priorities.copy(),
        data.cache_salt,
        by_layer_group,
    )
