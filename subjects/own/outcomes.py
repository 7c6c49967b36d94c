"""Outputs as plain trees, which compare across copies of a package. Of the standard library alone.

A class of one copy is not that of another, so that equality by ``==`` would say that no two outputs
are equal. A tree is ``[type, text]`` of what has no parts, else ``[type, [[place, tree], ...]]``.
Types have to be the same, 1 and 1.0 differ; not a number equals itself, and so do 0.0 and -0.0.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

Tree = list[Any]

_PLAIN = (bool, int, str, bytes, type(None), complex, type(...), range)
# Of a text that stands in a message.
_LONGEST = 200


def tree_of(value: object, above: tuple[int, ...] = ()) -> Tree:
    """Return a value as a plain tree.

    Args:
        value: anything. What has neither fields nor elements is told by its ``repr``, if its class
            has one of its own, else by its class alone.
        above: the identities of the values that it is part of.
    """
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    if isinstance(value, _PLAIN) and type(value).__module__ == "builtins":
        return [kind, repr(value)]
    if isinstance(value, float) and type(value) is float:
        return [kind, repr(value + 0.0) if value else "0.0"]
    if id(value) in above:
        return [kind, f"the value {len(above) - above.index(id(value))} levels above"]
    if len(above) > 200:
        return [kind, "nested more than 200 levels deep"]
    inside = (*above, id(value))
    return [kind, _parts(value, inside)]


def digest_of(tree: Tree) -> str:
    """Return a short digest of a tree."""
    return hashlib.sha256(json.dumps(tree).encode()).hexdigest()[:32]


def difference(expected: Tree, actual: Tree, place: str = "output") -> tuple[str, str, str] | None:
    """Return the first place where two trees differ, and what is there in each; None if nowhere."""
    (kind, own), (other_kind, others) = expected, actual
    if kind != other_kind:
        return place, _told(expected), _told(actual)
    if isinstance(own, str) or isinstance(others, str):
        return None if own == others else (place, _told(expected), _told(actual))
    parts, other_parts = dict(own), dict(others)
    for name in [*parts, *(name for name in other_parts if name not in parts)]:
        if name not in other_parts:
            return f"{place}{name}", _told(parts[name]), "nothing"
        if name not in parts:
            return f"{place}{name}", "nothing", _told(other_parts[name])
        found = difference(parts[name], other_parts[name], f"{place}{name}")
        if found is not None:
            return found
    return None


def _told(tree: Tree) -> str:
    kind, own = tree
    if isinstance(own, str):
        text = (
            own if kind in ("int", "str", "float", "bool", "NoneType", "bytes") else f"{kind} {own}"
        )
    else:
        text = f"{kind} of {len(own)}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _parts(value: object, inside: tuple[int, ...]) -> str | list[list[Any]]:
    """Return the parts of a value with their places, or its text where it has none."""
    if isinstance(value, Mapping):
        pairs = [(f"[{key!r:.80}]", item) for key, item in value.items()]
        # Equal mappings may have their keys in any order.
        return sorted(_trees(pairs, inside), key=json.dumps)
    if isinstance(value, AbstractSet):
        trees = sorted((tree_of(item, inside) for item in value), key=json.dumps)
        return [[f"{{{number}}}", tree] for number, tree in enumerate(trees)]
    fields = _fields(value)
    if fields is not None:
        return _trees([(f".{name}", item) for name, item in fields], inside)
    if isinstance(value, bytearray | memoryview):
        return repr(bytes(value))
    if isinstance(value, Sequence):
        return _trees([(f"[{number}]", item) for number, item in enumerate(value)], inside)
    to_list = getattr(value, "tolist", None)
    if callable(to_list):  # An array of any library.
        listed = _trees([("", to_list())], inside)
        return [*listed, [".dtype", ["str", str(getattr(value, "dtype", ""))]]]
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    held = getattr(value, "__dict__", None)
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    if held or slots:
        pairs = [(f".{name}", getattr(value, name)) for name in slots if hasattr(value, name)]
        return _trees(
            [*pairs, *((f".{name}", item) for name, item in (held or {}).items())], inside
        )
    if isinstance(value, Iterable) and not hasattr(value, "__next__"):
        return _trees([(f"[{number}]", item) for number, item in enumerate(value)], inside)
    has_own = type(value).__repr__ is not object.__repr__
    return repr(value) if has_own else "without fields"


def _fields(value: object) -> list[tuple[str, object]] | None:
    """Return the fields that the class of a value declares; None where it declares none."""
    kind: Any = type(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    else:
        listed = ("_fields", "__struct_fields__", "model_fields", "__pydantic_fields__")
        declared = next((name for name in listed if hasattr(kind, name)), None)
        if declared is None:
            return None
        names = list(getattr(kind, declared))
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _trees(pairs: Iterable[tuple[str, object]], inside: tuple[int, ...]) -> list[list[Any]]:
    return [[place, tree_of(item, inside)] for place, item in pairs]
