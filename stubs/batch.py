"""Stand-ins for the containers that the measured path reads at every iteration."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .request import LlmRequest


@dataclass
class ScheduledRequests:
    """The batch of one iteration."""

    context_requests_chunking: list[LlmRequest] = field(default_factory=list)
    context_requests_last_chunk: list[LlmRequest] = field(default_factory=list)
    generation_requests: list[LlmRequest] = field(default_factory=list)
    paused_requests: list[LlmRequest] = field(default_factory=list)

    @property
    def context_requests(self) -> list[LlmRequest]:
        """Chunking requests, then those in their last chunk: a new list at every access."""
        return self.context_requests_chunking + self.context_requests_last_chunk

    def reset_context_requests(self, requests: Iterable[LlmRequest]) -> None:
        """Replace the context requests, telling last chunks from others by what remains."""
        self.context_requests_chunking = []
        self.context_requests_last_chunk = []
        for request in requests:
            last = request.context_chunk_size == request.context_remaining_length
            (self.context_requests_last_chunk if last else self.context_requests_chunking).append(
                request
            )


@dataclass
class AsyncRequests:
    """Requests whose KV cache is being saved or loaded asynchronously, by request id."""

    saving: dict[int, LlmRequest] = field(default_factory=dict)
    loading: dict[int, LlmRequest] = field(default_factory=dict)

    @property
    def saving_ids(self) -> set[int]:
        """Ids of the requests being saved: a new set at every access."""
        return set(self.saving)

    @property
    def loading_ids(self) -> set[int]:
        """Ids of the requests being loaded: a new set at every access."""
        return set(self.loading)
