"""An arm that does what ``incremental`` does, by the very same code."""

from connector.incremental import KvCacheConnectorSchedulerOutputManager

__all__ = ["KvCacheConnectorSchedulerOutputManager"]
