"""What leaner output types would cost: the floor of the measured path, in other shapes.

Each benchmark builds the output of one iteration of steady decode for 64 requests from values that
are ready: a new token each, no new page. The first is what the engine has. Run it with ``python
benchmarks/output_types.py``; pyperf's options apply, such as ``--fast`` or ``-o FILE``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import pyperf

from connector.data import RequestData, SchedulerOutput

REQUESTS = 64

# Request id, new tokens, new pages by layer group, computed position, scheduled tokens.
READY = [(1_000 + index, [40_000 + index], [[]], 2_048, 1) for index in range(REQUESTS)]


@dataclass(slots=True)
class SlottedData:
    """``RequestData`` with slots instead of a dictionary."""

    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int]
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: list[int]
    priorities: list[int] | None
    cache_salt: str | None
    new_block_ids_by_layer_group: list[list[int]]


class TupleData(NamedTuple):
    """The same fields, not to be changed; what is empty is shared."""

    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int] | None
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: list[int] | None
    priorities: list[int] | None
    cache_salt: str | None
    new_block_ids_by_layer_group: list[list[int]] | None


@dataclass
class Columns:
    """One object a batch: a list for each field, and new pages only of requests that have any."""

    request_ids: list[int]
    new_tokens: list[list[int]]
    computed_positions: list[int]
    num_scheduled_tokens: list[int]
    new_block_ids_by_layer_group: dict[int, list[list[int]]]


def as_now() -> SchedulerOutput:
    """Build what the engine has."""
    data = [
        RequestData(
            request_id,
            tokens.copy(),
            (groups := [indices.copy() for indices in pages])[0],
            position,
            scheduled,
            [],
            None,
            None,
            groups,
        )
        for request_id, tokens, pages, position, scheduled in READY
    ]
    return SchedulerOutput([], data, None)


def slotted() -> list[SlottedData]:
    """Build the same objects with slots."""
    return [
        SlottedData(
            request_id,
            tokens.copy(),
            (groups := [indices.copy() for indices in pages])[0],
            position,
            scheduled,
            [],
            None,
            None,
            groups,
        )
        for request_id, tokens, pages, position, scheduled in READY
    ]


def without_empty_lists() -> list[SlottedData]:
    """Build objects with slots in which None stands for nothing new."""
    return [
        SlottedData(
            request_id,
            tokens.copy(),
            None,  # type: ignore[arg-type]
            position,
            scheduled,
            None,  # type: ignore[arg-type]
            None,
            None,
            [indices.copy() for indices in pages] if pages[0] else None,  # type: ignore[arg-type]
        )
        for request_id, tokens, pages, position, scheduled in READY
    ]


def tuples() -> list[TupleData]:
    """Build tuples in which None stands for nothing new."""
    return [
        TupleData(
            request_id,
            tokens.copy(),
            None,
            position,
            scheduled,
            None,
            None,
            None,
            [indices.copy() for indices in pages] if pages[0] else None,
        )
        for request_id, tokens, pages, position, scheduled in READY
    ]


def columns() -> Columns:
    """Build one object with a list for each field."""
    return Columns(
        [ready[0] for ready in READY],
        [ready[1].copy() for ready in READY],
        [ready[3] for ready in READY],
        [ready[4] for ready in READY],
        {ready[0]: [indices.copy() for indices in ready[2]] for ready in READY if ready[2][0]},
    )


if __name__ == "__main__":
    runner = pyperf.Runner()
    for build in (as_now, slotted, without_empty_lists, tuples, columns):
        runner.bench_func(f"{build.__name__} ({REQUESTS} requests)", build)
