"""What the native side would build of a batch: the data of each request, as the engine's objects.

The part that both KV cache managers have in common, in Python: what was reported so far, who is in
the report, and the fields that come of the request. ``stubs/native/src/request_data.cpp`` is the
same in C++.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connector import interfaces
from connector.data import RequestData

from .request import CONTEXT_STATES, LlmRequest, own


@dataclass(slots=True)
class Reported:
    """How much of one request was reported, and with V1 its hash chain, which is never changed."""

    num_tokens: int = 0
    num_blocks: int = 0
    block_hashes: list[int] = field(default_factory=list)


class ReportedRequests:
    """What of each request was reported so far.

    Args:
        new_data: makes the data of a request.
        skip_dummy_requests: whether dummy requests are left out.
    """

    def __init__(self, new_data: Callable[..., RequestData], skip_dummy_requests: bool) -> None:
        self.new_data = new_data
        self.skip_dummy_requests = skip_dummy_requests
        self.by_id: dict[int, Reported] = {}

    def forget(self, request_id: int) -> None:
        """Forget a request, which is reported as new the next time; an unknown one is left out."""
        self.by_id.pop(request_id, None)


@dataclass(frozen=True, slots=True)
class NewBlocks:
    """What a manager knows of one request's blocks that was not reported.

    Attributes:
        count: how many they are.
        ids: their ids; empty with several layer groups.
        by_layer_group: V2 only: their page indices.
        block_hashes: V1 only: the hash chain as it is now.
        priorities: V1 only: a priority each, where the request has a retention config.
    """

    count: int
    ids: list[int]
    by_layer_group: list[list[int]] = field(default_factory=list)
    block_hashes: list[int] = field(default_factory=list)
    priorities: list[int] | None = None


def build_request_data(
    reported: interfaces.ReportedRequests,
    context: Sequence[interfaces.LlmRequest],
    generation: Sequence[interfaces.LlmRequest],
    loading: Mapping[int, interfaces.LlmRequest],
    external_loads: Mapping[int, int],
    new_blocks: Callable[[LlmRequest, Reported], NewBlocks],
) -> tuple[list[RequestData], list[RequestData]]:
    """Return the data of requests that are new, and of all others, and remember it as reported.

    Args:
        reported: what was reported so far.
        context: requests in their context phase.
        generation: requests in their generation phase.
        loading: requests being loaded, which are left out of the context phase.
        external_loads: by how much to lower the computed position of a context request, by id.
        new_blocks: returns what is new of a request's blocks, given what was reported of it.
    """
    known: ReportedRequests = reported  # type: ignore[assignment]
    first_reports: list[RequestData] = []
    others: list[RequestData] = []
    after: dict[int, Reported] = {}  # Nothing counts as reported before all is built.

    def build(request: LlmRequest, external: int) -> RequestData:
        seen = known.by_id.get(request.request_id) or Reported()
        length, tokens = request.tokens_after(seen.num_tokens)
        blocks = new_blocks(request, seen)
        if request.state in CONTEXT_STATES:
            position = request.context_current_position
            scheduled = min(request.context_remaining_length, request.context_chunk_size)
        else:
            draft_tokens = request.py_draft_tokens
            position = length - 1
            scheduled = 1 if draft_tokens is None else 1 + len(draft_tokens)
        after[request.request_id] = Reported(
            seen.num_tokens + len(tokens), seen.num_blocks + blocks.count, blocks.block_hashes
        )
        return known.new_data(
            request.request_id,
            tokens,
            blocks.ids,
            position - external,
            scheduled,
            blocks.block_hashes.copy(),
            blocks.priorities,
            request.cache_salt,
            blocks.by_layer_group,
        )

    def skipped(request: LlmRequest) -> bool:
        return known.skip_dummy_requests and request.is_dummy_request

    for request in own(context):
        if not skipped(request) and request.request_id not in loading:
            place = others if request.request_id in known.by_id else first_reports
            place.append(build(request, external_loads.get(request.request_id, 0)))
    others += [build(request, 0) for request in own(generation) if not skipped(request)]
    known.by_id.update(after)
    return first_reports, others
