"""Count the free blocks of a manager from outside."""

from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2
from stubs.pages import OutOfPagesError
from stubs.providers import Provider


def count_free_blocks(provider: Provider, manager: KVCacheManager | KVCacheManagerV2) -> int:
    """Return how many blocks one more request could hold; with layer groups, in each of them."""
    probe = provider.LlmRequest(-1, [0])
    blocks = 0
    try:
        while True:
            manager.resize(probe, (blocks + 1) * manager.tokens_per_block)
            blocks += 1
    except OutOfPagesError:
        manager.free_resources(probe)
        return blocks
