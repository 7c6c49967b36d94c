"""An arm that prints whenever it can, by Python and past it."""

import os
import sys

from connector import incremental
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests

print("[engine] version: 1.2.3")


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        print("a word on stdout")
        print("a word on stderr", file=sys.stderr, flush=True)
        os.write(1, b"a native word\n")
        return super().build_scheduler_output(batch, loading, manager)
