"""An arm whose calls take a fixed time, on a made-up clock that only arms of this kind move."""

import time

from connector import incremental
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests
from harness.system.background import CoreShare

# Seconds that a call takes, and how many more every so-manieth one.
STEP = 1
EVERY, MORE = 1, 0

# Shared by all copies, and read by whoever asks for the time from now on.
now: list[float] = vars(time).setdefault("_ticks", [0.0])
time.perf_counter = time.process_time = lambda: now[0]

# Who else has the core is nothing to this clock, and must not decide a verdict.
CoreShare.value = lambda _share: 1.0


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        self.calls = getattr(self, "calls", 0) + 1
        now[0] += STEP + MORE * (self.calls % EVERY == 0)
        return super().build_scheduler_output(batch, loading, manager)
