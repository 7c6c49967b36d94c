"""An arm with the outputs of ``incremental`` that does much more work for them."""

from connector import incremental
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        sum(range(50_000))
        return super().build_scheduler_output(batch, loading, manager)
