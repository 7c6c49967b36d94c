"""Stands for ``tensorrt_llm._torch.pyexecutor.kv_cache.kv_cache_manager_v2``.

The measured path imports this at every call, to tell the V2 manager from V1 by its type: the base
class of all stand-ins of the V2 manager.
"""

from connector.interfaces import KVCacheManagerV2

from .....placeholders import missing_names

__all__ = ["KVCacheManagerV2"]
__getattr__ = missing_names(__name__)
