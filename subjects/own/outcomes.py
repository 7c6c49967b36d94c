"""Outputs as plain trees, which compare across copies of a package. Of the standard library alone.

A class of one copy is not that of another: ``==`` would say that no two outputs are equal. A
tree is ``[type, text]`` of what has no parts, else ``[type, [[place, tree], ...]]``. Types have to
be the same, 1 and 1.0 differ; not a number equals itself, and so do 0.0 and -0.0.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from stepbench_core.errors import InputError

Tree = list[Any]
Parts = list[tuple[str, object]]

# What is told by its text, and holds nothing else.
_PLAIN = (bool, int, str, bytes, complex)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType)
# Where classes of one kind or another name their fields.
_NAMED = ("__struct_fields__", "model_fields", "__pydantic_fields__")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Parts of an output, counted wherever they occur: one that shares parts may be as good as endless.
_MOST = 500_000
_DEEPEST = 200
# Of a text that stands in a message, and of a key that stands in a place.
_LONGEST, _LONGEST_KEY = 200, 80


def tree_of(value: object) -> Tree:
    """Return a value as a plain tree.

    What has neither fields nor elements is told by its ``repr``, if its class has one of its own,
    else by its class alone.

    Raises:
        InputError: it cannot be compared: it holds a generator, or has too many parts.
    """
    return _Reader().tree(value, ())


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
    plain = ("int", "str", "float", "bool", "NoneType", "bytes")
    if isinstance(own, str):
        text = own if kind in plain else f"{kind} {own}"
    else:
        text = f"{kind} of {len(own)}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class _Reader:
    """Reads one output, and counts its parts."""

    def __init__(self) -> None:
        self._left = _MOST

    def tree(self, value: object, above: tuple[int, ...]) -> Tree:
        """Return a value as a tree, given the identities of the values that it is part of."""
        self._left -= 1
        if self._left < 0:
            raise InputError(
                f"the output has more than {_MOST:,} parts: give Step an outcome that returns what "
                "of it is to be compared"
            )
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        if type(value) in _PLAIN or value is None or value is ...:
            return [kind, repr(value)]
        if type(value) is float:
            return [kind, repr(value) if value else "0.0"]
        if id(value) in above:
            return [kind, f"the value {len(above) - above.index(id(value))} levels above"]
        if len(above) > _DEEPEST:
            raise InputError(
                f"the output is nested more than {_DEEPEST} levels deep: give Step an outcome that "
                "returns what of it is to be compared"
            )
        if isinstance(value, _CODE):
            return [kind, getattr(value, "__qualname__", getattr(value, "__name__", ""))]
        if hasattr(value, "__next__"):
            raise InputError(
                f"the output holds a {kind}, which is gone once it is read: return a list, or give "
                "Step an outcome that does"
            )
        inside = (*above, id(value))
        parts = self._elements(value, inside)
        parts += [(f".{name}", held) for name, held in _fields(value)]
        if parts:
            return [kind, [[place, self.tree(part, inside)] for place, part in parts]]
        if isinstance(value, Iterable):
            return [kind, []]
        has_own = type(value).__repr__ is not object.__repr__
        # Where it lies in memory is no part of it.
        return [kind, _ADDRESS.sub("", repr(value)) if has_own else "without fields"]

    def _elements(self, value: object, inside: tuple[int, ...]) -> Parts:
        """Return the elements of a value with their places, and what it is as a built-in."""
        if isinstance(value, Mapping):
            # Equal mappings may have their keys in any order.
            pairs = [(f"[{self._key(key, inside)}]", item) for key, item in value.items()]
            return sorted(pairs, key=lambda pair: pair[0])
        if isinstance(value, AbstractSet):
            texts = sorted(self._key(item, inside) for item in value)
            return [(f"{{{number}}}", text) for number, text in enumerate(texts)]
        if isinstance(value, os.PathLike):
            return [(".path", os.fspath(value))]
        if isinstance(value, BaseException):
            return [(".args", value.args)]
        for kind in (*_PLAIN, float):  # Of a class that is one, what it is.
            if isinstance(value, kind):
                base: Any = kind
                return [(".value", base.__new__(base, value))]
        if isinstance(value, bytearray | memoryview):
            return [(".value", bytes(value))]
        if isinstance(value, Sequence):
            return [(f"[{number}]", item) for number, item in enumerate(value)]
        to_list = getattr(value, "tolist", None)
        if callable(to_list):  # An array of any library.
            about = [(f".{name}", str(getattr(value, name, ""))) for name in ("dtype", "shape")]
            return [("", to_list()), *about]
        if isinstance(value, Iterable):
            return [(f"[{number}]", item) for number, item in enumerate(value)]
        return []

    def _key(self, key: object, inside: tuple[int, ...]) -> str:
        """Return a text that tells a key, or an element of a set, from all that differ from it."""
        tree = self.tree(key, inside)
        text = tree[1] if isinstance(tree[1], str) else json.dumps(tree)
        if type(key) is tuple and all(type(each) in _PLAIN for each in key):
            text = repr(key)
        if len(text) <= _LONGEST_KEY and isinstance(key, (*_PLAIN, float, tuple)):
            return str(text)
        return f"{text[: _LONGEST_KEY - 20]}… {digest_of(tree)[:12]}"


def _fields(value: object) -> Parts:
    """Return the fields of a value: those that its class declares, else all that it has."""
    kind: Any = type(value)
    if isinstance(value, os.PathLike):
        return []  # Paths keep what they were asked for.
    names: list[str] | None = None
    found: Parts
    if isinstance(value, tuple):
        names = []  # Its elements are told by their places.
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    else:
        listed = next((name for name in _NAMED if getattr(kind, name, None)), None)
        names = None if listed is None else list(getattr(kind, listed))
    if names is not None:
        found = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
        skipped = {field.name for field in getattr(kind, "__dataclass_fields__", {}).values()}
        # What a subclass that declares nothing has beyond them.
        own = getattr(value, "__dict__", {}).items()
        return [*found, *((name, held) for name, held in own if name not in {*names, *skipped})]
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    found = [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    return [*found, *vars(value).items()] if hasattr(value, "__dict__") else found


def _slots(kind: type) -> list[str]:
    """Return the attributes that a class has slots for; private ones by their real names."""
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    own = kind.__name__.lstrip("_")
    return [
        f"_{own}{name}" if name.startswith("__") and not name.endswith("__") and own else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]
