"""An arm that can be made and breaks when it is used."""

from connector import incremental


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(self, *_: object) -> object:
        raise RuntimeError("the subject broke")
