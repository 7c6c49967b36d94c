"""An arm that never comes back."""

import os
import time

from connector import incremental


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(self, *_: object) -> object:
        # Not for good: a harness that does not kill it should fail its test, not hang it.
        time.sleep(60)
        os._exit(4)
