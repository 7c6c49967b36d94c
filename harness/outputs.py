"""The fields of what arms return, whatever type they are: dataclasses, named tuples, structs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

# Where classes of one kind or another name their fields.
_NAMED = ("_fields", "__struct_fields__", "model_fields", "__pydantic_fields__")


def field_names(value: object) -> list[str]:
    """Return the fields of an output, or of what it says of a request, in their order."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if isinstance(value, Mapping):
        return [name for name in value if isinstance(name, str)]
    for names in _NAMED:
        # Of the class: some libraries warn where an instance is asked.
        if hasattr(kind, names):
            return list(getattr(kind, names))
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    slots = [name for base in reversed(kind.__mro__) for name in _slots(base)]
    return [*slots, *getattr(value, "__dict__", ())]


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
