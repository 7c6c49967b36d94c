"""What the code under test needs from the native side.

The arms are written against these names alone, so that the same file would run in the engine.
``LlmRequest``, the batch and the V1 manager are structural; the V2 manager is a nominal base
class, because upstream tells V1 from V2 by ``isinstance``.
"""

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from .data import RequestData


class LlmRequestState(enum.Enum):
    """The request states that the measured path tells apart.

    The names are upstream's. nanobind 2 also exposes C++ enums as Python ``enum.Enum`` classes,
    so looking a member up and comparing it costs here what it costs there.
    """

    CONTEXT_INIT = enum.auto()
    GENERATION_IN_PROGRESS = enum.auto()
    GENERATION_COMPLETE = enum.auto()
    DISAGG_CONTEXT_TRANS_IN_PROGRESS = enum.auto()
    DISAGG_GENERATION_TRANS_IN_PROGRESS = enum.auto()


class LlmRequest(Protocol):
    """One request, as the native side exposes it. Units are tokens throughout."""

    request_id: int
    state: LlmRequestState
    is_dummy_request: bool
    cache_salt: str | None
    py_draft_tokens: Sequence[int] | None
    context_current_position: int

    @property
    def context_remaining_length(self) -> int:
        """Prompt tokens that are not computed yet."""

    @property
    def context_chunk_size(self) -> int:
        """Prompt tokens of the current chunk; readable in a context-type state only."""

    @property
    def kv_cache_retention_config(self) -> object | None:
        """The retention config, by value: a copy at each access; None where unset."""

    def get_num_tokens(self, beam: int) -> int:
        """Length of a beam."""

    def get_tokens(self, beam: int) -> list[int]:
        """A whole beam, as a new list."""

    def get_tokens_range(self, beam: int, begin: int, end: int) -> list[int]:
        """The clamped window ``[begin, end)`` of a beam, as a new list."""


class ScheduledRequests(Protocol):
    """The batch of one iteration."""

    @property
    def generation_requests(self) -> Sequence[LlmRequest]:
        """Requests in their generation phase."""

    @property
    def context_requests_chunking(self) -> Sequence[LlmRequest]:
        """Requests in their context phase with more chunks to come."""

    @property
    def context_requests_last_chunk(self) -> Sequence[LlmRequest]:
        """Requests in the last chunk of their context phase."""

    @property
    def context_requests(self) -> Sequence[LlmRequest]:
        """Chunking requests, then those in their last chunk: a new list at every access."""


class AsyncRequests(Protocol):
    """Requests whose KV cache is loaded asynchronously."""

    @property
    def loading(self) -> Mapping[int, LlmRequest]:
        """The requests being loaded, by id."""

    @property
    def loading_ids(self) -> Set[int]:
        """Ids of the requests being loaded: a new set at every access."""


class ReportedRequests(Protocol):
    """What of each request was reported so far, kept on the native side. Not upstream's yet."""

    def forget(self, request_id: int) -> None:
        """Forget a request, which is reported as new the next time; an unknown one is left out."""


class KVCacheManager(Protocol):
    """The V1 manager: one flat space of block ids."""

    def get_cache_indices(self, request: LlmRequest) -> list[int]:
        """All block ids of a request, in order, as a new list."""

    def commit_and_get_block_hashes(self, request: LlmRequest) -> list[int]:
        """Cumulative hashes of all full blocks of a request, in order, as a new list."""

    def get_priority_by_block_id(self, block_id: int) -> int:
        """Retention priority of a block, 0 to 100."""


class KVCacheManagerV2:
    """The V2 manager: page indices scoped to layer groups. Subclass it to be told from V1."""

    def get_page_indices_by_layer_group(self, request: LlmRequest) -> list[list[int]]:
        """Page indices of a request, one new list per layer group; -1 where there is no page."""
        raise NotImplementedError

    # Not upstream's yet: what the arms beyond ``incremental`` would have the native side offer.

    @property
    def num_layer_groups(self) -> int:
        """Number of layer groups."""
        raise NotImplementedError

    def get_num_blocks(self, request: LlmRequest) -> int:
        """Length of each of a request's page lists; 0 where it holds no cache."""
        raise NotImplementedError

    def get_page_indices_range(self, request: LlmRequest, begin: int) -> list[list[int]]:
        """The page lists of a request from block ``begin`` on; empty where there is nothing.

        Here and in what follows a negative position or count is 0, as in ``get_tokens_range``.
        """
        raise NotImplementedError

    def get_batch_updates(
        self,
        requests: Sequence[LlmRequest],
        num_tokens: Sequence[int],
        num_blocks: Sequence[int],
    ) -> tuple[list[int], list[list[int]], list[list[list[int]]]]:
        """What is new about all requests of a batch, in one call.

        Args:
            requests: the requests.
            num_tokens: how many tokens of each are known already.
            num_blocks: how many blocks of each are.

        Returns:
            Three lists with an entry for each request: its length, its tokens past those known,
            and per layer group its page indices past those known.
        """
        raise NotImplementedError

    def create_reported_requests(
        self, new_data: Callable[..., RequestData], skip_dummy_requests: bool
    ) -> ReportedRequests:
        """What ``build_request_data`` is given at each step, with nothing reported yet.

        Args:
            new_data: makes what is told of a request: called with the fields of ``RequestData`` by
                position, in their order.
            skip_dummy_requests: whether dummy requests are left out.
        """
        raise NotImplementedError

    def build_request_data(
        self,
        reported: ReportedRequests,
        context_requests_chunking: Sequence[LlmRequest],
        context_requests_last_chunk: Sequence[LlmRequest],
        generation_requests: Sequence[LlmRequest],
        loading: Mapping[int, LlmRequest],
        external_loads: dict[int, int],
    ) -> tuple[list[RequestData], list[RequestData], bool]:
        """Build what is told of a batch, in one call, and remember it as reported.

        All lists are new, and no two requests share one. Where an error is raised, nothing counts
        as reported. A request stands in a batch once.

        Args:
            reported: what ``create_reported_requests`` returned; this call alone changes it.
            context_requests_chunking: requests in their context phase with more chunks to come.
            context_requests_last_chunk: those in the last chunk of it.
            generation_requests: requests in their generation phase.
            loading: requests being loaded, by id: a context request among them is left out.
            external_loads: by id of a context request how many tokens its computed position is to
                be lowered by, 32 bits at the most.

        Returns:
            The data of requests that are reported for the first time in their context phase, the
            data of all others, and whether a retention config was ignored, as V2 does.
        """
        raise NotImplementedError


class ExtendedKVCacheManager(KVCacheManager, Protocol):
    """The V1 manager with what the arms beyond ``incremental`` would have it offer."""

    def get_num_blocks(self, request: LlmRequest) -> int:
        """Number of blocks of a request."""

    def get_cache_indices_range(self, request: LlmRequest, begin: int) -> list[int]:
        """Block ids of a request from block ``begin`` on, as a new list."""

    def get_block_hashes_after(
        self, request: LlmRequest, count: int, last: int
    ) -> tuple[int, list[int]]:
        """The hash chain of a request past a prefix that is known already.

        Hashes are cumulative, so the last one of a prefix stands for all of it. Commits hashes as
        ``commit_and_get_block_hashes`` does.

        Args:
            request: the request.
            count: number of hashes known.
            last: the last of them; anything where there is none.

        Returns:
            How many of the known hashes still hold, either ``count`` or 0, and those after them.
        """

    def get_batch_updates(
        self,
        requests: Sequence[LlmRequest],
        num_tokens: Sequence[int],
        num_blocks: Sequence[int],
        num_hashes: Sequence[int],
        last_hashes: Sequence[int],
    ) -> tuple[list[int], list[list[int]], list[list[int]], list[int], list[list[int]]]:
        """What is new about all requests of a batch, in one call.

        Args:
            requests: the requests.
            num_tokens: how many tokens of each are known already.
            num_blocks: how many blocks of each are.
            num_hashes: how many hashes of each are.
            last_hashes: the last of those hashes; anything where there is none.

        Returns:
            Five lists with an entry for each request: its length, its tokens and its block ids
            past those known, and the two values of ``get_block_hashes_after``.
        """

    def create_reported_requests(
        self, new_data: Callable[..., RequestData], skip_dummy_requests: bool
    ) -> ReportedRequests:
        """As of ``KVCacheManagerV2``."""

    def build_request_data(
        self,
        reported: ReportedRequests,
        context_requests_chunking: Sequence[LlmRequest],
        context_requests_last_chunk: Sequence[LlmRequest],
        generation_requests: Sequence[LlmRequest],
        loading: Mapping[int, LlmRequest],
        external_loads: dict[int, int],
    ) -> tuple[list[RequestData], list[RequestData], bool]:
        """As of ``KVCacheManagerV2``, with block hashes, and with priorities where asked for."""


def get_draft_token_length(request: LlmRequest) -> int:
    """Number of draft tokens scheduled with ``request``; 0 where it has none."""
    draft_tokens = request.py_draft_tokens
    return 0 if draft_tokens is None else len(draft_tokens)
