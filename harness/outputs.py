"""The fields of what arms return, whatever type they are: dataclasses, named tuples, structs."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from connector.data import RequestData

# The fields of an output that hold what it says of requests, one entry a request.
REQUESTS = ("new_requests", "cached_requests")
# Where classes of one kind or another name their fields.
_NAMED = ("_fields", "__struct_fields__", "model_fields", "__pydantic_fields__")


def field_names(value: object) -> Sequence[str]:
    """Return the fields of an output, or of what it says of a request, in their order."""
    if isinstance(value, Mapping):
        return [name for name in value if isinstance(name, str)]
    kind: Any = type(value)  # Which is hashable, though mypy does not take it for that.
    declared, is_closed = _declared(kind)
    return declared if is_closed else (*declared, *getattr(value, "__dict__", ()))


@functools.cache
def _declared(kind: Hashable) -> tuple[tuple[str, ...], bool]:
    """Return the fields that a class declares, and whether its instances have no others."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind)), True
    for names in _NAMED:
        # Of the class: some libraries warn where an instance is asked.
        if hasattr(kind, names):
            return tuple(getattr(kind, names)), True
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(field.name for field in kind.__attrs_attrs__), True
    bases: tuple[type, ...] = getattr(kind, "__mro__", ())
    return tuple(name for base in reversed(bases) for name in _slots(base)), False


def field_of(value: object, name: str, default: object = None) -> Any:  # noqa: ANN401
    """Return a field; the default where there is none."""
    if isinstance(value, Mapping):
        return value.get(name, default)
    return getattr(value, name, default)


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
    for data in requests_of(output):
        for name in field_names(data):
            values = field_of(data, name)
            if isinstance(values, dict):
                inner = [group for group in values.values() if isinstance(group, list)]
                values[-99] = [-99]
            elif isinstance(values, list):
                is_by_group = values and isinstance(values[0], list)
                inner = values if is_by_group else [values]
            else:
                continue
            for each in inner:
                each[:] = [-99] * (len(each) + 1)
    for name in REQUESTS:
        field_of(output, name).clear()
