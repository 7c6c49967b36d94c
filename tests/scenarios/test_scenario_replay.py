"""Trace scenarios, and scenarios read back from plain values and text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.scenario import (
    SteadyDecode,
    TraceReplay,
    format_layer_group,
    from_dict,
    parse_layer_group,
)
from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import LayerGroup

STEADY = SteadyDecode(requests=2, tokens=3).to_dict()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_batch": 0}, "maximum batch size must be between 1 and 100,000, not 0"),
        ({"max_batch": 100_001}, "maximum batch size must be between 1 and 100,000, not 100,001"),
        ({"max_num_tokens": 0}, "tokens per iteration must be between 1 and 16,777,216, not 0"),
        (
            {"max_num_tokens": 16_777_217},
            "tokens per iteration must be between 1 and 16,777,216, not 16,777,217",
        ),
        ({"draft_tokens": 257}, "draft tokens must be between 0 and 256, not 257"),
        # 8 requests with 1 + 3 tokens each, and one block of 16: 48.
        (
            {"max_batch": 8, "draft_tokens": 3, "tokens_per_block": 16, "max_num_tokens": 47},
            "47 tokens per iteration leave no room for a context chunk: "
            "8 generation requests and one block need 48",
        ),
    ],
)
def test_a_trace_scenario_refuses_what_is_out_of_range(settings: dict[str, Any], text: str):
    with pytest.raises(InputError) as caught:
        TraceReplay(path="/traces/conv.csv", **settings)

    assert str(caught.value) == text


def test_a_budget_with_room_for_just_one_block_is_enough():
    scenario = TraceReplay(
        path="/conv.csv", max_batch=8, draft_tokens=3, tokens_per_block=16, max_num_tokens=48
    )

    assert scenario.name == "v2-trace=conv-batch=8-budget=48-block=16-draft=3"


def test_plain_values_name_the_kind_and_every_field():
    assert STEADY == {
        "kind": "SteadyDecode",
        "manager": "v2",
        "tokens_per_block": 32,
        "layer_groups": ({"window": None, "sink_tokens": 0},),
        "page_backend": "list",
        "draft_tokens": 0,
        "overlap": False,
        "requests": 2,
        "tokens": 3,
        "boundaries": "aligned",
    }


def test_reading_a_scenario_back_leaves_the_values_as_they_were():
    values = dict(STEADY)

    assert from_dict(values) == SteadyDecode(requests=2, tokens=3)
    assert values == STEADY


@pytest.mark.parametrize(
    "values",
    [
        {},
        {key: value for key, value in STEADY.items() if key != "kind"},
        {key: value for key, value in STEADY.items() if key != "tokens"},
        {key: value for key, value in STEADY.items() if key != "layer_groups"},
        STEADY | {"kind": "Burst"},
        STEADY | {"kind": ["SteadyDecode"]},
        STEADY | {"kind": "TraceReplay"},
        STEADY | {"speed": 1},
        STEADY | {"tokens": "3"},
        STEADY | {"tokens": None},
        STEADY | {"layer_groups": None},
        STEADY | {"layer_groups": [3]},
        STEADY | {"layer_groups": [{"width": 3}]},
        STEADY | {"layer_groups": [{"window": "3"}]},
    ],
)
def test_values_that_describe_no_scenario_are_refused(values: dict[str, Any]):
    with pytest.raises(InputError, match=r"^not a scenario of this version: "):
        from_dict(values)


def test_a_size_that_is_no_whole_number_is_refused():
    # Only a results file that was changed by hand can hold one, and --resume reads it.
    with pytest.raises(InputError):
        from_dict(STEADY | {"tokens": 3.5})


def test_values_out_of_range_are_refused_as_in_a_new_scenario():
    with pytest.raises(InputError, match=r"^requests must be between 1 and 100,000, not 0$"):
        from_dict(STEADY | {"requests": 0})


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("full", LayerGroup()),
        ("window=4096", LayerGroup(4096)),
        ("window=4096:sink=64", LayerGroup(4096, 64)),
        ("window=1:sink=0", LayerGroup(1, 0)),
    ],
)
def test_a_layer_group_is_read(text: str, group: LayerGroup):
    assert parse_layer_group(text) == group


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (LayerGroup(), "full"),
        (LayerGroup(4096), "window=4096"),
        (LayerGroup(4096, 64), "window=4096:sink=64"),
    ],
)
def test_a_layer_group_is_written(group: LayerGroup, text: str):
    assert format_layer_group(group) == text


@given(st.builds(LayerGroup, st.integers(1, 10**7), st.integers(0, 10**7)))
def test_a_written_layer_group_is_read_as_the_same(group: LayerGroup):
    assert parse_layer_group(format_layer_group(group)) == group


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Full",
        "full:sink=1",
        "sink=64",
        "window",
        "window=",
        "window=4096:",
        "window=4096:sink",
        "window=4096:sink=",
        "window=4096:sink=64:sink=64",
        "window=1:window=2",
        "window=4096:sinks=1",
        "window=4096=1",
        "window=many",
        "window=4.5",
        "window=0x10",
        "window=٤",
        "window:4096",
        "Window=4096",
        "window=" + "9" * 5000,
        # Python's own int() reads these, and the name of the scenario would not show them again.
        "window=4_096",
        "window=+5",
        "window= 5",
        " window=5",
    ],
)
def test_a_malformed_layer_group_is_refused(text: str):
    with pytest.raises(InputError) as caught:
        parse_layer_group(text)

    assert str(caught.value) == (
        f"layer group {text!r} is not 'full', 'window=TOKENS' or 'window=TOKENS:sink=TOKENS'"
    )


def test_a_negative_window_is_refused_before_it_is_used():
    with pytest.raises(InputError):
        SteadyDecode(requests=1, tokens=1, layer_groups=(parse_layer_group("window=-5"),))
