"""Stands for ``tensorrt_llm.bindings.internal.batch_manager``."""

from connector.interfaces import LlmRequest

from ....placeholders import missing_names

__all__ = ["KvCacheConnectorManager", "LlmRequest"]
__getattr__ = missing_names(__name__)


class KvCacheConnectorManager:
    """The native base class of the connector's manager; takes no arguments, as upstream's."""
