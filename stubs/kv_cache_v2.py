"""Stand-in for the V2 KV cache manager: page indices scoped to layer groups.

The masking is upstream's ``KVCacheManagerV2.get_page_indices_by_layer_group``; the stale range is
that of its attention life cycle.
"""

import random
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from connector import interfaces
from connector.data import RequestData

from .pages import PagePool, check_tokens_per_block, count_blocks
from .request import LlmRequest, own
from .request_data import NewBlocks, Reported, ReportedRequests, build_request_data

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


def engine_stale_range(group: LayerGroup, history: int, tokens_per_block: int) -> tuple[int, int]:
    """Return the stale range as the engine's Python works it out.

    The same as ``LayerGroup.stale_range``, which plays native code: apart, so that a count can
    tell whose work it is.
    """
    num_blocks = -(-history // tokens_per_block)
    begin = min(num_blocks, -(-group.sink_tokens // tokens_per_block))
    if group.window is None:
        return begin, begin
    return begin, max(begin, (history + 1 - group.window) // tokens_per_block)


class PageTable(Protocol):
    """The pages of a sequence in block order, an ``array`` or its native counterpart."""

    def __len__(self) -> int: ...

    def __getitem__(self, ordinal: int, /) -> int: ...

    def __setitem__(self, ordinal: int, page: int, /) -> None: ...

    def append(self, page: int, /) -> None:
        """Add a page at the end."""

    def pop(self) -> int:
        """Remove the last page and return it."""


class KvCache:
    """The pages of one request, a page table per layer group.

    Args:
        num_layer_groups: number of layer groups.
        page_backend: what page indices come as.

    Attributes:
        history_length: tokens whose KV is computed.
        tables: the page tables, for whoever allocates.
    """

    def __init__(self, num_layer_groups: int, page_backend: PageBackend) -> None:
        self.history_length = 0
        self.tables = [array("i") for _ in range(num_layer_groups)]
        self._generates = page_backend == "generator"

    @property
    def num_blocks(self) -> int:
        """Number of block ordinals, those without a page included."""
        return len(self.tables[0])

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
        table = self.tables[layer_group]
        if self._generates:
            return (page for page in table if not valid_only or page != BAD_PAGE_INDEX)
        if valid_only:
            return [page for page in table if page != BAD_PAGE_INDEX]
        return table.tolist()

    def get_page_indices_from(self, layer_group: int, begin: int) -> list[int]:
        """Return the pages of a layer group from block ``begin`` on, as a new list."""
        return self.tables[layer_group][begin:].tolist()


class KVCacheManagerV2(interfaces.KVCacheManagerV2):
    """Page tables of all requests.

    Args:
        num_blocks: blocks that each layer group has room for.
        tokens_per_block: block size in tokens.
        layer_groups: the layer groups, at least one.
        page_backend: whether page indices come as a list (native backend) or from a generator
            (Python backend).
        rng: shuffles the page pools.

    Raises:
        ValueError: there is no layer group, or ``tokens_per_block`` is not positive.
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
        check_tokens_per_block(tokens_per_block)
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
            begin, end = engine_stale_range(group, history, self.tokens_per_block)
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
        if begin < 0:
            begin = 0
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

    def create_reported_requests(
        self, new_data: Callable[..., RequestData], skip_dummy_requests: bool
    ) -> interfaces.ReportedRequests:
        """Return what ``build_request_data`` is given at each step, with nothing reported yet."""
        return ReportedRequests(new_data, skip_dummy_requests)

    def build_request_data(
        self,
        reported: interfaces.ReportedRequests,
        context_requests_chunking: Sequence[interfaces.LlmRequest],
        context_requests_last_chunk: Sequence[interfaces.LlmRequest],
        generation_requests: Sequence[interfaces.LlmRequest],
        loading: Mapping[int, interfaces.LlmRequest],
        external_loads: dict[int, int],
    ) -> tuple[list[RequestData], list[RequestData], bool]:
        """Return the data of new requests, of all others, and whether a config was ignored."""
        ignored = False

        def new_blocks(request: LlmRequest, seen: Reported) -> NewBlocks:
            nonlocal ignored
            ignored = ignored or request.kv_cache_retention_config is not None
            pages = self.get_page_indices_range(request, seen.num_blocks)
            return NewBlocks(len(pages[0]), pages[0] if len(pages) == 1 else [], pages)

        context = [*context_requests_chunking, *context_requests_last_chunk]
        new, others = build_request_data(
            reported, context, generation_requests, loading, external_loads, new_blocks
        )
        return new, others, ignored

    def resize(self, request: LlmRequest, capacity: int) -> None:
        """Hold blocks for ``capacity`` tokens of ``request``; the first call admits the request.

        Growing frees the pages that have gone stale. Until then a stale block has its page, so the
        mask of ``get_page_indices_by_layer_group`` is what hides it.

        Raises:
            ValueError: ``capacity`` is negative.
            OutOfPagesError: a pool ran out; what was taken before stays with the request.
        """
        num_blocks = count_blocks(capacity, self.tokens_per_block)
        kv_cache = self.kv_cache_map.get(request.request_id) or self._admit(request.request_id)
        for group, table, pool in zip(self.layer_groups, kv_cache.tables, self._pools, strict=True):
            stale = range(*group.stale_range(kv_cache.history_length, self.tokens_per_block))
            _resize_table(table, pool, num_blocks, stale)

    def update_history(self, request: LlmRequest, history: int) -> None:
        """Note that the KV of the first ``history`` tokens of ``request`` is computed.

        Raises:
            KeyError: ``request`` was never admitted.
            ValueError: ``history`` is negative.
        """
        if history < 0:
            raise ValueError(f"history must not be negative, not {history}")
        self.kv_cache_map[request.request_id].history_length = history

    def free_resources(self, request: LlmRequest) -> None:
        """Free all that ``request`` holds; a request that holds nothing is left alone."""
        kv_cache = self._release(request.request_id)
        if kv_cache is not None:
            for table, pool in zip(kv_cache.tables, self._pools, strict=True):
                _cut(table, pool, 0)

    # Where pages are kept. The provider ``nanobind`` keeps them in native code.

    def _admit(self, request_id: int) -> KvCache:
        kv_cache = KvCache(len(self.layer_groups), self._page_backend)
        self.kv_cache_map[request_id] = kv_cache
        return kv_cache

    def _release(self, request_id: int) -> KvCache | None:
        return self.kv_cache_map.pop(request_id, None)


def _resize_table(table: PageTable, pool: PagePool, num_blocks: int, stale: range) -> None:
    """Allocate pages at the end of a table, or free them there.

    Growing also frees the pages that have gone stale, which upstream keeps no longer than somebody
    needs the room. Between two growths a stale block still has its page.

    Args:
        table: the page table.
        pool: where its pages come from.
        num_blocks: how many blocks it shall have.
        stale: ordinals of the blocks that no coming token attends to.

    Raises:
        OutOfPagesError: the pool ran out; what was taken before stays in the table.
    """
    if len(table) > num_blocks:
        _cut(table, pool, num_blocks)
    elif len(table) < num_blocks:
        _free_stale(table, pool, stale)
        for ordinal in range(len(table), num_blocks):
            table.append(BAD_PAGE_INDEX if ordinal in stale else pool.take())


def _cut(table: PageTable, pool: PagePool, num_blocks: int) -> None:
    """Free the pages from ordinal ``num_blocks`` on."""
    freed = [table[ordinal] for ordinal in range(num_blocks, len(table))]
    for _ in freed:
        table.pop()
    pool.give_back(page for page in freed if page != BAD_PAGE_INDEX)


def _free_stale(table: PageTable, pool: PagePool, stale: range) -> None:
    # A window only moves forward, so what is stale and still has a page lies at the end.
    for ordinal in reversed(range(stale.start, min(stale.stop, len(table)))):
        if table[ordinal] == BAD_PAGE_INDEX:
            break
        pool.give_back((table[ordinal],))
        table[ordinal] = BAD_PAGE_INDEX
