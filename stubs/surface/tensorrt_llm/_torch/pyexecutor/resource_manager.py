"""Stands for ``tensorrt_llm._torch.pyexecutor.resource_manager``."""

from connector.interfaces import KVCacheManager

from ....placeholders import missing_names

__all__ = ["KVCacheManager"]
__getattr__ = missing_names(__name__)
