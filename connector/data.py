"""What the measured path produces, field by field as upstream declares it."""

from dataclasses import dataclass, field


@dataclass
class RequestData:
    """What a connector learns about one scheduled request in one iteration.

    Attributes:
        request_id: the engine's id of the request.
        new_tokens: token ids that were not reported before; a fresh list, the consumer's to change.
        new_block_ids: blocks that were not reported before; empty with several layer groups,
            whose page indices cannot share one list.
        computed_position: first position whose KV this iteration computes.
        num_scheduled_tokens: tokens scheduled for the coming forward.
        block_hashes: V1 only: the cumulative hashes of all full blocks, reported whole each time.
        priorities: V1 with a retention config only: one retention priority per new block.
        cache_salt: the salt that separates this request's cached prefix from others'.
        new_block_ids_by_layer_group: V2 only: new page indices, one list per layer group; a block
            without a readable page stands as -1 so that a position in the list is a block ordinal.
    """

    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int]
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: list[int] = field(default_factory=list)
    priorities: list[int] | None = None
    cache_salt: str | None = None
    new_block_ids_by_layer_group: list[list[int]] = field(default_factory=list)


@dataclass
class SchedulerOutput:
    """What a connector is told about one iteration.

    Attributes:
        new_requests: requests scheduled for the first time; a request is here exactly once.
        cached_requests: requests seen before. Not a prefix-cache hit.
        attention_dp_rank: the owner of the block ids under attention data parallelism, else None.
    """

    new_requests: list[RequestData] = field(default_factory=list)
    cached_requests: list[RequestData] = field(default_factory=list)
    attention_dp_rank: int | None = None
