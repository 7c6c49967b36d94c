"""The call that builds what is told of a batch on the native side, on every provider."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from connector import interfaces
from connector.data import RequestData
from scenarios.scenario import SteadyDecode
from scenarios.workload import Workload, create_workload
from stubs.providers import PROVIDERS, absent

PRESENT = [name for name in PROVIDERS if absent(name) is None]
CELLS = [
    SteadyDecode(requests=3, tokens=70, tokens_per_block=8, manager=manager)
    for manager in ("v1", "v2")
]
pytestmark = [
    pytest.mark.parametrize("provider", PRESENT),
    pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.manager),
]


def build(
    workload: Workload, reported: interfaces.ReportedRequests
) -> tuple[list[RequestData], list[RequestData], bool]:
    batch = workload.batch
    manager: Any = workload.manager
    found: tuple[list[RequestData], list[RequestData], bool] = manager.build_request_data(
        reported,
        batch.context_requests_chunking,
        batch.context_requests_last_chunk,
        batch.generation_requests,
        workload.async_requests.loading,
        {},
    )
    return found


def start(
    cell: SteadyDecode, provider: str, new_data: Callable[..., RequestData] = RequestData
) -> tuple[Workload, interfaces.ReportedRequests]:
    workload = create_workload(cell, 40, "0", provider)
    manager: Any = workload.manager
    workload.advance()
    return workload, manager.create_reported_requests(new_data, False)


def test_what_was_reported_is_not_reported_again(cell: SteadyDecode, provider: str):
    workload, reported = start(cell, provider)
    _, first, _ = build(workload, reported)
    _, again, _ = build(workload, reported)

    assert [len(data.new_tokens) for data in first] == [71, 71, 71]
    assert [data.new_tokens for data in again] == [[], [], []]
    assert [len(data.block_hashes) for data in again] == [8 * (cell.manager == "v1")] * 3


def test_where_an_error_is_raised_nothing_counts_as_reported(cell: SteadyDecode, provider: str):
    made: list[int] = []

    def failing(*values: Any) -> RequestData:  # noqa: ANN401
        made.append(values[0])
        if len(made) == 2:
            raise KeyError("the second")
        return RequestData(*values)

    workload, reported = start(cell, provider, failing)
    with pytest.raises(KeyError, match="the second"):
        build(workload, reported)

    _, data, _ = build(workload, reported)
    assert [len(each.new_tokens) for each in data] == [71, 71, 71]


def test_what_is_forgotten_is_reported_whole(cell: SteadyDecode, provider: str):
    workload, reported = start(cell, provider)
    _, (_, second, _), _ = build(workload, reported)

    reported.forget(second.request_id)
    reported.forget(123_456)  # Nobody's.

    _, again, _ = build(workload, reported)
    assert [len(each.new_tokens) for each in again] == [0, 71, 0]
    assert again[1] == second


def test_no_two_reports_share_a_list(cell: SteadyDecode, provider: str):
    workload, reported = start(cell, provider)
    kept = []
    for _ in range(3):
        kept += build(workload, reported)[1]
        workload.advance()

    lists: dict[int, int] = {}
    for data in kept:
        own = [data.new_tokens, data.new_block_ids, data.block_hashes]
        own += [data.new_block_ids_by_layer_group, *data.new_block_ids_by_layer_group]
        for one in {id(each) for each in own}:
            lists[one] = lists.get(one, 0) + 1
    assert set(lists.values()) == {1}


def test_nothing_is_left_of_reports_that_are_gone(cell: SteadyDecode, provider: str):
    workload, reported = start(cell, provider)
    build(workload, reported)

    def objects() -> int:
        for _ in range(200):
            build(workload, reported)
        gc.collect()
        return len(gc.get_objects())

    before, held = objects(), sys.getrefcount(RequestData)

    # Fewer where something of another test goes meanwhile; a leak would be 600 of them.
    assert objects() < before + 100
    assert sys.getrefcount(RequestData) < held + 100


def test_a_constructor_may_be_part_of_a_cycle(cell: SteadyDecode, provider: str):
    class Maker:
        """Holds what holds it."""

        reported: object = None

        def __call__(self, *values: Any) -> RequestData:  # noqa: ANN401
            return RequestData(*values)

    alive = []
    for _ in range(3):
        maker = Maker()
        workload, maker.reported = start(cell, provider, maker)
        build(workload, maker.reported)  # type: ignore[arg-type]
        del workload, maker
        gc.collect()
        alive.append(sum(type(one).__name__ == "Maker" for one in gc.get_objects()))

    assert alive == [0, 0, 0]


def test_what_a_constructor_does_meanwhile_leaves_reports_whole(cell: SteadyDecode, provider: str):
    def meddling(*values: Any) -> RequestData:  # noqa: ANN401
        # All that the call has looked at, or may still look at.
        for request in requests if len(requests[0].get_tokens(0)) < 500 else ():
            reported.forget(request.request_id)
            for _ in range(500):
                request.add_new_token(7, 0)
            for capacity in (8, 71):
                manager.resize(request, capacity)
        return RequestData(*values)

    workload, reported = start(cell, provider, meddling)
    requests, manager = list(workload.batch.generation_requests), workload.manager
    (_, first, _), (_, second, _) = build(workload, reported), build(workload, reported)

    for request, one, other in zip(requests, first, second, strict=True):
        assert one.new_tokens + other.new_tokens == request.get_tokens(0)
        assert len(one.new_block_ids + other.new_block_ids) == manager.get_num_blocks(request)


def test_an_output_type_that_needs_more_is_an_error_of_its_own(cell: SteadyDecode, provider: str):
    class Needing(RequestData):
        def __init__(self, *values: Any, needed: int) -> None:  # noqa: ANN401
            super().__init__(*values)
            self.needed = needed

    workload, reported = start(cell, provider, Needing)
    with pytest.raises(TypeError, match=r"Needing.__init__.. missing 1 required .* 'needed'"):
        build(workload, reported)
