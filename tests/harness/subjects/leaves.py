"""An arm that ends the process it is used in, with the code that says all is well."""

import sys

from connector import incremental


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(self, *_: object) -> object:
        sys.exit(0)
