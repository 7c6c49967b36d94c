"""The provider ``nanobind``: the stand-ins over native storage, behind a real nanobind binding.

Native are the request, the tables of pages, hashes and priorities, and every call that reads them
(``stubs/native``). Python are, as upstream, some attributes of the request, the masking of stale
pages and the second copy of the block hashes; and, in calls that nobody times, the allocation of
pages, which is that of the provider ``python``, so that equal seeds give equal pages.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import stepbench_native as native

from connector.interfaces import LlmRequestState

from . import kv_cache_v1, kv_cache_v2
from .kv_cache_v2 import BAD_PAGE_INDEX, LayerGroup, PageBackend
from .request import KvCacheRetentionConfig

_REPORTS = ("create_reported_requests", "build_request_data")
_V1_READS = (
    *("get_cache_indices", "get_priority_by_block_id", "get_num_blocks"),
    *("get_cache_indices_range", "get_block_hashes_after", "get_batch_updates"),
    *_REPORTS,
)
_V1_STORAGE = ("admit", "add_block", "truncate", "release", "commit_and_get_block_hashes")
_V2_READS = ("get_num_blocks", "get_page_indices_range", "get_batch_updates", *_REPORTS)

# A build of another version lacks some: better said now than where a manager is made.
for _manager, _names in (
    (native.KvCacheManagerV1, (*_V1_READS, *_V1_STORAGE)),
    (native.KvCacheManagerV2, _V2_READS),
):
    for _name in _names:
        getattr(_manager, _name)

# Arms tell states apart by identity: the native side hands out these very members.
native.set_request_states([LlmRequestState[name] for name in native.REQUEST_STATES])


class LlmRequest(native.LlmRequest):
    """One request with its tokens, as in ``stubs/request.py``.

    The arguments are the same. An argument that no native type can hold is a TypeError, the number
    of a token included.
    """

    def __init__(
        self,
        request_id: int,
        prompt: Iterable[int],
        *,
        beam_width: int = 1,
        draft_tokens: Sequence[int] | None = None,
        retention_config: KvCacheRetentionConfig | None = None,
        cache_salt: str | None = None,
        is_dummy_request: bool = False,
    ) -> None:
        config = None if retention_config is None else _native_config(retention_config)
        super().__init__(request_id, list(prompt), beam_width, config)
        self.is_dummy_request = is_dummy_request
        # Upstream keeps these in Python as well.
        self.cache_salt = cache_salt
        self.py_draft_tokens = draft_tokens


class KVCacheManager(kv_cache_v1.KVCacheManager):
    """The V1 manager; the arguments are those of ``stubs/kv_cache_v1.py``."""

    def __init__(self, num_blocks: int, *, tokens_per_block: int = 32, rng: random.Random) -> None:
        super().__init__(num_blocks, tokens_per_block=tokens_per_block, rng=rng)
        manager = native.KvCacheManagerV1(tokens_per_block)
        _bind(self, manager, _V1_READS)
        _bind(self, manager, _V1_STORAGE, prefix="_")


class KVCacheManagerV2(kv_cache_v2.KVCacheManagerV2):
    """The V2 manager; the arguments are those of ``stubs/kv_cache_v2.py``."""

    def __init__(
        self,
        num_blocks: int,
        *,
        tokens_per_block: int = 32,
        layer_groups: Sequence[LayerGroup] = (LayerGroup(),),
        page_backend: PageBackend = "list",
        rng: random.Random,
    ) -> None:
        super().__init__(
            num_blocks,
            tokens_per_block=tokens_per_block,
            layer_groups=layer_groups,
            page_backend=page_backend,
            rng=rng,
        )
        groups = [native.LayerGroup(group.window, group.sink_tokens) for group in layer_groups]
        self._native = native.KvCacheManagerV2(tokens_per_block, groups)
        _bind(self, self._native, _V2_READS)

    def _admit(self, request_id: int) -> kv_cache_v2.KvCache:
        new = KvCache if self._page_backend == "generator" else native.KvCache
        kv_cache = new(len(self.layer_groups))
        self._native.add(request_id, kv_cache)
        # It has all of the stand-in's that is used of it.
        self.kv_cache_map[request_id] = cast("kv_cache_v2.KvCache", kv_cache)
        return self.kv_cache_map[request_id]

    def _release(self, request_id: int) -> kv_cache_v2.KvCache | None:
        self._native.remove(request_id)
        return super()._release(request_id)


class KvCache(native.KvCache):
    """The pages of one request with page indices from a generator, as in the Python backend."""

    def get_aggregated_page_indices(  # type: ignore[override]
        self, layer_group: int, valid_only: bool = False
    ) -> Iterator[int]:
        """Return the pages of a layer group in block order, one interpreter step per block."""
        table = super().get_aggregated_page_indices(layer_group)
        return (page for page in table if not valid_only or page != BAD_PAGE_INDEX)


def _native_config(config: KvCacheRetentionConfig) -> native.KvCacheRetentionConfig:
    ranges = [native.TokenRangeRetention(r.begin, r.end, r.priority) for r in config.ranges]
    return native.KvCacheRetentionConfig(ranges, config.decode_priority)


def _bind(manager: object, storage: object, names: Iterable[str], prefix: str = "") -> None:
    """Let methods of ``manager`` be those of ``storage``, without a Python frame in between."""
    for name in names:
        setattr(manager, prefix + name, getattr(storage, name))
