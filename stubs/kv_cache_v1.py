"""Stand-in for the V1 KV cache manager: one flat space of block ids."""

import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

from connector import interfaces
from connector.data import RequestData

from .block_hash import hash_block
from .pages import PagePool, check_tokens_per_block, count_blocks
from .request import DEFAULT_PRIORITY, LlmRequest, own
from .request_data import NewBlocks, Reported, ReportedRequests, build_request_data


class _Sequence:
    """The blocks of one request and the hashes committed for them."""

    def __init__(self) -> None:
        self.blocks = array("i")
        self.hashes = array("Q")


class KVCacheManager:
    """Blocks of all requests, beam width 1.

    Args:
        num_blocks: blocks that there is room for.
        tokens_per_block: block size in tokens.
        rng: shuffles the block pool.

    Raises:
        ValueError: ``tokens_per_block`` is not positive.
    """

    def __init__(self, num_blocks: int, *, tokens_per_block: int = 32, rng: random.Random) -> None:
        check_tokens_per_block(tokens_per_block)
        self.tokens_per_block = tokens_per_block
        self._pool = PagePool(num_blocks, rng)
        self._sequences: dict[int, _Sequence] = {}
        self._priorities: dict[int, int] = {}

    def get_cache_indices(self, request: interfaces.LlmRequest) -> list[int]:
        """Return all block ids of ``request`` in order, as a new list. Raises KeyError without."""
        return self._sequences[request.request_id].blocks.tolist()

    def commit_and_get_block_hashes(self, request: interfaces.LlmRequest) -> list[int]:
        """Return the hashes of all full blocks of ``request``, in order, as a new list.

        The first call after a block became full commits its hash, which covers the block's tokens
        and the hash before it; later calls look it up. The list is built twice, as upstream does:
        once at the binding and once in the Python method around it. Raises KeyError for a request
        without blocks.
        """
        return list(self._commit_and_get_block_hashes(request))

    def get_priority_by_block_id(self, block_id: int) -> int:
        """Return the retention priority of a block, 0 to 100; 35 where none was set."""
        return self._priorities.get(block_id, DEFAULT_PRIORITY)

    def get_num_blocks(self, request: interfaces.LlmRequest) -> int:
        """Return the number of blocks of ``request``. Raises KeyError without."""
        return len(self._sequences[request.request_id].blocks)

    def get_cache_indices_range(self, request: interfaces.LlmRequest, begin: int) -> list[int]:
        """Return the block ids of ``request`` from block ``begin`` on, as a new list."""
        if begin < 0:
            begin = 0
        return self._sequences[request.request_id].blocks[begin:].tolist()

    def get_block_hashes_after(
        self, request: interfaces.LlmRequest, count: int, last: int
    ) -> tuple[int, list[int]]:
        """Return how many of ``count`` known hashes still hold, all or none, and those after."""
        hashes, num_full = self._commit(request)
        if not 0 < count <= num_full or hashes[count - 1] != last:
            count = 0
        return count, hashes[count:num_full].tolist()

    def get_batch_updates(
        self,
        requests: Sequence[interfaces.LlmRequest],
        num_tokens: Sequence[int],
        num_blocks: Sequence[int],
        num_hashes: Sequence[int],
        last_hashes: Sequence[int],
    ) -> tuple[list[int], list[list[int]], list[list[int]], list[int], list[list[int]]]:
        """Return lengths, new tokens and blocks, valid and new hashes of all requests."""
        lengths = []
        tokens = []
        blocks = []
        valid = []
        hashes = []
        for request, known_tokens, known_blocks, known_hashes, last_hash in zip(
            own(requests), num_tokens, num_blocks, num_hashes, last_hashes, strict=True
        ):
            length, new_tokens = request.tokens_after(known_tokens)
            lengths.append(length)
            tokens.append(new_tokens)
            begin = known_blocks if known_blocks > 0 else 0
            blocks.append(self._sequences[request.request_id].blocks[begin:].tolist())
            still_valid, new_hashes = self.get_block_hashes_after(request, known_hashes, last_hash)
            valid.append(still_valid)
            hashes.append(new_hashes)
        return lengths, tokens, blocks, valid, hashes

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
        context = [*context_requests_chunking, *context_requests_last_chunk]
        new, others = build_request_data(
            reported, context, generation_requests, loading, external_loads, self._new_blocks
        )
        return new, others, False

    def resize(self, request: LlmRequest, capacity: int) -> None:
        """Hold blocks for ``capacity`` tokens of ``request``; the first call admits the request.

        Raises:
            ValueError: ``capacity`` is negative.
            OutOfPagesError: the pool ran out; what was taken before stays with the request.
        """
        num_blocks = count_blocks(capacity, self.tokens_per_block)
        held = self._admit(request.request_id)
        if held > num_blocks:
            self._pool.give_back(self._truncate(request.request_id, num_blocks))
        for _ in range(held, num_blocks):
            self._add_block(request, self._pool.take())

    def update_history(self, request: LlmRequest, history: int) -> None:
        """Do nothing: V1 masks no blocks. Both managers are driven by the same calls."""

    def free_resources(self, request: LlmRequest) -> None:
        """Free all that ``request`` holds; a request that holds nothing is left alone."""
        self._pool.give_back(self._release(request.request_id))

    def _new_blocks(self, request: LlmRequest, seen: Reported) -> NewBlocks:
        ids = self.get_cache_indices_range(request, seen.num_blocks)
        known = seen.block_hashes
        valid, new_hashes = self.get_block_hashes_after(
            request, len(known), known[-1] if known else 0
        )
        unchanged = valid == len(known) and not new_hashes
        priorities = None
        if request.kv_cache_retention_config is not None:
            priorities = [self.get_priority_by_block_id(block) for block in ids]
        return NewBlocks(
            len(ids),
            ids,
            block_hashes=known if unchanged else [*known[:valid], *new_hashes],
            priorities=priorities,
        )

    # Where blocks are kept. The provider ``nanobind`` keeps them in native code.

    def _admit(self, request_id: int) -> int:
        """Admit a request, if it is new; return how many blocks it holds."""
        return len(self._sequences.setdefault(request_id, _Sequence()).blocks)

    def _add_block(self, request: LlmRequest, block: int) -> None:
        """Append a block, with the priority that the request's retention config gives it."""
        blocks = self._sequences[request.request_id].blocks
        config = request.kv_cache_retention_config
        if config is not None:
            position = len(blocks) * self.tokens_per_block
            self._priorities[block] = config.priority_at(position, request.prompt_len)
        blocks.append(block)

    def _truncate(self, request_id: int, num_blocks: int) -> Iterable[int]:
        """Drop all but the first ``num_blocks`` blocks; return those dropped."""
        sequence = self._sequences[request_id]
        freed = sequence.blocks[num_blocks:]
        del sequence.blocks[num_blocks:]
        del sequence.hashes[num_blocks:]
        for block in freed:
            self._priorities.pop(block, None)
        return freed

    def _release(self, request_id: int) -> Iterable[int]:
        """Forget a request; return its blocks, none where it is unknown."""
        if request_id not in self._sequences:
            return ()
        freed = self._truncate(request_id, 0)
        del self._sequences[request_id]
        return freed

    def _commit_and_get_block_hashes(self, request: interfaces.LlmRequest) -> list[int]:
        hashes, num_full = self._commit(request)
        if num_full == len(hashes):
            return hashes.tolist()
        return hashes[:num_full].tolist()

    def _commit(self, request: interfaces.LlmRequest) -> tuple["array[int]", int]:
        """Commit the hashes of blocks that became full; return all and the number of full ones."""
        sequence = self._sequences[request.request_id]
        hashes = sequence.hashes
        size = self.tokens_per_block
        num_full = request.get_num_tokens(0) // size
        if num_full > len(sequence.blocks):
            num_full = len(sequence.blocks)
        while len(hashes) < num_full:
            begin = len(hashes) * size
            tokens = request.get_tokens_range(0, begin, begin + size)
            parent = hashes[-1] if hashes else 0
            hashes.append(hash_block(parent, tokens))
        return hashes, num_full
