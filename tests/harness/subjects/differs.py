"""An arm that reports one scheduled token too many."""

from connector import incremental
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        output = super().build_scheduler_output(batch, loading, manager)
        for data in output.cached_requests:
            data.num_scheduled_tokens += 1
        return output
