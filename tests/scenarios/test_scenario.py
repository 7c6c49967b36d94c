import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.scenario import SteadyDecode, TraceReplay, from_dict
from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import LayerGroup

FULL = LayerGroup()

# A sink says something only where a window would pass over it, and the option cannot give one
# without: see test_sink_tokens_need_a_window.
layer_groups = st.one_of(
    st.just(FULL),
    st.builds(LayerGroup, st.integers(1, 16_777_216), st.integers(0, 16_777_216)),
)
shared_settings = st.fixed_dictionaries(
    {"tokens_per_block": st.integers(1, 64), "draft_tokens": st.integers(0, 256)},
    optional={"overlap": st.booleans()},
)
v2_settings = st.fixed_dictionaries(
    {"manager": st.just("v2")},
    optional={
        "layer_groups": st.lists(layer_groups, min_size=1, max_size=4).map(tuple),
        "page_backend": st.sampled_from(["list", "generator"]),
    },
)
settings_of_a_scenario = st.tuples(
    shared_settings, st.one_of(st.just({"manager": "v1"}), v2_settings)
).map(lambda parts: parts[0] | parts[1])
steady = st.builds(
    lambda settings, **sizes: SteadyDecode(**settings, **sizes),
    settings_of_a_scenario,
    requests=st.integers(1, 100_000),
    tokens=st.integers(1, 16_777_216),
    boundaries=st.sampled_from(["aligned", "staggered"]),
)
replay = st.builds(
    lambda settings, **sizes: TraceReplay(**settings, **sizes),
    settings_of_a_scenario,
    path=st.sampled_from(["/traces/conv.csv", "/traces/conv-batch=4.csv", "/traces/code.csv"]),
    max_batch=st.integers(1, 64),
    max_num_tokens=st.integers(20_000, 16_777_216),
)
scenarios = st.one_of(steady, replay)


@given(scenarios)
def test_a_scenario_survives_the_way_through_json(scenario: SteadyDecode | TraceReplay):
    assert from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


@given(scenarios, st.data())
def test_the_names_of_different_scenarios_differ(
    scenario: SteadyDecode | TraceReplay, data: st.DataObject
):
    # Half the time a scenario that differs in one field alone, which is the hard case.
    other = data.draw(scenarios)
    field = data.draw(st.sampled_from(dataclasses.fields(scenario)))
    if data.draw(st.booleans()) and type(other) is type(scenario):
        try:
            other = dataclasses.replace(scenario, **{field.name: getattr(other, field.name)})
        except InputError:
            return
    assert (other.name == scenario.name) == (other == scenario)


@given(scenarios)
def test_a_name_is_one_printable_word(scenario: SteadyDecode | TraceReplay):
    assert scenario.name.isprintable()
    assert not any(map(str.isspace, scenario.name))


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        (SteadyDecode(requests=64, tokens=2048), "v2-64x2048"),
        (SteadyDecode(requests=1, tokens=1, manager="v1"), "v1-1x1"),
        (
            SteadyDecode(requests=64, tokens=2048, tokens_per_block=16, boundaries="staggered"),
            "v2-64x2048-block=16-staggered",
        ),
        (
            SteadyDecode(
                requests=8,
                tokens=9,
                layer_groups=(FULL, LayerGroup(4096), LayerGroup(512, 64)),
                page_backend="generator",
                draft_tokens=3,
                overlap=True,
            ),
            "v2-8x9-groups=full,window=4096,window=512:sink=64-pages=generator-draft=3-overlap",
        ),
        (TraceReplay(path="/traces/conv.csv"), "v2-trace=conv-batch=64"),
        (
            TraceReplay(
                path="/traces/conv.v2.jsonl",
                manager="v1",
                max_batch=8,
                max_num_tokens=4096,
                draft_tokens=1,
            ),
            "v1-trace=conv.v2-batch=8-budget=4096-draft=1",
        ),
        (TraceReplay(path="/traces/a\nb\x1b[1m.csv"), "v2-trace=a?b?[1m-batch=64"),
    ],
)
def test_a_name_has_the_settings_that_are_no_defaults(
    scenario: SteadyDecode | TraceReplay, name: str
):
    assert scenario.name == name


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"requests": 0}, "requests must be between 1 and 100,000, not 0"),
        ({"requests": 100_001}, "requests must be between 1 and 100,000, not 100,001"),
        ({"tokens": 0}, "tokens per request must be between 1 and 16,777,216, not 0"),
        (
            {"tokens": 16_777_217},
            "tokens per request must be between 1 and 16,777,216, not 16,777,217",
        ),
        ({"tokens_per_block": 0}, "tokens per block must be between 1 and 65,536, not 0"),
        ({"tokens_per_block": 65_537}, "tokens per block must be between 1 and 65,536, not 65,537"),
        ({"draft_tokens": -1}, "draft tokens must be between 0 and 256, not -1"),
        ({"draft_tokens": 257}, "draft tokens must be between 0 and 256, not 257"),
        ({"layer_groups": ()}, "number of layer groups must be between 1 and 64, not 0"),
        ({"layer_groups": (FULL,) * 65}, "number of layer groups must be between 1 and 64, not 65"),
        (
            {"layer_groups": (FULL, LayerGroup(0))},
            "window must be between 1 and 16,777,216, not 0",
        ),
        (
            {"layer_groups": (LayerGroup(16_777_217),)},
            "window must be between 1 and 16,777,216, not 16,777,217",
        ),
        (
            {"layer_groups": (LayerGroup(8, -1),)},
            "sink tokens must be between 0 and 16,777,216, not -1",
        ),
        (
            {"layer_groups": (LayerGroup(8, 16_777_217),)},
            "sink tokens must be between 0 and 16,777,216, not 16,777,217",
        ),
        ({"manager": "v3"}, "manager must be one of v1, v2, not 'v3'"),
        ({"page_backend": "set"}, "page backend must be one of list, generator, not 'set'"),
        ({"boundaries": "even"}, "boundaries must be one of aligned, staggered, not 'even'"),
        (
            {"manager": "v1", "layer_groups": (LayerGroup(8),)},
            "layer groups need the V2 manager: V1 has one flat block space",
        ),
        (
            {"manager": "v1", "layer_groups": (FULL, FULL)},
            "layer groups need the V2 manager: V1 has one flat block space",
        ),
        (
            {"manager": "v1", "page_backend": "generator"},
            "the page backend is the V2 manager's: V1 has none",
        ),
    ],
)
def test_a_steady_scenario_refuses_what_is_out_of_range(settings: dict[str, Any], text: str):
    with pytest.raises(InputError) as caught:
        SteadyDecode(**{"requests": 1, "tokens": 1, **settings})

    assert str(caught.value) == text


@pytest.mark.parametrize(
    "settings",
    [
        {"requests": 100_000, "tokens": 16_777_216},
        {"tokens_per_block": 65_536, "draft_tokens": 256},
        {"layer_groups": (LayerGroup(16_777_216, 16_777_216),) * 64},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(settings: dict[str, Any]):
    scenario = SteadyDecode(**{"requests": 1, "tokens": 1, **settings})

    assert settings.items() <= vars(scenario).items()


def test_sink_tokens_need_a_window():
    # They would change nothing, and neither the name nor the option could tell them.
    with pytest.raises(InputError, match="window"):
        SteadyDecode(requests=1, tokens=1, layer_groups=(FULL, LayerGroup(None, 64)))
