"""The orders in which arms are told of a request, each by the operations that lead to it."""

import pytest

from scenarios.operations import DROPPED, FINISHED, PAUSED, RESET, Operation, Setting
from scenarios.orders import ORDERS
from scenarios.world import World
from stubs.kv_cache_v2 import LayerGroup

SETTING = Setting("v2", 4, (LayerGroup(),), "list", attention_dp=False, overlap=False)
JOIN = Operation("join", (20, 0, 0, 0, 0, 0))
REPORT = Operation("report")


def chunk(number: int = 0) -> Operation:
    return Operation("chunk", (number, 2))


def reached(*operations: Operation) -> set[str]:
    """The orders that these operations reach."""
    world = World(SETTING, [])
    for operation in operations:
        if world.apply(operation):
            world.finish_iteration()
    return set(ORDERS) & {name for name, count in world.reached.items() if count}


EXTERNAL, LOAD = Operation("external", (0, 3)), Operation("load", (0, 3))
READMIT = Operation("readmit", (0, 2))
TRIM = Operation("trim", (0, 1))


CASES: tuple[tuple[tuple[Operation, ...], set[str]], ...] = (
    ((EXTERNAL, REPORT), set()),
    ((EXTERNAL, EXTERNAL, REPORT), {"recorded twice"}),
    ((EXTERNAL, LOAD, REPORT), {"recorded, loaded"}),
    (
        (EXTERNAL, READMIT, REPORT),
        {"recorded, reset, reported", "reset when unknown"},
    ),
    (
        (EXTERNAL, READMIT, EXTERNAL, REPORT),
        {"recorded, reset, recorded", "reset when unknown"},
    ),
    (
        (EXTERNAL, Operation("withdraw", (0, RESET)), REPORT),
        {"recorded, reset, not reported", "reset when unknown"},
    ),
    ((EXTERNAL, Operation("withdraw", (0, PAUSED)), REPORT), {"recorded, paused"}),
    ((EXTERNAL, Operation("withdraw", (0, DROPPED)), REPORT), {"recorded, dropped"}),
    (
        (EXTERNAL, Operation("withdraw", (0, FINISHED)), REPORT),
        {"recorded, dropped", "reset when unknown"},
    ),
    ((REPORT, chunk(), EXTERNAL, REPORT), {"recorded when known"}),
    ((LOAD, READMIT, REPORT), {"loaded, reset", "recorded, reset, not reported"}),
    ((LOAD, REPORT, Operation("reset", (0,))), {"loaded, reset", "reset when unknown"}),
    (
        (REPORT, Operation("reset", (0,)), Operation("reset", (0,))),
        {"reset twice", "reset when unknown"},
    ),
    ((REPORT, Operation("leave", (0, 1)), JOIN), {"reset, id reused"}),
    ((REPORT, Operation("leave", (0, 0)), JOIN), {"dropped, id reused"}),
    # A report in between empties what was recorded, and ends what belongs together.
    ((REPORT, Operation("leave", (0, 1)), REPORT, JOIN), set()),
    ((EXTERNAL, REPORT, Operation("reset", (0,)), chunk(), REPORT), set()),
)


@pytest.mark.parametrize(("operations", "expected"), CASES)
def test_an_order_is_reached_by_its_operations(
    operations: tuple[Operation, ...], expected: set[str]
):
    found = reached(JOIN, chunk(), *operations)

    # With one request alone nobody else is reported.
    assert found - {"reset when unknown"} == expected - {"reset when unknown"}
    assert expected <= found


def test_what_was_recorded_of_a_request_that_is_not_reported_is_reported_by_others():
    two = (JOIN, JOIN, chunk(0), chunk(0))
    assert reached(*two, EXTERNAL, TRIM, REPORT) == {"recorded, not reported"}
    assert reached(*two, EXTERNAL, REPORT) == set()


def test_each_order_is_shown_here():
    shown = set().union(*(expected for _, expected in CASES))
    assert shown | {"recorded, not reported"} == set(ORDERS)


def test_a_prompt_that_is_admitted_again_is_reported_from_its_start():
    class Observer:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def record_new_matched_tokens(self, _request: object, count: int) -> None:
            self.seen.append(count)

        def reset_request(self, request_id: int) -> None:
            self.seen.append(f"reset {request_id}")

    observer = Observer()
    world = World(SETTING, [observer])
    for operation in (JOIN, chunk(), REPORT):
        if world.apply(operation):
            world.finish_iteration()
    for operation in (chunk(), EXTERNAL, Operation("readmit", (0, 3)), REPORT):
        world.apply(operation)

    assert observer.seen == [3, "reset 0"]
    (request,) = world.batch.context_requests
    assert (request.context_current_position, request.context_chunk_size) == (0, 3)
