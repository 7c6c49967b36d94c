"""What the arms beyond incremental leave out. That they do the same is the verification's."""

import dataclasses
from collections import Counter

import pytest

from connector import interfaces
from connector.data import RequestData
from harness.arms.registry import create_arm
from scenarios.scenario import SteadyDecode
from scenarios.workload import create_workload


class Counting(interfaces.KVCacheManagerV2):
    """Counts the calls of a manager by name."""

    def __init__(self, manager: interfaces.KVCacheManagerV2) -> None:
        self.calls: Counter[str] = Counter()
        for name in (
            "get_page_indices_by_layer_group",
            "get_num_blocks",
            "get_page_indices_range",
            "get_batch_updates",
            "create_reported_requests",
            "build_request_data",
        ):
            setattr(self, name, self._counted(name, getattr(manager, name)))
        self._groups = manager.num_layer_groups

    @property
    def num_layer_groups(self) -> int:
        return self._groups

    def _counted(self, name: str, call: object) -> object:
        def counted(*arguments: object) -> object:
            self.calls[name] += 1
            return call(*arguments)

        return counted


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ("incremental", {"get_page_indices_by_layer_group": 3 * 32}),
        # From 65 to 96 tokens: at the start, and with blocks of 8 at 73, 81 and 89.
        ("page-growth", {"get_num_blocks": 3 * 32, "get_page_indices_by_layer_group": 3 * 4}),
        ("page-range", {"get_page_indices_range": 3 * 32}),
        ("batched", {"get_batch_updates": 32}),
        ("native-output", {"create_reported_requests": 1, "build_request_data": 32}),
    ],
)
def test_calls_of_32_iterations(arm: str, expected: dict[str, int]):
    workload = create_workload(SteadyDecode(requests=3, tokens=64, tokens_per_block=8), 32, "0")
    manager, built = Counting(workload.manager), create_arm(arm)
    for _ in range(32):
        workload.advance()
        built.build_scheduler_output(workload.batch, workload.async_requests, manager)

    assert manager.calls == expected


@pytest.mark.parametrize("arm", ["page-growth", "page-range", "batched"])
def test_no_more_is_kept_of_a_long_sequence_than_of_a_short_one(arm: str):
    def kept(tokens: int) -> list[object]:
        workload = create_workload(SteadyDecode(requests=1, tokens=tokens), 2, "0")
        built = create_arm(arm)
        for _ in range(2):
            workload.advance()
            built.build_scheduler_output(workload.batch, workload.async_requests, workload.manager)
        (state,) = built.requests.values()
        return [getattr(state, name) for name in state.__slots__]

    assert kept(100) == [4, 102]
    assert kept(10_000) == [313, 10_002]


@dataclasses.dataclass
class InAnotherOrder:
    new_tokens: list[int]
    request_id: int


class WithoutFields:
    def __init__(self, *values: object) -> None:
        self.values = values


@pytest.mark.parametrize("other", [InAnotherOrder, WithoutFields])
def test_an_output_type_that_does_not_take_its_fields_by_position_is_refused(
    monkeypatch: pytest.MonkeyPatch, other: type
):
    monkeypatch.setattr("connector.native_output.RequestData", other)

    with pytest.raises(TypeError, match=r"^RequestData takes other fields by position .* are req"):
        create_arm("native-output")


def test_an_output_type_with_further_fields_is_served(monkeypatch: pytest.MonkeyPatch):
    @dataclasses.dataclass
    class Longer(RequestData):
        further: str = "as by default"

    monkeypatch.setattr("connector.native_output.RequestData", Longer)
    workload = create_workload(SteadyDecode(requests=2, tokens=8), 1, "0")
    workload.advance()
    arms = [create_arm(name) for name in ("full-copy", "native-output")]
    read = workload.batch, workload.async_requests, workload.manager
    expected, longer = (arm.build_scheduler_output(*read).cached_requests for arm in arms)

    assert [type(data) for data in longer] == [Longer, Longer]
    assert longer == [Longer(**vars(data)) for data in expected]
