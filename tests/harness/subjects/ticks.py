"""An arm whose calls take a fixed time, on a made-up clock that only arms of this kind move."""

import time

from connector import incremental
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests

# Seconds that a call takes.
STEP = 1

# Shared by all copies, and read by whoever asks for the time from now on.
now: list[float] = vars(time).setdefault("_ticks", [0.0])
time.perf_counter = time.process_time = lambda: now[0]


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        now[0] += STEP
        return super().build_scheduler_output(batch, loading, manager)
