"""Fields of outputs of each type."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import pytest

from harness.arms.outputs import by_group, field_names, field_of, with_field


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


class Named(NamedTuple):
    a: int
    b: int = 2


@attrs.frozen
class Attrs:
    a: int
    b: int = 2


class Slots:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a


class MoreSlots(Slots):
    __slots__ = ("__weakref__", "b")

    def __init__(self, a: int) -> None:
        super().__init__(a)
        self.b = 2


def struct(name: str) -> Any:  # noqa: ANN401
    library = pytest.importorskip(name)
    if name == "msgspec":
        return library.defstruct("Struct", [("a", int), ("b", int, 2)], frozen=True)(1)
    return library.create_model("Model", a=(int, ...), b=(int, 2))(a=1)


MAKES: dict[str, Any] = {
    "dataclass": lambda: Frozen(1),
    "named tuple": lambda: Named(1),
    "attrs": lambda: Attrs(1),
    "slots": lambda: MoreSlots(1),
    "mapping": lambda: {"a": 1, "b": 2},
    "msgspec": lambda: struct("msgspec"),
    "pydantic": lambda: struct("pydantic"),
}


@pytest.mark.parametrize("name", MAKES)
def test_fields_are_named_read_and_replaced(name: str):
    value = MAKES[name]()

    changed = with_field(value, "b", 7)

    assert list(field_names(value)) == ["a", "b"]
    assert [field_of(changed, field) for field in ("a", "b", "c")] == [1, 7, None]
    assert type(changed) is type(value)


def test_page_indices_by_group_are_those_of_groups_that_have_some():
    assert by_group([[1], [], [2, 3]]) == by_group({2: [2, 3], 0: [1]}) == {0: [1], 2: [2, 3]}
    assert by_group([]) == by_group({}) == by_group([[], []]) == {}
