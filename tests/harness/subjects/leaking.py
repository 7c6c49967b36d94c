"""An arm with the outputs of ``incremental`` that lets go of none of them."""

from typing import Any

from connector import incremental
from connector.data import SchedulerOutput
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.outputs: list[SchedulerOutput] = []

    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        output = super().build_scheduler_output(batch, loading, manager)
        self.outputs.append(output)
        return output


# Beyond its instances: what the module keeps, whoever comes and goes.
kept: list[SchedulerOutput] = []


class Globally(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        output = super().build_scheduler_output(batch, loading, manager)
        kept.append(output)
        return output
