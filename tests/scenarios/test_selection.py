from pathlib import Path
from typing import Any

import pytest

from scenarios.catalogue import CATALOGUE
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.selection import Source, select, split
from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import LayerGroup

TWO_GROUPS = (LayerGroup(), LayerGroup(64))
REFERENCE_SIZES = [
    "16x8192",
    "16x32768",
    "64x2048",
    "64x8192",
    "256x2048",
    "256x4096",
    "8x131072",
]


def names(source: Source, settings: dict[str, Any]) -> list[str]:
    return [scenario.name for scenario in select(source, settings)[0]]


def error(source: Source, settings: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        select(source, settings)
    return str(caught.value)


def test_cells_are_taken_in_the_order_given():
    chosen, left_out = select(Source(cells="64x2048, 8x16 ,64x32"), {})

    assert chosen == [
        SteadyDecode(requests=64, tokens=2048),
        SteadyDecode(requests=8, tokens=16),
        SteadyDecode(requests=64, tokens=32),
    ]
    assert left_out == []


def test_cells_take_the_settings():
    settings = {"manager": "v1", "draft_tokens": 2, "boundaries": "staggered"}

    assert names(Source(cells="8x16"), settings) == ["v1-8x16-draft=2-staggered"]


def test_a_grid_has_every_length_for_one_size_after_the_other():
    source = Source(requests="8,1", tokens="64, 16,32")

    assert names(source, {"overlap": True}) == [
        "v2-8x64-overlap",
        "v2-8x16-overlap",
        "v2-8x32-overlap",
        "v2-1x64-overlap",
        "v2-1x16-overlap",
        "v2-1x32-overlap",
    ]


def test_a_trace_is_found_from_here_and_from_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    settings = {"max_batch": 8, "max_num_tokens": 4096}

    here, left_out = select(Source(trace="conv.csv"), settings)
    home, _ = select(Source(trace="~/conv.csv"), {})

    assert here == [TraceReplay(path=str(tmp_path / "conv.csv"), **settings)]
    assert left_out == []
    assert home == [TraceReplay(path="/home/somebody/conv.csv")]


def test_the_home_of_nobody_is_refused_in_one_line():
    assert "nobody-of-that-name" in error(Source(trace="~nobody-of-that-name/conv.csv"), {})


def test_nothing_asked_for_means_the_reference_cells():
    expected = [f"v2-{size}" for size in REFERENCE_SIZES]

    assert names(Source(), {}) == [*expected, "v1-64x8192"]
    assert names(Source(scenario="reference"), {}) == [*expected, "v1-64x8192"]


def test_settings_replace_those_of_the_catalogue():
    settings = {"tokens_per_block": 16, "layer_groups": (LayerGroup(),), "draft_tokens": 1}

    assert names(Source(scenario="sliding-window"), settings) == [
        "v2-64x2048-block=16-draft=1",
        "v2-64x8192-block=16-draft=1",
        "v2-64x32768-block=16-draft=1",
    ]


@pytest.mark.parametrize("settings", [{"layer_groups": TWO_GROUPS}, {"page_backend": "generator"}])
def test_the_v1_cell_is_left_out_where_a_setting_exists_with_v2_alone(settings: dict[str, Any]):
    chosen, left_out = select(Source(), settings)

    assert [(cell.manager, cell.requests) for cell in chosen if isinstance(cell, SteadyDecode)] == [
        ("v2", 16),
        ("v2", 16),
        ("v2", 64),
        ("v2", 64),
        ("v2", 256),
        ("v2", 256),
        ("v2", 8),
    ]
    assert all(settings.items() <= vars(cell).items() for cell in chosen)
    assert left_out == ["v1-64x8192"]


def test_cells_that_become_the_same_are_taken_once():
    assert names(Source(), {"manager": "v1"}) == [f"v1-{size}" for size in REFERENCE_SIZES]
    chosen, left_out = select(Source(), {"manager": "v2", "page_backend": "generator"})
    assert [cell.name for cell in chosen] == [f"v2-{s}-pages=generator" for s in REFERENCE_SIZES]
    assert left_out == []  # It became a V2 cell, and the same as one before it.


def test_v1_with_a_setting_of_v2_is_refused_rather_than_left_out():
    text = "layer groups need the V2 manager: V1 has one flat block space"

    assert error(Source(), {"manager": "v1", "layer_groups": TWO_GROUPS}) == text
    assert error(Source(scenario="sliding-window"), {"manager": "v1"}) == text
    assert error(Source(cells="1x1"), {"manager": "v1", "layer_groups": TWO_GROUPS}) == text


def test_an_entry_of_v1_alone_is_refused_rather_than_left_empty(monkeypatch: pytest.MonkeyPatch):
    cell = SteadyDecode(requests=1, tokens=1, manager="v1")
    monkeypatch.setitem(CATALOGUE, "flat", ("one V1 cell", (cell,)))

    assert error(Source(scenario="flat"), {"page_backend": "generator"}) == (
        "the page backend is the V2 manager's: V1 has none"
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            Source(scenario="small", cells="1x1"),
            "--scenario and --cells exclude each other",
        ),
        (Source(scenario="small", trace="a.csv"), "--scenario and --trace exclude each other"),
        (
            Source(cells="1x1", tokens="1"),
            "--cells and --requests and --tokens exclude each other",
        ),
        (
            Source(requests="1", trace="a.csv"),
            "--requests and --tokens and --trace exclude each other",
        ),
        (Source(requests="1"), "a grid takes both --requests and --tokens"),
        (Source(tokens="1"), "a grid takes both --requests and --tokens"),
        (Source(scenario="smal"), "unknown scenario 'smal': did you mean 'small'?"),
        (
            Source(scenario=""),
            "unknown scenario '': known: reference, grid, small, context, sliding-window, "
            "speculative, overlap",
        ),
        (Source(cells=""), "cells '': an entry is empty"),
        (Source(cells="1x1,,2x2"), "cells '1x1,,2x2': an entry is empty"),
        (Source(cells="1x1, "), "cells '1x1, ': an entry is empty"),
        (Source(requests=",1", tokens="1"), "requests ',1': an entry is empty"),
        (Source(requests="1", tokens=""), "tokens '': an entry is empty"),
        (Source(cells="64"), "cell '64' is not REQUESTSxTOKENS, such as 64x2048"),
        (Source(cells="64X2"), "cell '64X2' is not REQUESTSxTOKENS, such as 64x2048"),
        (Source(cells="x2"), "cell 'x2': '' is not a whole number"),
        (Source(cells="2x"), "cell '2x': '' is not a whole number"),
        (Source(cells="1x2x3"), "cell '1x2x3': '2x3' is not a whole number"),
        (Source(cells="1x8k"), "cell '1x8k': '8k' is not a whole number"),
        (Source(requests="one", tokens="1"), "requests: 'one' is not a whole number"),
        (Source(requests="1", tokens="1.5"), "tokens: '1.5' is not a whole number"),
        (Source(requests="1", tokens="1e3"), "tokens: '1e3' is not a whole number"),
        (Source(requests="1", tokens="1_000"), "tokens: '1_000' is not a whole number"),
        (Source(requests="+1", tokens="1"), "requests: '+1' is not a whole number"),
        (Source(requests="--1", tokens="1"), "requests: '--1' is not a whole number"),
        (Source(requests="²", tokens="1"), "requests: '²' is not a whole number"),
        (Source(requests="٤", tokens="1"), "requests: '٤' is not a whole number"),
        (Source(cells="0x1"), "requests must be between 1 and 100,000, not 0"),
        (Source(cells="1x-5"), "tokens per request must be between 1 and 16,777,216, not -5"),
        (
            Source(requests="999999999999999999", tokens="1"),
            "requests must be between 1 and 100,000, not 999,999,999,999,999,999",
        ),
        # Python would refuse to read this one, and to print it.
        (
            Source(requests="1", tokens="9" * 5000),
            f"tokens: '{'9' * 5000}' is not a whole number",
        ),
    ],
)
def test_a_source_that_is_no_source_is_refused(source: Source, text: str):
    assert error(source, {}) == text


@pytest.mark.parametrize(
    ("source", "settings", "text"),
    [
        (Source(), {"max_batch": 8}, "--max-batch goes only with --trace"),
        (Source(cells="1x1"), {"max_num_tokens": 8}, "--max-num-tokens goes only with --trace"),
        (
            Source(trace="conv.csv"),
            {"boundaries": "staggered"},
            "--boundaries goes not with --trace",
        ),
        (
            Source(trace="conv.csv"),
            {"max_batch": 0},
            "maximum batch size must be between 1 and 100,000, not 0",
        ),
    ],
)
def test_settings_that_do_not_go_with_the_source_are_refused(
    source: Source, settings: dict[str, Any], text: str
):
    assert error(source, settings) == text


def test_a_list_is_split_at_its_commas():
    assert split("arms", "full-copy, incremental ,a b") == ["full-copy", "incremental", "a b"]


def test_a_list_with_an_empty_entry_is_refused():
    with pytest.raises(InputError) as caught:
        split("arms", "full-copy,")

    assert str(caught.value) == "arms 'full-copy,': an entry is empty"
