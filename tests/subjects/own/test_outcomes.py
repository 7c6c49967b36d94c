"""Outputs of different copies of a package, compared as trees."""

import array
import collections
import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench_core.errors import InputError
from subjects.own.outcomes import difference, digest_of, tree_of

Make = Callable[["Classes"], object]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def asked(path: pathlib.Path) -> pathlib.Path:
    """Return a path that keeps its text, since it was asked for it."""
    str(path)
    hash(path)
    return path


class Classes:
    """Classes as a copy of a package has them: like those of another copy in name alone."""

    def __init__(self) -> None:
        @dataclasses.dataclass
        class Data:
            ids: list[int]
            note: str = dataclasses.field(default="", compare=False)

        class Slotted:
            __slots__ = ("left", "right")

            def __init__(self, left: object, right: object) -> None:
                self.left = left
                self.right = right

        class Plain:
            def __init__(self, **fields: object) -> None:
                self.__dict__.update(fields)

        class Private:
            __slots__ = ("__x",)

            def __init__(self, x: int) -> None:
                self.__x = x

        class Number(int):
            note: str

            def __new__(cls, value: int) -> "Number":
                made = super().__new__(cls, value)
                made.note = ""
                return made

        class Called:
            def __init__(self, x: int) -> None:
                self.x = x

            def __call__(self) -> int:
                return self.x

        self.data, self.slotted, self.plain = Data, Slotted, Plain
        self.private, self.number, self.called = Private, Number, Called


@given(PLAIN)
def test_a_value_equals_itself(value: object):
    assert difference(tree_of(value), tree_of(value)) is None


@given(PLAIN, PLAIN)
def test_trees_are_alike_where_values_of_one_type_are_equal(one: object, other: object):
    alike = difference(tree_of(one), tree_of(other)) is None

    assert alike == (digest_of(tree_of(one)) == digest_of(tree_of(other)))
    if alike:
        assert one == other


@pytest.mark.parametrize(
    ("make", "other", "found"),
    [
        (lambda k: k.data([1, 2]), lambda k: k.data([1, 2], "seen"), None),
        (lambda k: k.data([1, 2]), lambda k: k.data([1, 3]), ("output.ids[1]", "2", "3")),
        (lambda k: k.slotted(1, 2), lambda k: k.slotted(1, 2), None),
        (lambda k: k.slotted(1, 2), lambda k: k.slotted(2, 2), ("output.left", "1", "2")),
        (lambda k: k.plain(a=1), lambda k: k.plain(a=1, b=2), ("output.b", "nothing", "2")),
        (lambda k: k.private(1), lambda k: k.private(1), None),
        (lambda k: k.private(1), lambda k: k.private(2), ("output._Private__x", "1", "2")),
        (lambda k: k.number(1), lambda k: k.number(2), ("output.value", "1", "2")),
        (lambda k: k.called(1), lambda k: k.called(2), ("output.x", "1", "2")),
        (lambda k: {k.called(1): 1}, lambda k: {k.called(1): 1}, None),
    ],
)
def test_instances_of_the_classes_of_two_copies(
    make: Make, other: Make, found: tuple[str, str, str] | None
):
    assert difference(tree_of(make(Classes())), tree_of(other(Classes()))) == found


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
        ({"a": 1}, {"a": 2}, ("output['a']", "1", "2")),
        ([1], [1, 2], ("output[1]", "nothing", "2")),
        ({3, 1}, {1, 3}, None),
        ({3, 1}, {1, 4}, ("output{1}", "'3'", "'4'")),
        # Keys that are long, and alike at first.
        ({(*range(99), 1): 1}, {(*range(99), 1): 1}, None),
        (pathlib.Path("a/b"), asked(pathlib.Path("a/b")), None),
        (ValueError(1), ValueError(2), ("output.args[0]", "1", "2")),
        ([], [], None),
        ([], (), ("output", "list of 0", "tuple of 0")),
        (functools.partial(int, 1), functools.partial(int, 1), None),
        (1, 1.0, ("output", "1", "1.0")),
        (True, 1, ("output", "True", "1")),
        (math.nan, math.nan, None),
        (0.0, -0.0, None),
        ((1, 2), [1, 2], ("output", "tuple of 2", "list of 2")),
        (array.array("i", [1, 2]), array.array("i", [1, 3]), ("output[1]", "2", "3")),
        (collections.deque([1]), collections.deque([2]), ("output[0]", "1", "2")),
        (len, len, None),
        (object(), object(), None),
    ],
)
def test_other_values(one: object, other: object, found: tuple[str, str, str] | None):
    assert difference(tree_of(one), tree_of(other)) == found


def test_what_holds_itself_has_an_end():
    own: list[object] = [1]
    own.append(own)
    other: list[object] = [1]
    other.append([1, other])

    assert difference(tree_of(own), tree_of(own)) is None
    assert difference(tree_of(own), tree_of(other)) is not None


def test_a_long_text_is_cut():
    _, expected, _ = difference(tree_of("a" * 1000), tree_of("b")) or ("", "", "")

    assert len(expected) == 200


def test_long_keys_that_differ_at_their_end_do():
    one, other = {(*range(99), 1): 1}, {(*range(99), 2): 1}

    assert difference(tree_of(one), tree_of(other)) is not None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ((each for each in [1]), "the output holds a generator, which is gone once it is read"),
        ([iter([1])], "the output holds a list_iterator"),
    ],
)
def test_what_can_be_read_once_cannot_be_compared(value: object, words: str):
    with pytest.raises(InputError, match=words):
        tree_of(value)


@pytest.mark.thorough
def test_an_output_that_shares_its_parts_without_end_is_refused():
    value: list[object] = [1]
    for _ in range(30):
        value = [value, value]

    with pytest.raises(InputError, match="the output has more than 500,000 parts"):
        tree_of(value)


def test_a_subclass_of_a_dataclass_that_declares_nothing_has_its_attributes_as_well():
    @dataclasses.dataclass
    class Data:
        a: int = 1
        note: str = dataclasses.field(default="", compare=False)

    class More(Data):
        pass

    one, other = More(), More(note="seen")
    assert difference(tree_of(one), tree_of(other)) is None
    vars(other)["b"] = 2
    assert difference(tree_of(one), tree_of(other)) == ("output.b", "nothing", "2")


def test_where_something_lies_in_memory_is_no_part_of_it():
    class Odd:
        __slots__ = ()

        def __repr__(self) -> str:
            return f"<odd at {id(self):#x}>"

    kept = [Odd(), Odd()]
    assert difference(tree_of(kept[0]), tree_of(kept[1])) is None
