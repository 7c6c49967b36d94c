"""Stand-in for the V2 KV cache manager: page indices scoped to layer groups.

The masking is upstream's ``KVCacheManagerV2.get_page_indices_by_layer_group``; the stale range is
that of its attention life cycle.
"""

import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from connector import interfaces

from .pages import PagePool
from .request import LlmRequest, own

BAD_PAGE_INDEX = -1

PageBackend = Literal["list", "generator"]


@dataclass(frozen=True)
class LayerGroup:
    """Layers that share a page table.

    Attributes:
        window: sliding-window size in tokens; None for full attention.
        sink_tokens: tokens at the start that stay readable however far the window moves.
    """

    window: int | None = None
    sink_tokens: int = 0

    def stale_range(self, history: int, tokens_per_block: int) -> tuple[int, int]:
        """Return the ordinals ``[begin, end)`` of blocks that no coming token attends to.

        Args:
            history: tokens whose KV is computed.
            tokens_per_block: block size in tokens.
        """
        num_blocks = -(-history // tokens_per_block)
        begin = min(num_blocks, -(-self.sink_tokens // tokens_per_block))
        if self.window is None:
            return begin, begin
        return begin, max(begin, (history + 1 - self.window) // tokens_per_block)


class KvCache:
    """The pages of one request, a page table per layer group.

    Attributes:
        history_length: tokens whose KV is computed.
    """

    def __init__(
        self,
        layer_groups: Sequence[LayerGroup],
        pools: Sequence[PagePool],
        tokens_per_block: int,
        page_backend: PageBackend,
    ) -> None:
        self.history_length = 0
        self._layer_groups = layer_groups
        self._pools = pools
        self._tokens_per_block = tokens_per_block
        self._generates = page_backend == "generator"
        self._tables = [array("i") for _ in layer_groups]

    @property
    def num_blocks(self) -> int:
        """Number of block ordinals, those without a page included."""
        return len(self._tables[0])

    def get_aggregated_page_indices(
        self, layer_group: int, valid_only: bool = False
    ) -> list[int] | Iterator[int]:
        """Return the pages of a layer group in block order, -1 where a block has none.

        Args:
            layer_group: index of the layer group.
            valid_only: leave out blocks without a page.

        Returns:
            What the backend offers: a list built in one native call, or a generator that runs one
            interpreter step per block.
        """
        table = self._tables[layer_group]
        if self._generates:
            return (page for page in table if not valid_only or page != BAD_PAGE_INDEX)
        if valid_only:
            return [page for page in table if page != BAD_PAGE_INDEX]
        return table.tolist()

    def get_page_indices_from(self, layer_group: int, begin: int) -> list[int]:
        """Return the pages of a layer group from block ``begin`` on, as a new list."""
        return self._tables[layer_group][begin:].tolist()

    def resize(self, capacity: int) -> None:
        """Hold blocks for ``capacity`` tokens: allocate at the end, or free there on a shrink.

        Growing also frees the pages that have gone stale, which upstream keeps no longer than
        somebody needs the room. Between two growths a stale block still has its page, so the mask
        of ``get_page_indices_by_layer_group`` is what hides it.
        """
        num_blocks = -(-capacity // self._tokens_per_block)
        for group, table, pool in zip(self._layer_groups, self._tables, self._pools, strict=True):
            begin, end = group.stale_range(self.history_length, self._tokens_per_block)
            if len(table) > num_blocks:
                pool.give_back(page for page in table[num_blocks:] if page != BAD_PAGE_INDEX)
                del table[num_blocks:]
            elif len(table) < num_blocks:
                self._free_stale(table, pool, begin, min(end, len(table)))
                for ordinal in range(len(table), num_blocks):
                    stale = begin <= ordinal < end
                    table.append(BAD_PAGE_INDEX if stale else pool.take())

    def close(self) -> None:
        """Free all pages."""
        for table, pool in zip(self._tables, self._pools, strict=True):
            pool.give_back(page for page in table if page != BAD_PAGE_INDEX)
            del table[:]

    @staticmethod
    def _free_stale(table: "array[int]", pool: PagePool, begin: int, end: int) -> None:
        # A window only moves forward, so what is stale and still has a page lies at the end.
        for ordinal in range(end - 1, begin - 1, -1):
            if table[ordinal] == BAD_PAGE_INDEX:
                break
            pool.give_back((table[ordinal],))
            table[ordinal] = BAD_PAGE_INDEX


class KVCacheManagerV2(interfaces.KVCacheManagerV2):
    """Page tables of all requests.

    Args:
        num_blocks: blocks that each layer group has room for.
        tokens_per_block: block size in tokens.
        layer_groups: the layer groups, at least one.
        page_backend: whether page indices come as a list (native backend) or from a generator
            (Python backend).
        rng: shuffles the page pools.
    """

    def __init__(
        self,
        num_blocks: int,
        *,
        tokens_per_block: int = 32,
        layer_groups: Sequence[LayerGroup] = (LayerGroup(),),
        page_backend: PageBackend = "list",
        rng: random.Random,
    ) -> None:
        if not layer_groups:
            raise ValueError("a manager needs at least one layer group")
        self.tokens_per_block = tokens_per_block
        self.layer_groups = tuple(layer_groups)
        self.kv_cache_map: dict[int, KvCache] = {}
        self._page_backend: PageBackend = page_backend
        self._pools = [PagePool(num_blocks, rng) for _ in layer_groups]

    def get_page_indices_by_layer_group(self, request: interfaces.LlmRequest) -> list[list[int]]:
        """Return the page indices of ``request``, one new list per layer group.

        Blocks that the window has passed become -1 in place: a list never shortens through
        masking, so a position in it stays a block ordinal. Without a cache the lists are empty.
        """
        kv_cache = self.kv_cache_map.get(request.request_id)
        if kv_cache is None:
            return [[] for _ in self.layer_groups]
        history = kv_cache.history_length
        page_indices = []
        for index, group in enumerate(self.layer_groups):
            indices = list(kv_cache.get_aggregated_page_indices(index, valid_only=False))
            begin, end = group.stale_range(history, self.tokens_per_block)
            for ordinal in range(begin, min(end, len(indices))):
                indices[ordinal] = BAD_PAGE_INDEX
            page_indices.append(indices)
        return page_indices

    @property
    def num_layer_groups(self) -> int:
        """Number of layer groups."""
        return len(self.layer_groups)

    def get_num_blocks(self, request: interfaces.LlmRequest) -> int:
        """Return the length of each page list of ``request``; 0 where it holds no cache."""
        kv_cache = self.kv_cache_map.get(request.request_id)
        return 0 if kv_cache is None else kv_cache.num_blocks

    def get_page_indices_range(self, request: interfaces.LlmRequest, begin: int) -> list[list[int]]:
        """Return the page lists of ``request`` from block ``begin`` on, masked, as new lists."""
        kv_cache = self.kv_cache_map.get(request.request_id)
        if kv_cache is None or begin >= kv_cache.num_blocks:
            return [[] for _ in self.layer_groups]
        page_indices = []
        for index, group in enumerate(self.layer_groups):
            indices = kv_cache.get_page_indices_from(index, begin)
            if group.window is not None:
                first, last = group.stale_range(kv_cache.history_length, self.tokens_per_block)
                for ordinal in range(max(0, first - begin), min(last - begin, len(indices))):
                    indices[ordinal] = BAD_PAGE_INDEX
            page_indices.append(indices)
        return page_indices

    def get_batch_updates(
        self,
        requests: Sequence[interfaces.LlmRequest],
        num_tokens: Sequence[int],
        num_blocks: Sequence[int],
    ) -> tuple[list[int], list[list[int]], list[list[list[int]]]]:
        """Return the lengths, the new tokens and the new pages of all requests."""
        lengths = []
        tokens = []
        pages = []
        for request, known_tokens, known_blocks in zip(
            own(requests), num_tokens, num_blocks, strict=True
        ):
            length, new_tokens = request.tokens_after(known_tokens)
            lengths.append(length)
            tokens.append(new_tokens)
            pages.append(self.get_page_indices_range(request, known_blocks))
        return lengths, tokens, pages

    def resize(self, request: LlmRequest, capacity: int) -> None:
        """Hold blocks for ``capacity`` tokens of ``request``; the first call admits the request."""
        kv_cache = self.kv_cache_map.get(request.request_id)
        if kv_cache is None:
            kv_cache = self.kv_cache_map[request.request_id] = KvCache(
                self.layer_groups, self._pools, self.tokens_per_block, self._page_backend
            )
        kv_cache.resize(capacity)

    def update_history(self, request: LlmRequest, history: int) -> None:
        """Note that the KV of the first ``history`` tokens of ``request`` is computed."""
        self.kv_cache_map[request.request_id].history_length = history

    def free_resources(self, request: LlmRequest) -> None:
        """Free all that ``request`` holds; a request that holds nothing is left alone."""
        kv_cache = self.kv_cache_map.pop(request.request_id, None)
        if kv_cache is not None:
            kv_cache.close()
