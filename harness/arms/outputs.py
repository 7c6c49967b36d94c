"""The fields of what arms return, whatever type they are: dataclasses, named tuples, structs."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from connector.data import RequestData

# What cannot be written into, and holds nothing that can.
ATOMS = frozenset({int, bool, float, str, bytes, type(None)})

# The fields of an output that hold what it says of requests, one entry a request.
REQUESTS = ("new_requests", "cached_requests")
# Where classes of one kind or another name their fields.
_NAMED = ("_fields", "__struct_fields__", "model_fields", "__pydantic_fields__")


def field_names(value: object) -> Sequence[str]:
    """Return the fields of an output, or of what it says of a request, in their order."""
    kind: Any = type(value)
    layout = _layout(kind)
    if layout.is_mapping:
        return [name for name in cast("Mapping[object, object]", value) if isinstance(name, str)]
    return layout.names if layout.read else (*layout.names, *getattr(value, "__dict__", ()))


def field_values(value: object) -> tuple[Any, ...]:
    """Return what the fields hold, in the order of their names."""
    kind: Any = type(value)
    read = _layout(kind).read
    if read is not None:
        return read(value)
    return tuple(field_of(value, name) for name in field_names(value))


def field_of(value: object, name: str, default: object = None) -> Any:  # noqa: ANN401
    """Return a field; the default where there is none."""
    kind: Any = type(value)
    if _layout(kind).is_mapping:
        return cast("Mapping[object, object]", value).get(name, default)
    return getattr(value, name, default)


@dataclass(frozen=True)
class _Layout:
    """What a class says of the fields of its instances.

    Attributes:
        names: those that it declares.
        read: returns all of them at once; None where an instance may have others.
        is_mapping: whether the fields are the keys of a mapping.
    """

    names: tuple[str, ...] = ()
    read: Callable[[object], tuple[Any, ...]] | None = None
    is_mapping: bool = False


@functools.cache
def _layout(kind: Any) -> _Layout:  # noqa: ANN401
    if issubclass(kind, Mapping):
        return _Layout(is_mapping=True)
    names: list[str] | None = None
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    else:
        # Of the class: some libraries warn where an instance is asked.
        declared = next((name for name in _NAMED if hasattr(kind, name)), None)
        names = None if declared is None else list(getattr(kind, declared))
    if names is None:
        return _Layout(tuple(name for base in reversed(kind.__mro__) for name in _slots(base)))
    # Of one name it would not return a tuple.
    read = operator.attrgetter(*names) if len(names) > 1 else None
    return _Layout(tuple(names), read)


def with_field(value: Any, name: str, content: object) -> Any:  # noqa: ANN401
    """Return an output with another value of a field: the same object wherever that can change."""
    if isinstance(value, dict):
        value[name] = content
        return value
    if hasattr(type(value), "_replace"):
        return value._replace(**{name: content})
    try:
        setattr(value, name, content)
    except (AttributeError, TypeError, ValueError):
        # Frozen: each library has its own way around that, which its own __init__ takes.
        force = getattr(sys.modules.get("msgspec"), "structs", None)
        if hasattr(type(value), "__struct_fields__") and force is not None:
            return force.replace(value, **{name: content})
        object.__setattr__(value, name, content)
    return value


def by_group(value: Any) -> Any:  # noqa: ANN401
    """Return page indices by layer group as a mapping of the groups that have some."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return {group: indices for group, indices in pairs if indices}


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def requests_of(output: object) -> list[RequestData]:
    """Return what an output says of each request."""
    return [data for name in REQUESTS for data in field_of(output, name)]


def comparable(value: object) -> object:
    """Return a value, or of an array, which compares number by number, the numbers."""
    to_list = getattr(value, "tolist", None)
    return value if to_list is None else ("array", to_list())


def overwrite(output: object) -> None:
    """Change all lists of an output, as a consumer may do."""
    for name in REQUESTS:
        requests = field_of(output, name)
        for data in requests:
            for values in field_values(data):
                kind = type(values)
                if kind in ATOMS:
                    continue
                if isinstance(values, dict):
                    inner = [group for group in values.values() if isinstance(group, list)]
                    values[-99] = [-99]
                elif not isinstance(values, list):
                    continue
                elif values and isinstance(values[0], list):
                    inner = values
                else:
                    values[:] = [-99] * (len(values) + 1)
                    continue
                for each in inner:
                    each[:] = [-99] * (len(each) + 1)
        requests.clear()


def output_error(output: object) -> TypeError | None:
    """Return why something is no output; None if it is one."""
    if all(isinstance(field_of(output, name), list) for name in REQUESTS):
        return None
    return TypeError(f"no lists {' and '.join(REQUESTS)} in a {type(output).__name__}")
