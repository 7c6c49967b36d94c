"""What a user's file declares, and what is wrong with it."""

import types
from typing import Any

import pytest

from stepbench_core.errors import InputError
from subjects.base import Cell, cell_from_dict
from subjects.own.function import built, cells_of, functions_of, pick
from subjects.own.step import Step, StepFunction, grid, step


def module(**names: object) -> types.ModuleType:
    made = types.ModuleType("bench")
    vars(made).update(names)
    return made


def declared(cells: Any = None) -> StepFunction:  # noqa: ANN401
    @step(cells=cells or {"1": {"size": 1}})
    def join(_cell: dict[str, Any], _seed: int) -> Step:
        return Step(lambda: 1)

    return join


def test_the_functions_of_a_file_by_their_names():
    join = declared()

    assert functions_of(module(join=join, other=1, Step=Step)) == {"join": join}
    assert pick(module(join=join), "x.py", None) is join
    assert pick(module(join=join, leave=declared()), "x.py", "join") is join


@pytest.mark.parametrize(
    ("names", "name", "words"),
    [
        ({}, None, r"x.py: declares no function with @stepbench.step\(cells=...\)"),
        ({"a": 1, "b": 1}, None, "x.py: declares a, b: name one, as in x.py::a"),
        ({"a": 1}, "b", "x.py: declares no function 'b', but a"),
    ],
)
def test_a_function_that_cannot_be_picked(names: dict[str, int], name: str | None, words: str):
    with pytest.raises(InputError, match=words):
        pick(module(**{key: declared() for key in names}), "x.py", name)


def test_a_grid_has_all_combinations():
    assert grid(requests=[1, 64], tokens=(8,)) == {
        "1x8": {"requests": 1, "tokens": 8},
        "64x8": {"requests": 64, "tokens": 8},
    }


def test_numbers_are_sizes_and_texts_are_labels():
    (cell,) = cells_of(declared({"a": {"requests": 3, "mode": "fast"}}), "x.py")

    assert cell == Cell("a", {"requests": 3}, {"mode": "fast"})
    assert cell.values == {"requests": 3, "mode": "fast"}
    assert cell_from_dict(cell.to_dict()) == cell


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([1], r"cells must be a dictionary such as .*, not \[1\]"),
        ({"a": 1}, "cell 'a' must be a dictionary of its values, not 1"),
        ({"a": {"x": 1.5}}, "cell 'a': 'x' must be a whole number or a text, not 1.5"),
        ({"a": {"x": True}}, "cell 'a': 'x' must be a whole number or a text, not True"),
        ({"a": {"x": 1}, "b": {"y": 1}}, "cell 'b' has y, and the first one has x: all cells"),
        ({"a,b": {"x": 1}}, "cell 'a,b': a name has letters, digits"),
        ({"": {"x": 1}}, "cell '': a name has letters, digits"),
    ],
)
def test_cells_that_are_none(cells: object, words: str):
    with pytest.raises(InputError, match=words):
        cells_of(declared(cells), "x.py")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, r"x.py: must return stepbench.Step\(call, advance\), not a NoneType"),
        (Step(3), "x.py: call must be a function, not a int"),  # type: ignore[arg-type]
        (Step(len, advance=3), "x.py: advance must be a function, not a int"),  # type: ignore[arg-type]
    ],
)
def test_a_function_that_returns_no_step(made: Any, words: str):  # noqa: ANN401
    function = step(cells={"a": {}})(lambda _cell, _seed: made)

    with pytest.raises(InputError, match=words):
        built(function, Cell("a"), 0, "x.py")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "not a cell of this version"),
        ({"name": "a", "sizes": {"x": "1"}, "labels": {}}, "cell a: a size is no whole number"),
        ({"name": "a", "sizes": {}, "labels": {"x": 1}}, "cell a: a label is no text"),
    ],
)
def test_a_stored_cell_that_is_none(values: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
        cell_from_dict(values)
