"""That the shapes compared hold the same values."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "benchmarks/output_types.py"


@pytest.fixture(scope="module")
def shapes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("output_types", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_shape_holds_what_the_engine_s_does(shapes: ModuleType):
    now = shapes.as_now().cached_requests
    expected = [
        (d.request_id, d.new_tokens, d.computed_position, d.num_scheduled_tokens) for d in now
    ]
    assert len(expected) == shapes.REQUESTS == 64
    assert expected[3] == (1_003, [40_003], 2_048, 1)

    for build in (shapes.slotted, shapes.without_empty_lists, shapes.tuples):
        assert [
            (d.request_id, d.new_tokens, d.computed_position, d.num_scheduled_tokens)
            for d in build()
        ] == expected
    columns = shapes.columns()
    assert expected == list(
        zip(
            columns.request_ids,
            columns.new_tokens,
            columns.computed_positions,
            columns.num_scheduled_tokens,
            strict=True,
        )
    )


def test_nothing_new_is_an_empty_list_or_none(shapes: ModuleType):
    assert {str(d.new_block_ids_by_layer_group) for d in shapes.as_now().cached_requests} == {
        "[[]]"
    }
    assert {str(d.new_block_ids_by_layer_group) for d in shapes.slotted()} == {"[[]]"}
    for build in (shapes.without_empty_lists, shapes.tuples):
        assert {d.new_block_ids_by_layer_group for d in build()} == {None}
    assert shapes.columns().new_block_ids_by_layer_group == {}


def test_no_list_is_shared_with_what_was_ready(shapes: ModuleType):
    for data in shapes.as_now().cached_requests + shapes.tuples() + shapes.slotted():
        data.new_tokens.append(1)
    assert [tokens for _, tokens, *_ in shapes.READY] == [[40_000 + i] for i in range(64)]
